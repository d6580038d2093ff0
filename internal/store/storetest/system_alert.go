package storetest

import (
	"slices"
	"testing"

	"deadman/alerts"
)

// systemAlertIsResolved checks that a resolved system alert is written once, if the firing one was raised.
func systemAlertIsResolved(t *testing.T, w *fixture) {
	r := alerts.SystemAlert{Topic: "rule/a", Step: "ticks", Status: alerts.Firing, Severity: alerts.Error, Since: w.slot(), Text: "it is so"}
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
	conclude(false)
	firing, written, err := w.WriteSystemAlert(w.ctx(), r)
	if err != nil || !written {
		t.Fatal(written, err)
	}
	if a := conclude(true); !slices.Equal(a.Closes, []alerts.ID{firing.ID}) {
		t.Errorf("it closes %v, not %v", a.Closes, firing.ID)
	}
	conclude(false)
	if all := w.unpublished(); len(all) != 2 {
		t.Errorf("%d alerts", len(all))
	}
}
