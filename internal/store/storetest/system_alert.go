package storetest

import (
	"slices"
	"testing"

	"deadman/alerts"
)

// systemAlertIsResolved checks that a resolved system alert is written once, if the firing one was raised, and that the firing one
// is listed as unresolved until then.
func systemAlertIsResolved(t *testing.T, w *fixture) {
	r := alerts.SystemAlert{Topic: "rule/a", Step: "ticks", Status: alerts.Firing, Severity: alerts.Error, Since: w.slot(), Text: "it is so", UntilResolved: true}
	over := r
	over.Status = alerts.Resolved
	conclude := func(want bool) alerts.Alert {
		t.Helper()
		a, written, err := w.ResolveSystemAlert(w.ctx(), over)
		if err != nil || written != want {
			t.Errorf("alerts %v, want %v: %v", written, want, err)
		}
		return a
	}
	unresolved := func(step string, want int) {
		t.Helper()
		open := must[[]alerts.SystemAlert](t)(w.UnresolvedAlerts(w.ctx(), step))
		if len(open) != want || want > 0 && (open[0].Topic != r.Topic || open[0].Step != step || !open[0].Since.Equal(r.Since)) {
			t.Errorf("unresolved: %+v, want %d", open, want)
		}
	}
	conclude(false)
	unresolved(r.Step, 0)
	firing, written, err := w.WriteSystemAlert(w.ctx(), r)
	if err != nil || !written {
		t.Fatal(written, err)
	}
	unresolved(r.Step, 1)
	unresolved("ick", 0)
	if a := conclude(true); !slices.Equal(a.Closes, []alerts.ID{firing.ID}) {
		t.Errorf("it closes %v, not %v", a.Closes, firing.ID)
	}
	unresolved(r.Step, 0)
	conclude(false)
	if all := w.unpublished(); len(all) != 2 {
		t.Errorf("%d alerts", len(all))
	}
}
