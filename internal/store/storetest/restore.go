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

// takeBack takes an alert back after a restore to the state of a time.
func takeBack(w *fixture, a alerts.Alert, since time.Time) (closing *alerts.Alert, stays bool) {
	w.t.Helper()
	closing, stays, err := w.TakeBack(w.ctx(), a, alerts.Restore{Since: since})
	w.must(err)
	return closing, stays
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
		if closing, stays := takeBack(w, strange, w.slot()); closing != nil || stays {
			t.Errorf("it is closed by %+v, or stays open: %t", closing, stays)
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
		closing, stays := takeBack(w, strange, since)
		if stays || closing == nil || closing.Status != alerts.Resolved || closing.Rule != w.rule.Name || closing.Key != key || !slices.Equal(closing.Closes, []alerts.ID{strange.ID}) {
			t.Fatalf("%s: closed by %+v", key, closing)
		}
		if again, _ := takeBack(w, strange, since); again != nil {
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

// unknownAlertsOfNewerRulesStayOpen checks that nothing is written about an alert whose rule is missing, or was first saved
// after the restored state, and that the alert of such a rule is given back to a pending job.
func unknownAlertsOfNewerRulesStayOpen(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	newest := w.one("a")
	missing := unknownAlert(w, "a", w.slot())
	missing.Rule = "unknown"
	newer := unknownAlert(w, "b", w.slot())
	before := must[time.Time](t)(w.Now(w.ctx())).Add(-time.Hour) // the rule is saved after it
	for _, a := range []alerts.Alert{missing, newer} {
		for range 2 {
			if closing, stays := takeBack(w, a, before); closing != nil || !stays {
				t.Errorf("%s: stays open: %t, closed by %+v", a.Rule, stays, closing)
			}
		}
		if _, err := w.Alert(w.ctx(), a.ID); !errors.Is(err, futurejobs.ErrNotFound) {
			t.Errorf("the alert of %s: %v", a.Rule, err)
		}
	}
	pending := unknownAlert(w, "a", newest.NextCheckAt.Add(time.Minute))
	if closing, stays := takeBack(w, pending, before); closing != nil || stays {
		t.Errorf("the alert of a pending job stays open: %t, or is closed by %+v", stays, closing)
	}
	if got := w.one("a").Alerts; !slices.Contains(got, pending.ID) {
		t.Errorf("the job has the alerts %v", got)
	}
}

// closingOfStayingAlerts checks that the close of the report of open alerts closes the open alerts.
func closingOfStayingAlerts(t *testing.T, w *fixture) {
	strange := []alerts.Alert{unknownAlert(w, "a", w.slot()), unknownAlert(w, "b", w.slot())}
	r := alerts.Restore{Since: w.slot(), FoundAt: must[time.Time](t)(w.Now(w.ctx()))}
	reported, _, err := w.WriteSystemAlert(w.ctx(), r.StayingAlert(0, strange))
	w.must(err)
	if reported.Count != 2 || reported.Status != alerts.Firing || len(reported.Closes) != 0 {
		t.Errorf("reported: %+v", reported)
	}
	listed := must[futurejobs.ListedAlert](t)(w.Alert(w.ctx(), reported.ID))
	closing := must[alerts.Alert](t)(w.CloseLoss(w.ctx(), listed.Alert, "all is backfilled"))
	if want := []alerts.ID{reported.ID, strange[0].ID, strange[1].ID}; !slices.Equal(closing.Closes, want) {
		t.Errorf("closes %v, want %v", closing.Closes, want)
	}
}
