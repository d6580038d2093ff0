package storetest

import (
	"errors"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
)

// futureJobsAreMovedBack writes blocking instants with a fast clock and resets them.
func futureJobsAreMovedBack(t *testing.T, w *fixture) {
	now := must[time.Time](t)(w.Now(w.ctx()))
	past, future := now.Add(-time.Minute), now.Add(time.Hour)
	w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: "ORDERS"}))
	write := func(at time.Time) {
		t.Helper()
		c := cursor(w, "ORDERS")
		w.must(w.MarkRead(w.ctx(), "ORDERS", c.LastSeq, at))
		w.must(w.RecordGap(w.ctx(), "ORDERS", at))
		must[[]futurejobs.HeldShard](t)(w.Renew(w.ctx(), thisNode, []futurejobs.Lease{{HeldShard: w.held[0], LowWater: at, Swept: at}}, time.Hour))
		seen, _ := progress(w, "sweep")
		must[bool](t)(w.Advance(w.ctx(), seen, at))
	}
	back := func(notices time.Duration) {
		t.Helper()
		w.must(w.PutBack(w.ctx(), notices))
	}
	write(past)
	back(0)
	c, l := cursor(w, "ORDERS"), lease(w, 0)
	p, _ := progress(w, "sweep")
	if !c.ReadThrough.Equal(past) || !c.ReceivingSince.Equal(past) || !l.LowWater.Equal(past) || !l.Swept.Equal(past) || !p.Through.Equal(past) {
		t.Errorf("what is past was put back: %+v, %+v, %+v", c, l, p)
	}
	write(future)
	w.GoBy(func(at time.Time) time.Time { return at.Add(time.Hour) })
	w.save("saved-ahead", "order")
	w.must(w.HoldOff(w.ctx(), "ORDERS")) // blocks changes of the rules until the next hour
	w.GoBy(func(at time.Time) time.Time { return at })
	carry := func(at time.Time) {
		t.Helper()
		w.must(w.ApplyPlan(w.ctx(), alerts.Plan{Notifications: []alerts.Notification{{Channel: at.String(), Route: "r", Topic: "t", PlannedAt: at}}}))
	}
	carry(now.Add(30 * time.Minute))
	carry(now.Add(5 * time.Hour))
	back(store.RoutineNotices)
	c, l = cursor(w, "ORDERS"), lease(w, 0)
	p, _ = progress(w, "sweep")
	if !c.ReadThrough.IsZero() || c.ReceivingSince.Sub(now).Abs() > time.Minute || !l.LowWater.IsZero() || !l.Swept.IsZero() || p.Through.Sub(now).Abs() > time.Minute {
		t.Errorf("what is of the future stands: %+v, %+v, %+v", c, l, p)
	}
	if revision := must[int64](t)(w.Revision(w.ctx())); revision != w.set+1 {
		t.Errorf("revision %d after a rule of the future was put back at %d", revision, w.set)
	}
	w.must(w.Pause(w.ctx(), w.rule.Name, true))
	soon := now.Add(time.Minute)
	if ready := must[[]alerts.Notification](t)(w.Ready(w.ctx(), soon)); len(ready) != 1 {
		t.Errorf("%d notifications go out, want the one of the future", len(ready))
	}
	back(0)
	if ready := must[[]alerts.Notification](t)(w.Ready(w.ctx(), soon)); len(ready) != 2 {
		t.Errorf("%d notifications go out, want both", len(ready))
	}
}

// futureMarksAreMovedBack writes marks after those of a fast clock.
func futureMarksAreMovedBack(t *testing.T, w *fixture) {
	now := must[time.Time](t)(w.Now(w.ctx()))
	past, future := now.Add(-time.Minute), now.Add(time.Hour)
	w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: "ORDERS"}))
	for _, at := range []time.Time{future, past} {
		w.must(w.MarkRead(w.ctx(), "ORDERS", cursor(w, "ORDERS").LastSeq, at))
		w.must(w.RecordGap(w.ctx(), "ORDERS", at))
	}
	if c := cursor(w, "ORDERS"); !c.ReadThrough.Equal(past) || !c.ReceivingSince.Equal(past) {
		t.Errorf("marked through %s, received since %s, want %s", c.ReadThrough, c.ReceivingSince, past)
	}
}

// timeIsCorrected runs transactions at another time than the database's.
func timeIsCorrected(t *testing.T, w *fixture) {
	off := time.Hour
	w.GoBy(func(at time.Time) time.Time { return at.Add(-off) })
	now, right := must[time.Time](t)(w.Now(w.ctx())), must[time.Time](t)(w.Time(w.ctx()))
	if (now.Sub(right) - off).Abs() > time.Minute {
		t.Errorf("the database says %s, corrected %s", now, right)
	}
	w.start(w.slot(), "a")
	if got := w.one("a").CreatedAt; right.Sub(got).Abs() > time.Minute {
		t.Errorf("a job is created at %s, want %s", got, right)
	}
	must[[]futurejobs.HeldShard](t)(w.Renew(w.ctx(), thisNode, []futurejobs.Lease{{HeldShard: w.held[0]}}, time.Minute))
	if l := lease(w, 0); l.Expired || (l.Left-time.Minute).Abs() > 30*time.Second {
		t.Errorf("a lease of a minute: %+v", l)
	}
	live := must[[]futurejobs.Node](t)(w.Heartbeat(w.ctx(), futurejobs.Node{ID: "a", StartedAt: right}, time.Minute))
	off = 3 * time.Hour // the node was two hours ahead, and died
	live = append(live, must[[]futurejobs.Node](t)(w.Heartbeat(w.ctx(), futurejobs.Node{ID: "b", StartedAt: right}, time.Minute))...)
	if len(live) != 2 || live[0].ID != "a" || live[1].ID != "b" {
		t.Errorf("live, first and then: %+v", live)
	}
	if reply, err := w.Begin(w.ctx(), "key", [32]byte{1}); reply != nil || err != nil {
		t.Fatal(reply, err)
	}
	if _, err := w.Begin(w.ctx(), "key", [32]byte{1}); !errors.Is(err, access.ErrRunning) {
		t.Errorf("a request that is under way: %v", err)
	}
}

// leasesAreFreed ends unchanged leases of other nodes.
func leasesAreFreed(t *testing.T, w *fixture) {
	seen := lease(w, 0)
	if seen.Left < 50*time.Minute {
		t.Errorf("a lease of an hour lasts %s yet", seen.Left)
	}
	must[[]futurejobs.HeldShard](t)(w.Renew(w.ctx(), thisNode, []futurejobs.Lease{seen}, 2*time.Hour))
	if must[bool](t)(w.Free(w.ctx(), seen)) {
		t.Error("a lease that was renewed is freed")
	}
	if !must[bool](t)(w.Free(w.ctx(), lease(w, 0))) || lease(w, 0).Node != "" {
		t.Error("a lease that was not renewed is not freed")
	}
	if still := must[[]futurejobs.HeldShard](t)(w.Renew(w.ctx(), thisNode, []futurejobs.Lease{seen}, time.Hour)); len(still) != 0 {
		t.Error("a freed lease was renewed")
	}
	w.start(w.slot(), "a", "b", "c", "d", "e", "f", "g", "h")
	for _, j := range w.all() {
		if settled := w.settle(w.exhausted(j)); settled.Jobs[j.ID] != (j.Shard != 0) {
			t.Errorf("shard %d: settled %v", j.Shard, settled.Jobs[j.ID])
		}
	}
}
