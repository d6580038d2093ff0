package storetest

import (
	"testing"
	"time"

	"deadman/alerts"
)

// systemAlertStaysOpen checks that a system alert is open from the first node that opens it to the first that closes it, at any
// times of theirs.
func systemAlertStaysOpen(t *testing.T, w *fixture) {
	first := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	r := alerts.SystemAlert{Topic: "stream/X", Step: "full", Status: alerts.Firing, Severity: alerts.Error, Since: first, Text: "it is full"}
	end := r
	end.Status, end.Text, end.Since = alerts.Resolved, "it has room again", first.Add(time.Hour)
	raise := func(what string, want bool, a alerts.Alert, written bool, err error) alerts.Alert {
		t.Helper()
		if written != want || err != nil {
			t.Errorf("%s: said is %v: %v", what, written, err)
		}
		return a
	}
	begin := func(what string, want bool) alerts.Alert {
		t.Helper()
		a, written, err := w.OpenSystemAlert(w.ctx(), r)
		return raise(what, want, a, written, err)
	}
	over := func(what string, want bool) alerts.Alert {
		t.Helper()
		a, written, err := w.CloseSystemAlert(w.ctx(), end)
		return raise(what, want, a, written, err)
	}
	over("nothing stands", false)
	fired := begin("the first", true)
	r.Since = first.Add(time.Minute)
	begin("another node, a minute later", false)
	r.Step = "filling"
	begin("another step", true)
	firing := must[[]alerts.SystemAlert](t)(w.FiringSystemAlerts(w.ctx()))
	if len(firing) != 2 || firing[0].Step != "filling" || firing[1].Topic != "stream/X" || firing[1].Step != "full" || !firing[1].Since.Equal(first.Truncate(time.Microsecond)) {
		t.Errorf("what stands: %+v", firing)
	}
	closing := over("the first to end it", true)
	over("the second to end it", false)
	if firing = must[[]alerts.SystemAlert](t)(w.FiringSystemAlerts(w.ctx())); len(firing) != 1 || firing[0].Step != "filling" {
		t.Errorf("what stands once one is over: %+v", firing)
	}
	if len(closing.Closes) != 1 || closing.Closes[0] != fired.ID || !closing.Since.Equal(first.Truncate(time.Microsecond)) {
		t.Errorf("%+v does not close %s", closing, fired.ID)
	}
	r.Step = "full"
	if again := begin("it is full again", true); again.ID == fired.ID {
		t.Error("it is not another alert")
	}
	if n := len(w.unpublished()); n != 4 {
		t.Errorf("%d alerts, want 4", n)
	}
}

// systemAlertOnChange checks that each change of a known value is alerted once, and the first value is not.
func systemAlertOnChange(t *testing.T, w *fixture) {
	for i, c := range []struct {
		known   string
		written bool
	}{{"a", false}, {"a", false}, {"b", true}, {"b", false}, {"a", true}} {
		r := alerts.SystemAlert{Topic: "stream/X", Step: "lost", Status: alerts.Firing, Severity: alerts.Error, Since: w.slot().Add(time.Duration(i) * time.Minute)}
		if _, written, err := w.AlertOnChange(w.ctx(), c.known, r); written != c.written || err != nil {
			t.Errorf("%d, %s: said is %v: %v", i, c.known, written, err)
		}
	}
	if n := len(w.unpublished()); n != 2 {
		t.Errorf("%d alerts, want 2", n)
	}
}
