package storetest

import (
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
