package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// databaseHasOneID checks that the id of a database stays, whatever id is offered.
func databaseHasOneID(t *testing.T, w *fixture) {
	first := must[string](t)(w.DatabaseID(w.ctx(), ""))
	if again := must[string](t)(w.DatabaseID(w.ctx(), "other")); first == "" || again != first {
		t.Errorf("the id is %q, then %q", first, again)
	}
}

// markMoves checks that the mark advances from its seen position and keeps a restore until it is handled.
func markMoves(t *testing.T, w *fixture) {
	move := func(seen alerts.Mark, seq uint64, r *alerts.Restore) (alerts.Mark, bool) {
		t.Helper()
		to, ok, err := w.MoveMark(w.ctx(), seen, seq, r)
		if err != nil {
			t.Fatal(err)
		}
		return to, ok
	}
	none := must[alerts.Mark](t)(w.Mark(w.ctx()))
	if none != (alerts.Mark{}) {
		t.Errorf("the first mark is %+v", none)
	}
	first, ok := move(none, 7, nil)
	if !ok || first.Round != 1 || first.Seq != 7 || first.At.IsZero() {
		t.Errorf("moved %v to %+v", ok, first)
	}
	if _, ok := move(none, 8, nil); ok {
		t.Error("two nodes wrote the first mark")
	}
	found := &alerts.Restore{From: 7, To: 20, Since: first.At, FoundAt: w.slot(), ReadAt: w.slot().Add(time.Second), Lost: 3, Report: "ORDERS"}
	second, ok := move(first, 20, found)
	if !ok {
		t.Fatal("the mark did not move")
	}
	if _, ok := move(first, 21, nil); ok {
		t.Error("the mark moved from where it is not any more")
	}
	if diff := cmp.Diff(second, must[alerts.Mark](t)(w.Mark(w.ctx()))); diff != "" {
		t.Errorf("the mark (-want +got):\n%s", diff)
	}
	third, ok := move(second, 21, nil)
	if got := must[alerts.Mark](t)(w.Mark(w.ctx())); !ok || got.Restore != nil || got != third {
		t.Errorf("moved %v to %+v", ok, got)
	}
}

// unknownAlert returns an alert of the stream that the database does not have.
func unknownAlert(w *fixture, key string, at time.Time) alerts.Alert {
	return alerts.Alert{
		ID:   alerts.Decision{Origin: alerts.OriginOf(w.slot(), 1), RuleID: w.rule.ID, Rule: w.rule.Name, Key: key, Status: alerts.Firing, At: at}.ID(),
		Rule: w.rule.Name, RuleVersion: 1, Entity: w.rule.Entity, Key: key, DecidedAt: at,
		Detail: alerts.Detail{
			Draft: alerts.Draft{Status: alerts.Firing, Severity: alerts.Error, Step: "primary", Text: "it waits"},
			Since: at.Add(-time.Hour), Slot: at, CheckCount: 1, Event: []byte(`{"id":1}`),
		},
	}
}

// unknownAlertsAreAttachedToJobs checks that an open alert that the database does not have goes to the job that was
// pending at its time. No alert is raised for it, and the job's end closes it.
func unknownAlertsAreAttachedToJobs(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	w.settle(w.reschedule(w.one("a"), w.slot().Add(2*time.Hour)))
	before := w.one("a")
	strange := unknownAlert(w, "a", before.NextCheckAt.Add(-time.Minute))
	unknown := must[[]alerts.Alert](t)(w.Unknown(w.ctx(), []alerts.Alert{strange, {ID: before.Alerts[0], Entity: w.rule.Entity, Key: "a"}}))
	if len(unknown) != 1 || unknown[0].ID != strange.ID {
		t.Fatalf("unknown are %+v", unknown)
	}
	for range 2 {
		if closing := must[*alerts.Alert](t)(w.TakeBack(w.ctx(), strange, alerts.Restore{Since: w.slot()})); closing != nil {
			t.Errorf("it is closed by %+v", closing)
		}
	}
	after := w.one("a")
	if want := []alerts.ID{before.Alerts[0], strange.ID}; !slices.Equal(after.Alerts, want) || after.Rev != before.Rev+1 {
		t.Errorf("the job has the alerts %v at rev %d, want %v at %d", after.Alerts, after.Rev, want, before.Rev+1)
	}
	if waiting := w.unpublished(); len(waiting) != 1 {
		t.Errorf("%d alerts wait, want the one that was raised here", len(waiting))
	}
	got := must[futurejobs.ListedAlert](t)(w.Alert(w.ctx(), strange.ID))
	strange.Shard, strange.RuleID = after.Shard, w.rule.ID
	if diff := cmp.Diff(strange, got.Alert); diff != "" || !got.Published {
		t.Errorf("the alert is published: %v (-want +got):\n%s", got.Published, diff)
	}
}

// unknownAlertsAreClosed checks that an open alert without a pending job is closed, once.
func unknownAlertsAreClosed(t *testing.T, w *fixture) {
	since := w.slot()
	w.start(since, "younger") // it started after the alert was raised
	for _, key := range []string{"absent", "younger"} {
		strange := unknownAlert(w, key, must[time.Time](t)(w.Now(w.ctx())).Add(-time.Hour))
		closing := must[*alerts.Alert](t)(w.TakeBack(w.ctx(), strange, alerts.Restore{Since: since}))
		if closing == nil || closing.Status != alerts.Resolved || closing.Rule != w.rule.Name || closing.Key != key || !slices.Equal(closing.Closes, []alerts.ID{strange.ID}) {
			t.Fatalf("%s: closed by %+v", key, closing)
		}
		if again := must[*alerts.Alert](t)(w.TakeBack(w.ctx(), strange, alerts.Restore{Since: since})); again != nil {
			t.Errorf("%s: closed again by %+v", key, again)
		}
	}
	if j := w.one("younger"); len(j.Alerts) != 0 {
		t.Errorf("a job that began later has %v", j.Alerts)
	}
	waiting := w.unpublished()
	if len(waiting) != 2 || waiting[0].Status != alerts.Resolved {
		t.Errorf("alerts wait: %+v", waiting)
	}
}

// unknownAlertsOfOtherRulesAreClosed checks that no alert of a missing rule is raised: the node closes its alerts under
// its own rule.
func unknownAlertsOfOtherRulesAreClosed(t *testing.T, w *fixture) {
	strange := unknownAlert(w, "a", w.slot())
	strange.Rule = "unknown"
	closing := must[*alerts.Alert](t)(w.TakeBack(w.ctx(), strange, alerts.Restore{Since: w.slot()}))
	if closing == nil || closing.Rule != alerts.SystemRule || !slices.Equal(closing.Closes, []alerts.ID{strange.ID}) {
		t.Fatalf("closed by %+v", closing)
	}
	if again := must[*alerts.Alert](t)(w.TakeBack(w.ctx(), strange, alerts.Restore{Since: w.slot()})); again != nil {
		t.Errorf("closed again by %+v", again)
	}
	if _, err := w.Alert(w.ctx(), strange.ID); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("the alert of an unknown rule: %v", err)
	}
}
