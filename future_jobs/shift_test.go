package futurejobs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	futurejobs "deadman/future_jobs"
)

// The clock is set back permanently. A job from before is due at the same time as with a stable clock.
func TestVirtualJobsGoBackWithClock(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{15 * time.Second, 10 * time.Minute, 2 * time.Hour, 365 * futurejobs.Day} {
		t.Run(back.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, nil, oneStepRule)
				e.trigger("half.created", "early")
				time.Sleep(20 * time.Minute)
				e.trigger("half.created", "late")
				time.Sleep(time.Minute)
				e.wall.set(-back)
				begun := time.Now()
				e.raisedAfter("early", time.Hour)
				if took := time.Since(begun); took < 9*time.Minute-2*time.Second || took > 9*time.Minute+5*time.Second {
					t.Errorf("due in 9 min, alerted after %s", took)
				}
				e.raisedAfter("late", time.Hour)
				if took := time.Since(begun); took < 29*time.Minute-2*time.Second || took > 29*time.Minute+5*time.Second {
					t.Errorf("due in 29 min, alerted after %s", took)
				}
			})
		})
	}
}

// The clock is set back, adopted, and set right again: jobs from before and from meanwhile are due on time.
func TestVirtualJobsGoAheadWithClock(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{time.Minute, 2 * time.Hour, 365 * futurejobs.Day} {
		t.Run(back.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, nil, oneStepRule)
				e.trigger("half.created", "before")
				time.Sleep(10 * time.Minute)
				e.wall.set(-back)
				time.Sleep(10 * time.Minute)
				e.trigger("half.created", "meanwhile")
				e.wall.set(0)
				begun := time.Now()
				e.raisedAfter("before", time.Hour)
				if took := time.Since(begun); took < 10*time.Minute-2*time.Second || took > 10*time.Minute+5*time.Second {
					t.Errorf("due in 10 min, alerted after %s", took)
				}
				e.raisedAfter("meanwhile", time.Hour)
				if took := time.Since(begun); took < 30*time.Minute-2*time.Second || took > 30*time.Minute+5*time.Second {
					t.Errorf("due in 30 min, alerted after %s", took)
				}
			})
		})
	}
}

// Flickers, periods of up to a minute with a wrong clock, and permanent steps back follow each other. Each alert is
// raised at the same time as with a stable clock, or late by at most the length of the period plus 10 s. None is
// early, except while the engine followed a clock that was ahead.
func TestVirtualClockStepsAreCorrected(t *testing.T) {
	t.Parallel()
	for seed := range drawOdds(3, 10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 52))
				const end = 6 * time.Minute
				lasting, outage := drawClockOutages(random, end)
				for _, o := range lasting {
					t.Logf("from %.1f to %.1f off by %s", o.from.Seconds(), o.to.Seconds(), o.off)
				}
				w := play(t, lasting, end)
				late := 6 * time.Second // a few flickers in a row, and the shift
				if outage.to != 0 {
					late = outage.to - outage.from + 10*time.Second
				}
				for name, want := range w.want {
					at, raised := w.raised[name]
					// By a clock that is ahead, jobs from before and meanwhile are due, and no event for them is in
					// time.
					ahead := outage.off > 0 && want.at > outage.from && want.at < outage.to+30*time.Second
					switch {
					case want.never && raised && !ahead:
						w.Errorf("%s: false alert at %s", name, at)
					case want.never || ahead && raised && at < want.at:
					case !raised || at > want.at+late:
						w.Errorf("%s: due at %s, alert at %s (%v)", name, want.at, at, raised)
					case at < want.at-2*time.Second:
						w.Errorf("%s: due at %s, alert at %s, early", name, want.at, at)
					}
				}
				if at, raised := w.raised["beating/alive"]; raised && outage.off <= 0 {
					w.Errorf("false alert at %s of a device that beats", at)
				}
			})
		})
	}
}

// drawClockOutages draws clock offsets and their times.
func drawClockOutages(random *rand.Rand, end time.Duration) (all []clockOutage, off clockOutage) {
	base := time.Duration(0)
	isOut := random.IntN(3) > 0
	for at := 20 * time.Second; at < end-90*time.Second; {
		o := clockOutage{from: at}
		switch kind := random.IntN(4); {
		case kind == 0 && isOut: // longer than a flicker
			isOut = false
			o.off, o.to = base+offset(random), at+11*time.Second+time.Duration(random.Int64N(int64(40*time.Second)))
			off = o
			off.off -= base
		case kind <= 1: // permanent
			base -= offset(random).Abs()
			o.off, o.to = base, at+15*time.Second
		default:
			o.off, o.to = base+offset(random), at+500*time.Millisecond+time.Duration(random.Int64N(int64(8*time.Second)))
		}
		at = o.to + 15*time.Second + time.Duration(random.Int64N(int64(20*time.Second)))
		all = append(all, o, clockOutage{o.to, at, base})
	}
	last := all[len(all)-1]
	return append(all, clockOutage{last.to, futurejobs.Day, base}), off
}

// Until the jobs are moved that a step ahead makes seem due, no job is checked.
func TestVirtualSweepWaitsForShiftedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, oneStepRule)
		time.Sleep(5 * time.Second)
		ready := func() error {
			t.Helper()
			if err := e.shifter.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			return e.shifter.Ready()
		}
		follow := func(by time.Duration, isBack bool) {
			t.Helper()
			if err := e.store.FollowStep(t.Context(), by, isBack); err != nil {
				t.Fatal(err)
			}
		}
		follow(-2*time.Hour, false)
		if err := ready(); err != nil {
			t.Errorf("jobs that go back: %v", err)
		}
		time.Sleep(15 * time.Second)
		follow(2*time.Hour, true)
		if err := ready(); !errors.Is(err, futurejobs.ErrShifting) {
			t.Errorf("jobs that go ahead: %v", err)
		}
		time.Sleep(6 * time.Second)
		if err := ready(); err != nil || len(e.shifter.Open()) != 0 {
			t.Errorf("once they went ahead: %v, %+v", err, e.shifter.Open())
		}
	})
}

// An event that ends a job, read after the clock was set back and before the job is moved, is not older than the job.
func TestEndIsNotOlderThanJobOfFuture(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ref := futurejobs.Ref{RuleID: 1, Key: "a"}
	for name, c := range map[string]struct {
		since time.Time
		ends  int
	}{"of the future": {now.Add(time.Hour), 1}, "newer": {now.Add(-time.Second), 0}} {
		event := futurejobs.Event{Stream: "ENDS", Seq: 1, At: now.Add(-time.Minute)}
		net := futurejobs.Fold([]futurejobs.Effect{{
			Rule: &futurejobs.Rule{ID: 1, Grid: futurejobs.Grid(time.Second)}, Ref: ref, Event: &event, Apart: true, Action: futurejobs.End{Outcome: "resolved"},
		}}, futurejobs.FoldInput{Pending: map[futurejobs.Ref]futurejobs.Job{ref: {Ref: ref, ID: 1, Since: c.since}}}, now)
		if len(net.End) != c.ends {
			t.Errorf("%s: %d jobs end, want %d", name, len(net.End), c.ends)
		}
	}
}
