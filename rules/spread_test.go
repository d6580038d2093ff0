package rules_test

import (
	"fmt"
	"testing"
	"time"

	"deadman/rules/document"

	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
	"deadman/rules"
)

// firstCheck returns a job that begins at ten, with its first check.
func firstCheck(t *testing.T, rule *rules.Rule, key string) futurejobs.Job {
	t.Helper()
	effect, err := rule.Start(key, tenOClock, tenOClock, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	return effect.Action.(futurejobs.Start).Job
}

// A herd that begins at one instant spreads over the slots evenly.
func TestManyKeysAreSpread(t *testing.T) {
	const keys = 10_000
	rule := compileRule(t, joinLines("slot: 1m", "spread: 10m", "escalate: [{after: 1h, step: one}, {after: 2h, step: two}]"))
	slots := map[time.Time]int{}
	for i := range keys {
		job := firstCheck(t, rule, fmt.Sprint("key-", i))
		if !job.Since.Equal(tenOClock) {
			t.Fatalf("the wait of %s begins at %s", job.Key, job.Since)
		}
		slots[job.FirstCheckAt]++
	}
	// With ten slots chi-square has nine degrees of freedom: over 34 once in ten thousand herds.
	chi := 0.0
	for i := range 10 {
		off := float64(slots[tenOClock.Add(time.Hour+time.Duration(i)*time.Minute)]) - keys/10
		chi += off * off / (keys / 10)
	}
	if len(slots) != 10 || chi > 34 {
		t.Errorf("%d slots, want 10; chi-square %.1f: %v", len(slots), chi, slots)
	}
}

func TestSpreadDelaysAllStepsOfKeyEqually(t *testing.T) {
	spread := joinLines("slot: 1m", "spread: 2h", `escalate: [{after: 1h, step: one, text: "."}, {every: 3h, times: 2, step: two, text: "."}]`)
	plain := joinLines("slot: 1m", `escalate: [{after: 1h, step: one, text: "."}, {every: 3h, times: 2, step: two, text: "."}]`)
	moved := map[time.Duration]bool{}
	for i := range 20 {
		key := fmt.Sprint(i)
		later := firstCheck(t, compileRule(t, spread), key).FirstCheckAt.Sub(tenOClock.Add(time.Hour))
		moved[later] = true
		if later < 0 || later >= 2*time.Hour {
			t.Fatalf("the first check of %s is later by %s", key, later)
		}
		event := []rules.PreviewEvent{{At: tenOClock, Data: fmt.Appendf(nil, `{"id": %q}`, key)}}
		with, err := compileRule(t, spread).Preview(t.Context(), event, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		without, err := compileRule(t, plain).Preview(t.Context(), event, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if with.SpreadDelay != document.Duration(later).String() || without.SpreadDelay != "" || len(with.Lines) != len(without.Lines) {
			t.Fatalf("%s: the preview shows %q and %q", key, with.SpreadDelay, without.SpreadDelay)
		}
		for n, l := range with.Lines[1:] {
			if by := l.At.Sub(without.Lines[n+1].At); by != later {
				t.Errorf("%s: line %d is later by %s, want %s", key, n, by, later)
			}
		}
	}
	if len(moved) < 10 {
		t.Errorf("20 keys have %d turns", len(moved))
	}
}

// Keys that wait until a calendar opens are spread over the time after that, and not past its end.
func TestSpreadStaysWithinCalendar(t *testing.T) {
	known, err := calendars.Parse([]byte(`
calendars:
  office: {zone: UTC, days: mon-fri, hours: "09:00-10:00"}
`), "")
	if err != nil {
		t.Fatal(err)
	}
	documents, err := rules.Parse([]byte(joinLines("slot: 1m", "spread: 2h", "escalate: [{after: 3h, within: office, step: one}]")), "")
	if err != nil {
		t.Fatal(err)
	}
	rule, err := rules.Compile(documents[0], rules.RuleVersion{Version: 1}, known)
	if err != nil {
		t.Fatal(err)
	}
	opens := tenOClock.Add(23 * time.Hour)
	early, next := 0, 0
	for i := range 200 {
		switch at := firstCheck(t, rule, fmt.Sprint(i)).FirstCheckAt; {
		case !at.Before(opens) && at.Before(opens.Add(time.Hour)):
			early++
		case at.Equal(opens.Add(futurejobs.Day)):
			next++
		default:
			t.Errorf("a check at %s, when the office is closed", at)
		}
	}
	if early < 60 || next < 60 {
		t.Errorf("%d in the first hour, %d the day after; want about half each", early, next)
	}
}
