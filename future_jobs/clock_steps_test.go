package futurejobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// wallClock is the clock of a machine. It can be set.
type wallClock struct{ offset atomic.Int64 }

// Now returns the clock's time.
func (w *wallClock) Now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

// set sets the offset of the clock from the elapsed time.
func (w *wallClock) set(offset time.Duration) { w.offset.Store(int64(offset)) }

// trigger begins jobs at the engine's time.
func (e *engine) trigger(subject string, keys ...string) {
	e.Helper()
	now, err := e.store.Time(e.Context())
	if err == nil {
		err = e.catalog.Refresh(e.Context()) // as ingest does
	}
	if err != nil {
		e.Fatal(err)
	}
	e.publishAt(now, subject, keys...)
}

// startNodeBeside runs another node on the same store, until it is stopped.
func (e *engine) startNodeBeside(id string) (stop func()) {
	e.Helper()
	_, _, stop = startNode(e, e.store, e.catalog, id, slog.New(slog.NewTextHandler(e.Output(), nil)))
	return stop
}

// startNode runs a node on a store until it is stopped. Stopping waits for running handlers.
func startNode(tb testing.TB, s *store.Store, catalog futurejobs.RuleReader, id string, log *slog.Logger) (
	owner *futurejobs.Owner, sweeper *futurejobs.Sweeper, stop func(),
) {
	owner = futurejobs.NewOwner(s, futurejobs.Node{ID: id, Name: id}, 15*time.Second, time.Now, log)
	sweeper = futurejobs.NewSweeper(s, catalog, owner, futurejobs.NewClock(s.Now, time.Now), 8, log)
	owner.Changed = sweeper.Wake
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- sweeper.Run(ctx, context.Background()) }()
	go func() { done <- owner.Run(ctx) }()
	return owner, sweeper, func() {
		cancel()
		for range cap(done) {
			if err := <-done; err != nil {
				tb.Error(err)
			}
		}
	}
}

// raisedAfter waits for an alert for a key, and returns how long that took, to a tenth of a second or a 3,600th of most.
func (e *engine) raisedAfter(key string, limit time.Duration) time.Duration {
	e.Helper()
	var settled int64
	isRaised := false
	for begun := time.Now(); ; time.Sleep(max(100*time.Millisecond, limit/3600)) {
		e.newAlerts(&settled, func(a futurejobs.ListedAlert) { isRaised = isRaised || a.Key == key })
		if isRaised {
			return time.Since(begun)
		}
		if time.Since(begun) > limit {
			e.Fatalf("no alert for %q after %s; sweep err %v, lag %s", key, limit, e.sweeper.Err(), e.sweeper.Lag())
		}
	}
}

func TestSweepSurvivesClockSetBack(t *testing.T) {
	for _, back := range []time.Duration{0, 30 * time.Second, 10 * time.Minute, 2 * time.Hour, 365 * futurejobs.Day} {
		t.Run(back.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, nil, fmt.Sprintf(noResolve, "fine", "fine"))
				e.trigger("fine.created", "before")
				time.Sleep(10 * time.Minute) // a time of ordinary service: the low water rises
				e.raisedAfter("before", 0)
				e.wall.set(-back)
				time.Sleep(20 * time.Second)
				e.trigger("fine.created", "after")
				if took := e.raisedAfter("after", time.Minute); took < 9*time.Second || took > 12*time.Second {
					t.Errorf("clock set back by %s: the alert of a job due in 10 s came after %s", back, took)
				}
			})
		})
	}
}

// oneStepRule raises an alert after 30 minutes.
const oneStepRule = `
name: half
entity: thing
trigger: {event: half.created, key: event.id}
escalate: [{after: 30m, step: only, severity: error}]
slot: 1s
`

// The database's clock is off for 10 s, in either direction: no step is early, and none late.
func TestVirtualSweepOverlooksClockFlicker(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{5 * time.Second, -5 * time.Second, time.Hour, -time.Hour, 365 * futurejobs.Day, -365 * futurejobs.Day} {
		t.Run(off.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, nil, oneStepRule, fmt.Sprintf(noResolve, "fine", "fine"))
				e.trigger("half.created", "due in 30 min")
				time.Sleep(time.Minute)
				e.trigger("fine.created", "due meanwhile")
				time.Sleep(5 * time.Second)
				e.wall.set(off)
				time.Sleep(time.Second)
				e.trigger("fine.created", "begun meanwhile")
				time.Sleep(9 * time.Second)
				e.wall.set(0)
				if took := e.raisedAfter("due meanwhile", time.Minute); took > time.Second {
					t.Errorf("what was due meanwhile took %s", took)
				}
				if took := e.raisedAfter("begun meanwhile", time.Minute); took > 3*time.Second {
					t.Errorf("what began meanwhile took %s", took)
				}
				begun := time.Now().Add(-76 * time.Second)
				time.Sleep(28 * time.Minute)
				e.raisedAfter("due in 30 min", time.Hour)
				if took := time.Since(begun); took < 29*time.Minute+58*time.Second || took > 30*time.Minute+3*time.Second {
					t.Errorf("what was due in 30 min was alerted after %s", took)
				}
			})
		})
	}
}

// A permanent step ahead is adopted after 10 s: jobs due by the new time are not delayed for longer.
func TestSweepFollowsClockSetAhead(t *testing.T) {
	for _, by := range []time.Duration{2 * time.Minute, time.Hour, 365 * futurejobs.Day} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, nil, strings.ReplaceAll(oneStepRule, "30m", "1m"))
				e.trigger("half.created", "one")
				time.Sleep(20 * time.Second)
				e.wall.set(by)
				if took := e.raisedAfter("one", time.Minute); took < 9*time.Second || took > 13*time.Second {
					t.Errorf("set ahead by %s, it was alerted after %s", by, took)
				}
			})
		})
	}
}

// A node that takes a shard over from one with a clock ahead does not start at that node's low water.
func TestTakeoverIgnoresLowWaterOfFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, fmt.Sprintf(noResolve, "fine", "fine"))
		time.Sleep(time.Minute)
		leases, err := e.store.Leases(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range leases { // as left by a node that was an hour ahead
			leases[i].LowWater, leases[i].Swept = time.Now().Add(time.Hour), time.Now().Add(time.Hour)
			leases[i].Expired = false
		}
		if _, err := e.store.Renew(t.Context(), "n", leases, time.Second); err != nil {
			t.Fatal(err)
		}
		other := e.startNodeBeside("other")
		defer other()
		time.Sleep(20 * time.Second)
		e.trigger("fine.created", "one", "two", "three", "four", "five", "six", "seven", "eight")
		time.Sleep(13 * time.Second)
		if n := len(e.alerts()); n != 8 {
			t.Errorf("%d of 8 alerts", n)
		}
	})
}

// A node that dies while the clock is ahead leaves leases that last as long. They end nevertheless.
func TestLeasesOfFutureEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, fmt.Sprintf(noResolve, "fine", "fine"))
		time.Sleep(time.Minute + 300*time.Millisecond) // between two steps of the owner
		leases, err := e.store.Leases(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range leases {
			if _, err := e.store.Free(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			if got, ok, err := e.store.Take(t.Context(), "dead", l.HeldShard, time.Hour); err != nil || !ok {
				t.Fatal(ok, err)
			} else if i == 0 && got.Left < 59*time.Minute {
				t.Fatalf("it lasts %s", got.Left)
			}
		}
		time.Sleep(40 * time.Second)
		e.trigger("fine.created", "one", "two", "three", "four")
		time.Sleep(13 * time.Second)
		if n := len(e.alerts()); n != 4 {
			t.Errorf("%d of 4 alerts", n)
		}
	})
}

// A node that starts while the clock is wrong uses the time of the running nodes. One that starts after a crash of
// all nodes uses the database's clock.
func TestVirtualNodeAdoptsSharedTime(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour, 365 * futurejobs.Day, -365 * futurejobs.Day} {
		t.Run(off.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, nil, oneStepRule)
				time.Sleep(time.Minute)
				nodes := e.store.Nodes
				var waited time.Duration // as told
				learn := func() (off, took time.Duration) {
					begun, c := time.Now(), futurejobs.NewClock(e.store.Now, time.Now)
					waited = 0
					c.Waiting = func(nodes []futurejobs.Node, until time.Time) {
						if waited = time.Until(until); len(nodes) != 1 {
							t.Errorf("it waits for the nodes %v", nodes)
						}
					}
					if err := c.Learn(t.Context(), nodes, e.owner.Interval()); err != nil {
						t.Fatal(err)
					}
					return time.Until(c.Now()).Round(time.Second), time.Since(begun)
				}
				if off, took := learn(); off != 0 || took != 0 || waited != 0 {
					t.Errorf("beside a node, on a right clock: off by %s, after %s, told %s", off, took, waited)
				}
				e.wall.set(off)
				if off, took := learn(); off != 0 || took > 7*time.Second {
					t.Errorf("beside a node, on a wrong clock: off by %s, after %s", off, took)
				}
				crashed, err := e.store.Nodes(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				nodes = func(context.Context) ([]futurejobs.Node, error) { return crashed, nil } // no node sends heartbeats any more
				e.wall.set(2 * off)
				if is, took := learn(); is != 2*off || took < 8*time.Second || took > 9*time.Second || waited > took || took-waited > time.Second {
					t.Errorf("after a crash: off by %s, after %s, told %s", is, took, waited)
				}
			})
		})
	}
}
