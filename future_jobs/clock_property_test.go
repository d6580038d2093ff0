package futurejobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/longtest"
	"deadman/internal/scheduler"
	"deadman/rules"
)

const (
	heartbeatRule = `
name: beating
entity: device
trigger: {heartbeat: {event: device.beat, key: event.id, every: 20s, grace: 5s}}
slot: 1s
`
	ticking = `
name: ticking
entity: report
trigger: {schedule: "@every 30s"}
escalate: [{after: 10s, step: only, severity: error}]
slot: 1s
`
)

// clockOutage is a period in which the database's clock is off.
type clockOutage struct{ from, to, off time.Duration }

// offset draws a clock offset: seconds to a year, in either direction.
func offset(random *rand.Rand) time.Duration {
	scale := []time.Duration{3 * time.Second, time.Minute, time.Hour, futurejobs.Day, 365 * futurejobs.Day}[random.IntN(5)]
	off := scale + time.Duration(random.Int64N(int64(scale)))
	if random.IntN(2) == 0 {
		return -off
	}
	return off
}

// expectedAlert is the time since the beginning at which a stable clock would raise an alert.
type expectedAlert struct {
	at    time.Duration
	never bool
}

// clockFixture is an engine with a database clock that is off at times.
type clockFixture struct {
	*engine
	begun  time.Time
	listed int64                    // the settlements before the alerts were listed
	want   map[string]expectedAlert // by rule and key
	raised map[string]time.Duration // first alert by rule and key, since the beginning
}

func (w *clockFixture) since() time.Duration { return time.Since(w.begun) }

// publish applies an event, stamped by a broker on the database's machine.
func (w *clockFixture) publish(subject, key string) { w.publishAt(subject, key, w.wall.Now()) }

func (w *clockFixture) publishAt(subject, key string, at time.Time) {
	w.Helper()
	w.seq++
	effects, refused := w.catalog.Match(futurejobs.Event{
		Stream: "S", Subject: subject, Seq: w.seq, At: w.clock.PlaceShared(w.Context(), at), Data: fmt.Appendf(nil, `{"id":%q}`, key),
	})
	if len(refused) > 0 {
		w.Fatal(refused)
	}
	if _, err := w.store.Apply(w.Context(), futurejobs.EffectBatch{
		Stream: "S", After: w.seq - 1, Last: w.seq, RuleSet: w.catalog.Revision(), Effects: effects,
	}); err != nil {
		w.Fatal(err)
	}
}

// collectAlerts marks the stream as read, and records new alerts.
func (w *clockFixture) collectAlerts() {
	w.Helper()
	if err := w.store.MarkRead(w.Context(), "S", w.seq, w.clock.Now()); err != nil {
		w.Fatal(err)
	}
	w.newAlerts(&w.listed, func(a futurejobs.ListedAlert) {
		name := a.Rule + "/" + a.Key
		if _, known := w.raised[name]; !known {
			w.raised[name] = w.since()
		}
	})
}

// drawOdds returns the number of draws of a property that take too long for the short loop: the long one is for
// DEADMAN_TEST_LONG.
func drawOdds(short, long uint64) uint64 {
	if longtest.Enabled() {
		return long
	}
	return short
}

// play runs the planned clock outings together with events, until end.
func play(t *testing.T, outages []clockOutage, end time.Duration) *clockFixture {
	w := &clockFixture{engine: startEngine(t, nil, withResolve, fmt.Sprintf(noResolve, "fine", "fine")), want: map[string]expectedAlert{}, raised: map[string]time.Duration{}}
	e := w.engine
	e.save(ticking)
	e.save(heartbeatRule, rules.StreamBinding{Subject: "device.beat", Stream: "S"})
	if err := e.catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	ticker := scheduler.New(scheduler.Options{
		Catalog: e.catalog, Cursors: e.store, Shards: e.owner, Now: e.clock.Now, Observer: quietTicks{}, Log: slog.New(slog.DiscardHandler),
		Announce: func(ctx context.Context, r alerts.SystemAlert) error {
			_, _, err := e.store.WriteSystemAlert(ctx, r)
			return err
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ticker.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	time.Sleep(2100 * time.Millisecond)
	w.begun = time.Now()
	for n := 0; w.since() < end; n++ {
		now := w.since()
		off := time.Duration(0)
		for _, o := range outages {
			if now >= o.from && now < o.to {
				off = o.off
			}
		}
		w.wall.set(off)
		if n%8 == 0 && now < end-time.Minute {
			key := fmt.Sprint(n)
			w.publish("fine.created", key)
			w.publish("slow.created", key)
			w.publish("slow.created", "done"+key)
			w.want["fine/"+key], w.want["slow/"+key] = expectedAlert{at: now + 10*time.Second}, expectedAlert{at: now + 10*time.Second}
			w.want["slow/done"+key] = expectedAlert{at: now + 10*time.Second, never: true}
		}
		if n%8 == 4 && n > 8 {
			w.publish("slow.done", fmt.Sprint("done", n-12)) // six seconds later
		}
		if n%16 == 0 {
			w.publish("device.beat", "alive")
		}
		if n%16 == 0 && now < end/2 {
			w.publish("device.beat", "silent")
			w.want["beating/silent"] = expectedAlert{at: now + 25*time.Second}
		}
		w.collectAlerts()
		if err := w.catalog.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
	}
	return w
}

type quietTicks struct{}

func (quietTicks) Ticked(string, futurejobs.TickOutcome, int) {}
func (quietTicks) Alerted(alerts.Alert)                       {}

// The database's clock flickers: it is off for up to 10 s, again and again, by seconds to a year. Every alert is
// raised at the same time as with a stable clock, and no other alert.
func TestVirtualClockFlickersChangeNothing(t *testing.T) {
	t.Parallel()
	for seed := range drawOdds(3, 12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 49))
				var outages []clockOutage
				const end = 5 * time.Minute
				for at := 5 * time.Second; at < end; {
					lasts := 500*time.Millisecond + time.Duration(random.Int64N(int64(9*time.Second)))
					outages = append(outages, clockOutage{at, at + lasts, offset(random)})
					at += lasts + time.Second + time.Duration(random.Int64N(int64(20*time.Second)))
				}
				w := play(t, outages, end)
				w.checkAlerts(3*time.Second, outages)
				w.checkTicks(end)
			})
		})
	}
}

// checkAlerts compares the alerts with those of a stable clock, allowing a maximum delay.
func (w *clockFixture) checkAlerts(late time.Duration, outages []clockOutage) {
	w.Helper()
	for name, want := range w.want {
		at, raised := w.raised[name]
		switch {
		case want.never && raised:
			w.Errorf("%s: false alert at %s; the clock was off: %v", name, at, outages)
		case want.never:
		case !raised:
			w.Errorf("%s: no alert, due at %s; the clock was off: %v", name, want.at, outages)
		case at < want.at-time.Second:
			w.Errorf("%s: alert at %s, %s early; the clock was off: %v", name, at, want.at-at, outages)
		case at > want.at+late:
			w.Errorf("%s: alert at %s, %s late; the clock was off: %v", name, at, at-want.at, outages)
		}
	}
	if at, raised := w.raised["beating/alive"]; raised {
		w.Errorf("false alert at %s of a device that beats; the clock was off: %v", at, outages)
	}
}

// checkTicks requires one alert for each tick.
func (w *clockFixture) checkTicks(end time.Duration) {
	w.Helper()
	n := 0
	for name := range w.raised {
		if strings.HasPrefix(name, "ticking/") {
			n++
		}
	}
	if want := int(end/(30*time.Second)) - 1; n < want-1 || n > want+1 {
		w.Errorf("%d ticks were alerted of, want about %d", n, want)
	}
}

// The database's clock is off for longer than a flicker, and right again: jobs from before or meanwhile are late by
// at most that time plus 10 s, and later jobs are on time.
func TestVirtualClockErrorsDelayNothingLonger(t *testing.T) {
	t.Parallel()
	for seed := range drawOdds(6, 12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 50))
				off, lasts := offset(random), 11*time.Second+time.Duration(random.Int64N(int64(40*time.Second)))
				const end = 4 * time.Minute
				outages := []clockOutage{{30 * time.Second, 30*time.Second + lasts, off}}
				w := play(t, outages, end)
				for name, want := range w.want {
					at, raised := w.raised[name]
					followed := want.at > 40*time.Second && !(want.at > 40*time.Second+lasts) // it began by the wrong time
					if off > 0 && followed {
						continue // it keeps those times
					}
					afterwards := want.at > 30*time.Second+lasts+25*time.Second // all of it came after
					switch {
					case strings.HasPrefix(name, "beating/"): // heartbeats may restart
					case want.never && raised && afterwards:
						w.Errorf("%s: false alert at %s; the clock was off: %v", name, at, outages)
					case want.never:
					case !raised || at > want.at+lasts+12*time.Second || afterwards && at > want.at+3*time.Second:
						w.Errorf("%s: due at %s, alert at %s (%v); the clock was off: %v", name, want.at, at, raised, outages)
					case afterwards && at < want.at-time.Second:
						w.Errorf("%s: due at %s, alert at %s, early; the clock was off: %v", name, want.at, at, outages)
					}
				}
				if _, raised := w.raised["beating/silent"]; !raised {
					w.Errorf("no alert of the silent device; the clock was off: %v", outages)
				}
			})
		})
	}
}

// The database's clock is set permanently: alerts of later jobs are on time.
func TestVirtualClockSetForGoodDelaysNothing(t *testing.T) {
	t.Parallel()
	for seed := range drawOdds(6, 12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				off := offset(rand.New(rand.NewPCG(seed, 51)))
				const end = 4 * time.Minute
				outages := []clockOutage{{30 * time.Second, futurejobs.Day, off}}
				w := play(t, outages, end)
				for name, want := range w.want {
					at, raised := w.raised[name]
					if want.at < 70*time.Second || strings.HasPrefix(name, "beating/") {
						continue
					}
					switch {
					case want.never && raised:
						w.Errorf("%s: false alert at %s; the clock was off: %v", name, at, outages)
					case !want.never && (!raised || at > want.at+3*time.Second || at < want.at-time.Second):
						w.Errorf("%s: due at %s, alert at %s (%v); the clock was off: %v", name, want.at, at, raised, outages)
					}
				}
				var lastTick time.Duration
				for name, at := range w.raised {
					if strings.HasPrefix(name, "ticking/") {
						lastTick = max(lastTick, at)
					}
				}
				if lastTick < end-time.Minute {
					w.Errorf("the last tick was alerted of at %s; the clock was off: %v", lastTick, outages)
				}
				if _, raised := w.raised["beating/silent"]; !raised {
					w.Errorf("no alert of the silent device; the clock was off: %v", outages)
				}
			})
		})
	}
}
