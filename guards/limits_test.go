package guards_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/guards"
)

var slot = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestJudge(t *testing.T) {
	limits := guards.Limits{MaxChecks: 5, Horizon: time.Hour}
	for _, c := range []struct {
		name  string
		next  time.Duration
		count int
		want  guards.Breach
	}{
		{"on", time.Minute, 1, guards.None},
		{"the slot itself", 0, 1, guards.Past},
		{"before the slot", -time.Microsecond, 1, guards.Past},
		{"just after the slot", time.Microsecond, 1, guards.None},
		{"at the horizon", time.Hour, 1, guards.None},
		{"beyond the horizon", time.Hour + time.Microsecond, 1, guards.Horizon},
		{"one check left", time.Minute, 4, guards.None},
		{"no check left", time.Minute, 5, guards.MaxChecks},
		{"past comes first", -time.Minute, 5, guards.Past},
	} {
		got := limits.Judge(slot, slot.Add(c.next), c.count)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if why := limits.Explain(got, slot, slot.Add(c.next)); (why == "") != (got == guards.None) {
			t.Errorf("%s: explained as %q", c.name, why)
		}
		if got != guards.None && !slices.Contains(guards.Breaches(), got) {
			t.Errorf("%s: %s is not in the list of guards", c.name, got)
		}
	}
	if got := (guards.Limits{}).Judge(slot, slot.Add(1e6*time.Hour), 1e6); got != guards.None {
		t.Errorf("nothing is bounded, yet %q", got)
	}
}

func TestEachBreachIsExplained(t *testing.T) {
	for _, b := range guards.Breaches() {
		if (guards.Limits{}).Explain(b, slot, slot) == "" {
			t.Errorf("%s is not explained", b)
		}
	}
}

func TestSpent(t *testing.T) {
	if (guards.Limits{Attempts: 3}).Spent(2) || !(guards.Limits{Attempts: 3}).Spent(3) || !(guards.Limits{}).Spent(1) {
		t.Error("attempts are not counted as the limits say")
	}
	if why := (guards.Limits{Attempts: 3, Timeout: 5 * time.Second}).Explain(guards.Timeout, slot, slot); !strings.Contains(why, "5s, 3 times") {
		t.Errorf("a timeout is explained as %q", why)
	}
}
