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

// lossesStayOpen checks that an alert about lost data is open, beyond its retention, until an actor closes it once, with
// a resolved alert and an entry of the audit log.
func lossesStayOpen(t *testing.T, w *fixture) {
	old := w.slot().Add(-100 * 24 * time.Hour)
	loss := alerts.StreamLoss("ORDERS", old, old.Add(time.Minute), "was deleted")
	firing, raised, err := w.WriteSystemAlert(w.ctx(), loss)
	if !raised || err != nil {
		t.Fatalf("raised is %v: %v", raised, err)
	}
	other := alerts.SystemAlert{Topic: "node/a", Step: "unfit", Status: alerts.Firing, Severity: alerts.Error, Since: old}
	if _, _, err := w.WriteSystemAlert(w.ctx(), other); err != nil {
		t.Fatal(err)
	}
	w.must(w.MarkPublished(w.ctx(), w.unpublished()))
	if _, err := w.Prune(w.ctx(), store.Retention{Alerts: time.Hour}); err != nil {
		t.Fatal(err)
	}
	open := pages(t, futurejobs.Filter{Open: true}, w.Alerts)
	if len(open) != 1 || open[0].ID != firing.ID || open[0].Text != loss.Text {
		t.Fatalf("open alerts: %+v", open)
	}
	if all := pages(t, futurejobs.Filter{}, w.Alerts); len(all) != 1 {
		t.Errorf("%d alerts are kept, want 1", len(all))
	}
	ada := access.As(w.ctx(), access.Actor{Name: "ada"})
	resolved, err := w.CloseLoss(ada, open[0].Alert, "orders were checked by hand")
	if err != nil || resolved.Status != alerts.Resolved || len(resolved.Closes) != 1 || resolved.Closes[0] != firing.ID || resolved.Text != "closed by ada: orders were checked by hand" {
		t.Errorf("the resolved alert: %+v: %v", resolved, err)
	}
	if _, err := w.CloseLoss(ada, open[0].Alert, "again"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("a second close: %v", err)
	}
	if open = pages(t, futurejobs.Filter{Open: true}, w.Alerts); len(open) != 0 {
		t.Errorf("%d alerts are open after the close", len(open))
	}
	entries, _, err := w.Audit(w.ctx(), access.AuditFilter{Action: string(access.AlertClose)})
	if err != nil || len(entries) != 1 || entries[0].Actor.Name != "ada" || entries[0].Object != "alert/"+firing.ID.String() || entries[0].Detail != "orders were checked by hand" {
		t.Errorf("the audit log: %+v: %v", entries, err)
	}
}

// deadLettersAreAlerted checks that an alert is raised at a number of dead letters, once while it is open, and after its
// close once there are that many more.
func deadLettersAreAlerted(t *testing.T, w *fixture) {
	at := w.slot()
	var open alerts.Alert
	count := func(letters int64, want bool) {
		t.Helper()
		at = at.Add(time.Minute)
		a, raised, err := w.AlertDeadLetters(w.ctx(), letters, 100, func() alerts.SystemAlert {
			return alerts.SystemAlert{Topic: "dead-letters", Step: "many", Status: alerts.Firing, Severity: alerts.Error, Since: at, UntilClosed: true}
		})
		if raised != want || err != nil {
			t.Errorf("%d dead letters: raised is %v, want %v: %v", letters, raised, want, err)
		}
		if raised {
			open = a
		}
	}
	count(99, false)
	count(100, true)
	count(500, false) // it is open
	if _, err := w.CloseLoss(w.ctx(), open, "retried"); err != nil {
		t.Fatal(err)
	}
	count(500, false) // those are known
	count(599, false)
	count(10, false) // some were retried
	count(109, false)
	count(110, true)
}
