package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// jobsAreCountedByRule checks that pending jobs are counted by rule.
func jobsAreCountedByRule(t *testing.T, w *fixture) {
	other, none := w.save("payment-missing", "payment"), w.save("order-unpaid", "order")
	is := func(what string, want map[int32]futurejobs.RuleJobs) {
		t.Helper()
		if diff := cmp.Diff(want, must[map[int32]futurejobs.RuleJobs](t)(w.RuleJobs(w.ctx()))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	is("of nothing", map[int32]futurejobs.RuleJobs{})
	now := must[time.Time](t)(w.Now(w.ctx()))
	slot := now.Truncate(time.Minute)
	w.start(slot.Add(time.Hour), "a", "b", "c", "d")
	w.applyManually(w.starting(other, "p", slot.Add(2*time.Hour)))
	is("before a check", map[int32]futurejobs.RuleJobs{
		w.rule.ID: {Pending: 4, NextCheckAt: slot.Add(time.Hour)}, other.ID: {Pending: 1, NextCheckAt: slot.Add(2 * time.Hour)},
	})

	undetermined := w.one("b")
	undetermined.UndeterminedChecks, undetermined.NextCheckAt = 3, slot.Add(3*time.Hour)
	w.settle(w.reschedule(w.one("a"), slot.Add(4*time.Hour)), futurejobs.Decision{Job: undetermined})
	for key, slot := range map[string]time.Time{"c": now.Add(-23 * time.Hour), "d": now.Add(-25 * time.Hour)} {
		d := w.exhausted(w.one(key))
		d.Alerts, d.Job.Alerts = nil, nil
		d = w.withAlert(d, slot)
		d.Alerts[0].Status = alerts.GaveUp
		w.settle(d)
	}
	is("after some checks", map[int32]futurejobs.RuleJobs{
		w.rule.ID: {Pending: 2, Open: 1, Undetermined: 1, GaveUp: 1, NextCheckAt: slot.Add(3 * time.Hour)},
		other.ID:  {Pending: 1, NextCheckAt: slot.Add(2 * time.Hour)},
	})
	w.applyManually(actionEffect(w, other, "p", time.Time{}, futurejobs.Pause{}))
	if got := must[map[int32]futurejobs.RuleJobs](t)(w.RuleJobs(w.ctx())); got[other.ID].Pending != 1 || !got[other.ID].NextCheckAt.IsZero() || got[none.ID] != (futurejobs.RuleJobs{}) {
		t.Errorf("counts while the job is paused: %+v", got)
	}
}
