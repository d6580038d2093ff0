package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// acknowledgementsAreSentOnce checks that the newest acknowledgement of a pending job is queued while channels exist, and
// that one plan takes it.
func acknowledgementsAreSentOnce(t *testing.T, w *fixture) {
	now := w.slot()
	w.start(now, "a", "b")
	w.settle(w.reschedule(w.one("a"), now.Add(time.Hour)))
	id := w.one("a").Alerts[0]
	unrouted := func(want int) []alerts.JobAck {
		t.Helper()
		found := must[[]alerts.JobAck](t)(w.UnroutedAcks(w.ctx(), 10))
		if len(found) != want {
			t.Errorf("%d acknowledgements are not announced, want %d", len(found), want)
		}
		return found
	}
	w.applyManually(acknowledges(w, "a", id, now.Add(time.Hour)))
	unrouted(0) // no channels
	w.must(w.Notify(w.ctx(), true))
	w.applyManually(acknowledges(w, "a", id, now.Add(time.Hour)))
	w.applyManually(acknowledges(w, "a", id, time.Time{}))
	unrouted(0) // removed
	w.applyManually(acknowledges(w, "a", id, now.Add(time.Hour)))
	older := unrouted(1)
	w.applyManually(acknowledges(w, "a", id, now.Add(2*time.Hour)))
	acks := unrouted(1)
	if k := acks[0]; k.Alert != id || k.By != "ada\x00" || k.Note != "it's me" || !k.Until.Equal(now.Add(2*time.Hour)) || !cmp.Equal(k.All, []alerts.ID{id}) {
		t.Fatalf("%+v", k)
	}
	plan := func(acks []alerts.JobAck) alerts.Plan {
		return alerts.Plan{
			Acks: acks, Notifications: []alerts.Notification{{Channel: hookRoute.Channel, Route: hookRoute.Route, Topic: "order", PlannedAt: now}},
			AckAssignments: []alerts.AckAssignment{{Ack: acks[0]}},
		}
	}
	checkRefused(w, futurejobs.ErrCursorMoved, func() error { return w.ApplyPlan(w.ctx(), plan(older)) })
	w.must(w.ApplyPlan(w.ctx(), plan(acks)))
	checkRefused(w, futurejobs.ErrCursorMoved, func() error { return w.ApplyPlan(w.ctx(), plan(acks)) })
	unrouted(0)
	got := must[alerts.AckSummary](t)(w.NoticeAcks(w.ctx(), w.ready(now), 10))
	if len(got.Counts) != 1 || got.Counts[0].Count != 1 || len(got.First) != 1 || got.First[0].Alert.ID != id || got.First[0].By != "ada\x00" {
		t.Errorf("%+v", got)
	}
	w.applyManually(acknowledges(w, "a", id, now.Add(3*time.Hour)))
	w.settle(w.exhausted(w.one("a")))
	if over := unrouted(1); len(over[0].All) != 0 {
		t.Errorf("an ended job has the alerts %v", over[0].All)
	}
	w.must(w.Notify(w.ctx(), false))
	unrouted(0)
}

// acknowledgementsArePruned checks that retention deletes old notifications of acknowledgements with their contents, and keeps
// those that are younger or not sent yet.
func acknowledgementsArePruned(t *testing.T, w *fixture) {
	w.must(w.Notify(w.ctx(), true))
	w.start(w.slot(), "a")
	w.settle(w.reschedule(w.one("a"), w.slot().Add(time.Hour)))
	deliver(w)
	announce := func(until time.Duration) alerts.Notification {
		t.Helper()
		w.applyManually(acknowledges(w, "a", w.one("a").Alerts[0], w.slot().Add(until)))
		acks := must[[]alerts.JobAck](t)(w.UnroutedAcks(w.ctx(), 10))
		w.must(w.ApplyPlan(w.ctx(), alerts.Plan{
			Acks: acks, Notifications: []alerts.Notification{{Channel: hookRoute.Channel, Route: hookRoute.Route, Topic: "order", PlannedAt: w.slot()}},
			AckAssignments: []alerts.AckAssignment{{Ack: acks[0]}},
		}))
		return w.ready(w.slot())
	}
	sent := announce(2 * time.Hour)
	deliver(w)
	waiting := announce(3 * time.Hour)
	check := func(when string, want ...alerts.Notification) {
		t.Helper()
		var kept []int64
		for _, n := range must[[]alerts.Notification](t)(w.Lane(w.ctx(), hookRoute, 5)) {
			kept = append(kept, n.ID)
		}
		for _, n := range []alerts.Notification{sent, waiting} {
			isKept := slices.ContainsFunc(want, func(k alerts.Notification) bool { return k.ID == n.ID })
			acks := must[alerts.AckSummary](t)(w.NoticeAcks(w.ctx(), n, 10))
			if slices.Contains(kept, n.ID) != isKept || (len(acks.Counts) == 1) != isKept {
				t.Errorf("%s: notification %d with %d acknowledgements; want it kept: %t; kept are %v", when, n.ID, len(acks.Counts), isKept, kept)
			}
		}
	}
	prune(w, time.Hour)
	check("young", sent, waiting)
	prune(w, -3*futurejobs.Day)
	check("old", waiting)
}
