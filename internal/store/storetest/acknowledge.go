package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// acknowledges returns the effect that acknowledges the alert of a job until an instant.
func acknowledges(w *fixture, key string, alert alerts.ID, until time.Time) futurejobs.Effect {
	return actionEffect(w, w.rule, key, time.Time{}, futurejobs.Acknowledge{Ack: futurejobs.Ack{Alert: alert, By: "ada\x00", Until: until, Note: "it's me"}})
}

func alertsAreAcknowledged(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	w.settle(w.reschedule(w.one("a"), w.slot().Add(time.Hour)))
	before := w.one("a")
	alertID, until := before.Alerts[0], w.slot().Add(90*time.Minute)
	ctx := access.As(w.ctx(), ada)
	does := func(action string, effects ...futurejobs.Effect) futurejobs.ApplyResult {
		t.Helper()
		return must[futurejobs.ApplyResult](t)(w.Apply(ctx, futurejobs.EffectBatch{RuleSet: w.set, Effects: effects, AuditAction: action}))
	}

	if got := does("alert.ack", acknowledges(w, "a", alertID, until), acknowledges(w, "b", alertID, until)); got.Changed != 1 || got.Missed != 1 {
		t.Errorf("applied %+v, want one change, and a miss for the job that did not say it", got)
	}
	want := before
	want.Rev, want.AckedUntil = before.Rev+1, until
	if diff := cmp.Diff(want, w.one("a")); diff != "" {
		t.Errorf("acknowledged (-want +got):\n%s", diff)
	}
	listed := must[futurejobs.ListedJob](t)(w.Job(w.ctx(), w.rule.Name, "a"))
	if a := listed.Ack; a == nil || a.Alert != alertID || a.By != "ada\x00" || a.Note != "it's me" || !a.Until.Equal(until) || a.At.IsZero() {
		t.Errorf("listed as acknowledged: %+v", a)
	}
	if other := must[futurejobs.ListedJob](t)(w.Job(w.ctx(), w.rule.Name, "b")); other.Ack != nil || !other.AckedUntil.IsZero() {
		t.Errorf("the other job is acknowledged: %+v", other.Ack)
	}
	if settled := w.settle(w.reschedule(before, w.slot().Add(2*time.Hour))); len(settled.Jobs) != 0 {
		t.Error("a step that was decided before the acknowledgement was taken after it")
	}
	w.settle(w.reschedule(w.one("a"), w.slot().Add(2*time.Hour)))
	if j := w.one("a"); !j.AckedUntil.Equal(until) {
		t.Errorf("a settle left it acknowledged until %s", j.AckedUntil)
	}

	does("alert.ack", acknowledges(w, "a", alertID, checks.Forever))
	again := futurejobs.Ack{Alert: alertID, By: "grace", Until: checks.Forever, Note: "mine"}
	does("alert.ack", actionEffect(w, w.rule, "a", time.Time{}, futurejobs.Acknowledge{Ack: again}))
	if got := must[futurejobs.ListedJob](t)(w.Job(w.ctx(), w.rule.Name, "a")); !got.Ack.IsUntilResolved() || got.Ack.By != "grace" || got.Ack.Note != "mine" || !got.AckedUntil.Equal(checks.Forever) {
		t.Errorf("until resolved: %+v, until %s", got.Ack, got.AckedUntil)
	}
	does("alert.unack", acknowledges(w, "a", alertID, time.Time{}))
	does("alert.unack", acknowledges(w, "a", alertID, time.Time{})) // already so
	if got := must[futurejobs.ListedJob](t)(w.Job(w.ctx(), w.rule.Name, "a")); got.Ack != nil || !got.AckedUntil.IsZero() {
		t.Errorf("taken back: %+v, until %s", got.Ack, got.AckedUntil)
	}
	object := "alert/" + alertID.String()
	actions := []string{
		"ada alert.ack " + object + " order-unshipped/a; until " + until.Format(time.RFC3339) + "; it's me",
		"ada alert.ack " + object + " order-unshipped/a; until resolved; it's me",
		"ada alert.ack " + object + " order-unshipped/a; until resolved; mine",
		"ada alert.unack " + object + " order-unshipped/a",
	}
	if diff := cmp.Diff(actions, audited(w, access.AuditFilter{Object: object})); diff != "" {
		t.Errorf("audited (-want +got):\n%s", diff)
	}
}

func newJobsAreNotAcknowledged(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	w.settle(w.reschedule(w.one("a"), w.slot().Add(time.Hour)))
	w.applyManually(acknowledges(w, "a", w.one("a").Alerts[0], checks.Forever))
	w.applyManually(actionEffect(w, w.rule, "a", w.slot(), futurejobs.Start{Job: w.job(w.rule, "a", w.slot()), Restart: true, Close: resolvedEnd.Close}))
	if got := must[futurejobs.ListedJob](t)(w.Job(w.ctx(), w.rule.Name, "a")); got.Ack != nil || !got.AckedUntil.IsZero() {
		t.Errorf("a job that began again is acknowledged: %+v, until %s", got.Ack, got.AckedUntil)
	}
}
