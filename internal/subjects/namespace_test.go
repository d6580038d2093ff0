package subjects_test

import (
	"strings"
	"testing"

	"deadman/internal/subjects"
)

func TestNamespace(t *testing.T) {
	for text, want := range map[string][2]string{
		"":          {"deadman.alerts.>", "DEADMAN_ALERTS"},
		"staging":   {"deadman-staging.alerts.>", "DEADMAN_STAGING_ALERTS"},
		"eu-1":      {"deadman-eu-1.alerts.>", "DEADMAN_EU-1_ALERTS"},
		"0":         {"deadman-0.alerts.>", "DEADMAN_0_ALERTS"},
		"Staging":   {},
		"a.b":       {},
		"a_b":       {},
		"-a":        {},
		"a-":        {},
		"a--b":      {},
		"*":         {},
		" ":         {},
		"größe":     {},
		"staging\n": {},
		long(32):    {"deadman-" + long(32) + ".alerts.>", "DEADMAN_" + strings.ToUpper(long(32)) + "_ALERTS"},
		long(33):    {},
		"alerts":    {"deadman-alerts.alerts.>", "DEADMAN_ALERTS_ALERTS"},
	} {
		n, err := subjects.ParseNamespace(text)
		if want[0] == "" {
			if err == nil || !strings.Contains(err.Error(), "up to 32 lower-case letters and digits") {
				t.Errorf("%q: %q, %v", text, n, err)
			}
			continue
		}
		if got := [2]string{n.Subject("deadman.alerts.>"), n.Stream("DEADMAN_ALERTS")}; err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
		if !subjects.OfServers(n.Subject("deadman.alerts.>")) {
			t.Errorf("%q: a rule may listen to its alerts", text)
		}
	}
	if subjects.OfServers("deadmanx.orders") {
		t.Error("a rule may not listen to deadmanx.orders")
	}
}

func long(n int) string { return strings.Repeat("x", n) }
