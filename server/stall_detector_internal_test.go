package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// watched runs leases, sweeps and the stall detector on a real SQLite store, in virtual time. The test controls the
// reading of the stream S.
type watched struct {
	*testing.T
	dir, rule string
	line      string // by which the rule reads the stream S

	store       *store.Store
	catalog     *rules.Catalog
	owner       *futurejobs.Owner
	clock       *futurejobs.Clock
	sweeper     *futurejobs.Sweeper
	woken       atomic.Pointer[futurejobs.Sweeper] // the newest sweeper
	blind       *stallDetector
	overdue     *overdue
	alarms      *alarms
	gapDetector *futurejobs.GapDetector
	caughtUp    func() time.Time
	seq         uint64
	stop        context.CancelFunc // of all components
	hang        context.CancelFunc // of the sweep
	done        []chan error
}

const everyMinute = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 30m, step: primary}]
slot: 1m
hold: 1d
`

// watch runs the components in virtual time, from five minutes before an hour.
func watch(t *testing.T, rule string, play func(w *watched)) {
	t.Helper()
	watchLine(t, "S", rule, play)
}

// watchLine is watch with a rule on a line of the stream S.
func watchLine(t *testing.T, line, rule string, play func(w *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(55 * time.Minute)))
		w := &watched{T: t, dir: storetest.DataDir(t), rule: rule, line: line, caughtUp: time.Now}
		w.open()
		defer w.close()
		play(w)
	})
}

func (w *watched) open() {
	w.Helper()
	quiet := slog.New(slog.DiscardHandler)
	var err error
	if w.store, err = store.Open(w.Context(), store.Options{DataDir: w.dir, Shards: 4, Log: quiet}); err != nil {
		w.Fatal(err)
	}
	w.must(w.store.Reclaim(w.Context()))
	w.save()
	w.catalog = rules.NewCatalog(w.store, 4)
	w.must(w.catalog.Refresh(w.Context()))
	w.clock = futurejobs.NewClock(w.store.Now, time.Now)
	w.must(w.clock.Sync(w.Context()))
	w.owner = futurejobs.NewOwner(w.store, futurejobs.Node{ID: "n", Name: "n"}, 15*time.Second, time.Now, quiet)
	w.blind = &stallDetector{
		store: w.store, catalog: w.catalog, now: w.clock.Now, after: overdueAfter + 5*time.Second, log: quiet,
		taps: func() []events.Status { return []events.Status{{Line: w.line, CaughtUp: w.caughtUp()}} },
		announce: func(ctx context.Context, r alerts.SystemAlert) error {
			_, _, err := w.store.WriteSystemAlert(ctx, r)
			return err
		},
	}
	w.owner.Changed, w.catalog.Changed = w.wake, w.wake
	w.overdue = &overdue{store: w.store, catalog: w.catalog, now: w.clock.Now, after: overdueAfter}
	w.alarms = &alarms{
		overdue: w.overdue, quotas: new(access.Quotas), store: w.store, after: w.blind.after + 2*stallCheckInterval, log: quiet,
		record: func(_ alerts.Alert, _ bool, err error) error { return err },
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.done = stop, nil
	w.run(func() error { return w.alarms.Run(ctx) })
	w.run(func() error { return w.owner.Run(ctx) })
	w.run(func() error { return w.blind.Run(ctx) })
	w.gapDetector = futurejobs.NewGapDetector(w.store, "n", time.Now, quiet)
	w.run(func() error { return w.gapDetector.Run(ctx) })
	w.sweep()
}

func (w *watched) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// save saves the rule if it does not exist yet.
func (w *watched) save() {
	w.Helper()
	if _, all, err := w.store.Load(w.Context()); err != nil || len(all) > 0 {
		w.must(err)
		return
	}
	w.saveNew(w.rule)
}

// saveNew saves a rule.
func (w *watched) saveNew(rule string) rules.RuleVersion {
	w.Helper()
	documents, err := rules.Parse([]byte(rule), "rule.yaml")
	w.must(err)
	text, err := json.Marshal(documents[0])
	w.must(err)
	saved := rules.RuleVersion{Name: documents[0].Name, Entity: documents[0].Entity, Document: text}
	for _, subject := range documents[0].Subjects() {
		saved.Reads = append(saved.Reads, rules.StreamBinding{Subject: subject, Stream: w.line})
	}
	saved, err = w.store.Save(w.Context(), saved, rules.AnyVersion)
	w.must(err)
	return saved
}

func (w *watched) run(part func() error) {
	done := make(chan error, 1)
	w.done = append(w.done, done)
	go func() { done <- part() }()
}

// sweep sweeps until hang is called.
func (w *watched) sweep() {
	sweeper := futurejobs.NewSweeper(w.store, w.catalog, w.owner, w.clock, 4, w.blind.log)
	sweeper.BeforeResume, sweeper.BeforeSweep = w.blind.Resuming, w.gapDetector.Flush
	w.woken.Store(sweeper)
	ctx, hang := context.WithCancel(context.Background())
	w.hang, w.sweeper = hang, sweeper
	w.run(func() error { return sweeper.Run(ctx, context.Background()) })
}

// wake wakes the newest sweeper, if there is one.
func (w *watched) wake() {
	if sweeper := w.woken.Load(); sweeper != nil {
		sweeper.Wake()
	}
}

// close stops all components, like a shutdown.
func (w *watched) close() {
	w.Helper()
	w.hang()
	w.stop()
	for _, done := range w.done {
		w.must(<-done)
	}
	w.must(w.store.Close())
}

// pass advances the time. Each second, the stream is marked as read to its current position.
func (w *watched) pass(d time.Duration) {
	w.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		w.must(w.store.MarkRead(w.Context(), w.line, w.seq, w.caughtUp()))
	}
	synctest.Wait()
}

// orders creates jobs.
func (w *watched) orders(n int) {
	w.Helper()
	for range n {
		e := futurejobs.Event{Stream: "S", Subject: "orders.created", Seq: w.seq + 1, At: time.Now(), Data: fmt.Appendf(nil, `{"id":"o%d"}`, w.seq)}
		effects, refusals := w.catalog.Match(e)
		if len(effects) != 1 || len(refusals) != 0 {
			w.Fatalf("an order comes to %+v, %+v", effects, refusals)
		}
		_, err := w.store.Apply(w.Context(), futurejobs.EffectBatch{
			Stream: w.line, After: w.seq, Last: e.Seq, LastAt: e.At, RuleSet: w.catalog.Revision(), Effects: effects,
		})
		w.must(err)
		w.seq = e.Seq
	}
}

// said returns the alerts about stalls, oldest first.
func (w *watched) said() []futurejobs.ListedAlert {
	w.Helper()
	page, err := w.store.Alerts(w.Context(), futurejobs.Filter{Rule: alerts.SystemRule, Limit: futurejobs.MaxLimit})
	w.must(err)
	slices.Reverse(page.Items)
	slices.SortStableFunc(page.Items, func(a, b futurejobs.ListedAlert) int { return a.DecidedAt.Compare(b.DecidedAt) })
	return page.Items
}

// silent fails the test if any such alert was raised.
func (w *watched) silent(when string) {
	w.Helper()
	for _, a := range w.said() {
		w.Errorf("%s: said %s %s: %s", when, a.Key, a.Status, a.Text)
	}
}

// pair returns the alerts of a topic, which must be one firing alert and its resolution.
func (w *watched) pair(topic string) (firing, resolved futurejobs.ListedAlert) {
	w.Helper()
	listed := slices.DeleteFunc(w.said(), func(a futurejobs.ListedAlert) bool { return a.Key != topic })
	if len(listed) != 2 || listed[0].Status != alerts.Firing || listed[1].Status != alerts.Resolved || !slices.Equal(listed[1].Closes, []alerts.ID{listed[0].ID}) {
		w.Fatalf("said of %s: %+v", topic, listed)
	}
	return listed[0], listed[1]
}

func TestIdleNodeHasNoMonitoringGap(t *testing.T) {
	watch(t, everyMinute, func(w *watched) {
		w.pass(10 * time.Minute)
		w.silent("the first ten minutes")
		w.close()
		time.Sleep(20 * time.Second)
		w.open()
		w.pass(5 * time.Minute)
		w.silent("after a restart of seconds")
	})
}

func TestNoSlotIsMissedBetweenSlots(t *testing.T) {
	watch(t, strings.Replace(everyMinute, "slot: 1m", "slot: 15m", 1), func(w *watched) {
		w.pass(6 * time.Minute) // past the hour
		w.close()
		time.Sleep(10 * time.Minute)
		w.open()
		w.pass(2 * time.Minute)
		if listed := w.said(); len(listed) != 2 || listed[0].Key != "ingest/S" {
			t.Errorf("between two slots: %+v, want the stream alone", listed)
		}
	})
}

func TestTimeWithoutAProcessIsAMonitoringGap(t *testing.T) {
	watch(t, everyMinute, func(w *watched) {
		w.orders(5)
		w.pass(10 * time.Minute)
		down := time.Now()
		w.close()
		time.Sleep(2 * time.Hour)
		w.open()
		up := time.Now()
		w.pass(2 * time.Minute)
		for _, topic := range []string{"sweep", "ingest/S"} {
			firing, resolved := w.pair(topic)
			if firing.Count != 5 || resolved.Count != 5 || firing.Severity != alerts.Error {
				t.Errorf("%s: %d and %d late jobs, want 5: %s", topic, firing.Count, resolved.Count, firing.Severity)
			}
			if early := down.Sub(firing.Since); early < 0 || early > 2*time.Minute {
				t.Errorf("%s was blind since %s; the process ended at %s", topic, firing.Since, down)
			}
			if late := resolved.DecidedAt.Sub(up); late > 30*time.Second {
				t.Errorf("%s: the end is said %s after the start", topic, late)
			}
			for _, part := range []string{firing.Since.Format(time.RFC3339), up.UTC().Format("2006-01-02T15:0"), "for 2h", "5 jobs were late"} {
				if !strings.Contains(resolved.Text, part) {
					t.Errorf("%q does not say %q", resolved.Text, part)
				}
			}
		}
	})
}

func TestHungSweepIsAlertedWhileItLasts(t *testing.T) {
	watch(t, everyMinute, func(w *watched) {
		w.orders(3)
		w.pass(29 * time.Minute)
		w.hang()
		w.pass(90 * time.Second)
		w.silent("a minute after a slot at the most")
		w.pass(4 * time.Minute)
		listed := w.said()
		if len(listed) != 1 || listed[0].Status != alerts.Firing || listed[0].Key != sweepTopic {
			t.Fatalf("while it hangs: %+v", listed)
		}
		w.sweep()
		w.pass(time.Minute)
		if _, resolved := w.pair(sweepTopic); resolved.Count != 3 {
			t.Errorf("%d jobs were late, want 3: %s", resolved.Count, resolved.Text)
		}
	})
}

func TestUnreadStreamIsReported(t *testing.T) {
	watch(t, everyMinute, func(w *watched) {
		w.orders(4)
		w.pass(28 * time.Minute)
		stuck := time.Now()
		w.caughtUp = func() time.Time { return stuck }
		w.pass(time.Minute)
		w.silent("for a minute")
		w.pass(6 * time.Minute)
		if listed := w.said(); len(listed) != 1 || listed[0].Status != alerts.Firing || listed[0].Key != "ingest/S" || listed[0].Source != "S" {
			t.Fatalf("while it is not read: %+v", listed)
		}
		catchingUp := time.Now().Add(-2 * time.Minute)
		w.caughtUp = func() time.Time { return catchingUp }
		w.pass(20 * time.Second)
		if listed := w.said(); len(listed) != 1 {
			t.Errorf("while it is read, and far behind: %+v", listed)
		}
		w.pass(time.Until(time.Now().Truncate(stallCheckInterval).Add(stallCheckInterval + time.Second))) // between two rounds
		atTheLimit := time.Now().Add(-w.blind.after + stallCheckInterval)
		w.caughtUp = func() time.Time { return atTheLimit }
		w.pass(20 * time.Second)
		if listed := w.said(); len(listed) != 1 {
			t.Errorf("while it is read, and as far behind as it may be: %+v", listed)
		}
		w.caughtUp = time.Now
		w.pass(time.Minute)
		if _, resolved := w.pair("ingest/S"); resolved.Count != 4 {
			t.Errorf("%d jobs were late, want 4: %s", resolved.Count, resolved.Text)
		}
	})
}

// The clock was set back a moment ago: for up to a second the intake reports a position by the old time.
func TestFutureTimeIsNoMonitoringGap(t *testing.T) {
	watch(t, everyMinute, func(w *watched) {
		w.pass(2 * time.Minute)
		w.blind.taps = func() []events.Status {
			return []events.Status{{Line: "S", CaughtUp: time.Now().Add(5 * time.Minute)}}
		}
		w.pass(stallCheckInterval + time.Second)
		w.blind.taps = func() []events.Status { return []events.Status{{Line: "S", CaughtUp: time.Now()}} }
		w.pass(10 * time.Second)
		w.silent("after a clock was set back")
		stuck := time.Now()
		w.blind.taps = func() []events.Status { return []events.Status{{Line: "S", CaughtUp: stuck}} }
		w.pass(2 * time.Minute)
		if listed := w.said(); len(listed) != 1 || listed[0].Key != "ingest/S" {
			t.Errorf("while the stream is not read: %+v", listed)
		}
	})
}

func TestUnusedStreamIsForgotten(t *testing.T) {
	watch(t, everyMinute, func(w *watched) {
		w.pass(time.Minute)
		_, err := w.store.Delete(w.Context(), "order-unshipped", rules.AnyVersion)
		w.must(err)
		w.must(w.catalog.Refresh(w.Context()))
		w.blind.taps = func() []events.Status { return nil }
		w.pass(time.Hour)
		w.silent("after the rule was deleted")
		kept, err := w.store.Progress(w.Context())
		w.must(err)
		if len(kept) != 1 || kept[0].Topic != sweepTopic {
			t.Errorf("kept: %+v", kept)
		}
	})
}

const everyTenMinutes = `
name: device-silent
entity: device
trigger: {heartbeat: {every: 10m, grace: 2m}}
slot: 1m
`

// pings sends heartbeats of devices.
func (w *watched) pings(devices ...string) {
	w.Helper()
	rule, err := w.catalog.Newest("device-silent")
	w.must(err)
	batch := futurejobs.EffectBatch{RuleSet: w.catalog.Revision()}
	for _, device := range devices {
		beat, err := rule.HeartbeatEffect(rules.ReceivedHeartbeat{Key: device, At: time.Now(), Kind: rules.Success}, 4)
		w.must(err)
		batch.Effects = append(batch.Effects, beat)
	}
	_, err = w.store.Apply(w.Context(), batch)
	w.must(err)
}

// After an outage one alert reports the gap, and no device is reported as silent until one is.
func TestAnOutageIsNoStormOfSilentDevices(t *testing.T) {
	watch(t, everyTenMinutes, func(w *watched) {
		w.caughtUp = func() time.Time { return time.Time{} } // no node reads a stream
		w.pings("a", "b", "c", "d")
		time.Sleep(5 * time.Minute)
		w.close()
		time.Sleep(2 * time.Hour)
		w.open()
		up := time.Now()
		time.Sleep(9 * time.Minute)
		w.pings("a", "b", "c")
		time.Sleep(9 * time.Minute)
		if _, resolved := w.pair("sweep"); resolved.Count != 4 {
			t.Errorf("%d jobs were late, want 4", resolved.Count)
		}
		page, err := w.store.Alerts(w.Context(), futurejobs.Filter{Rule: "device-silent", Limit: futurejobs.MaxLimit})
		w.must(err)
		if len(page.Items) != 1 || page.Items[0].Key != "d" {
			t.Fatalf("said of devices: %+v, want that d is silent", page.Items)
		}
		if after := page.Items[0].DecidedAt.Sub(up); after < 12*time.Minute || after > 13*time.Minute+time.Second {
			t.Errorf("that d is silent is said %s after the outage, want 12 to 13 m", after)
		}
	})
}
