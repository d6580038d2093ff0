package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"deadman/internal/replay"
)

// Each format has the suggestions, or why there is none.
func TestReplaySuggest(t *testing.T) {
	t.Parallel()
	rule := writeFile(t, t.TempDir(), "rule.yaml", replayedRule)
	var events strings.Builder
	begin := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	for minute := range 400 { // an order each minute, shipped after ten minutes, of ten one after twenty
		for _, order := range []int{minute - 20, minute - 10, minute} {
			subject, isSlow := "orders.shipped", order%10 == 0
			switch {
			case order == minute:
				subject = "orders.created"
			case order < 0, isSlow != (order == minute-20):
				continue
			}
			fmt.Fprintf(&events, `{"subject": %q, "time": %q, "data": {"id": "%d"}}`+"\n", subject, begin.Add(time.Duration(minute)*time.Minute).Format(time.RFC3339), order)
		}
	}
	args := []string{"-f", rule, "--events", "-", "--suggest", "12.5%"}
	code, text, errors := replayCLI(t, events.String(), args...)
	if code != 0 || strings.Contains(text, "is late") || !strings.Contains(text, "order-unshipped  late  3h         0 %        12.5 %  10m    10") || !strings.Contains(text, "tried on those from then to 2026-03-02 16:39:00 UTC") {
		t.Errorf("exit code %d, %s\n%s", code, errors, text)
	}
	_, text, _ = replayCLI(t, events.String(), append(args, "-o", "json", "--summary")...)
	var object replay.Summary
	if err := json.Unmarshal([]byte(text), &object); err != nil || len(object.Suggestions) != 1 || object.Suggestions[0].After != "10m" || object.Suggestions[0].HeldBack.Jobs != 134 {
		t.Errorf("%v\n%s", err, text)
	}
	if _, text, _ = replayCLI(t, events.String(), append(args, "-o", "csv")...); !strings.Contains(text, "\norder-unshipped,late,3h,0.125,10m,,,2026-03-02T10:00:00Z,2026-03-02T14:26:00Z,266,") {
		t.Errorf("CSV:\n%s", text)
	}
	if code, text, _ = replayCLI(t, events.String(), "-f", rule, "--events", "-", "--suggest", "late=1%"); code != 0 || !strings.Contains(text, "order-unshipped late: no suggestion: too little history: the first part has 266 jobs, and 1 % of alerts needs 1,000\n") {
		t.Errorf("exit code %d\n%s", code, text)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--suggest", "1"}, "1 is not a share of jobs; write a percentage"},
		{[]string{"--suggest", "100%"}, "100% is not a share"},
		{[]string{"--suggest", "late=5/day"}, "late=5/day is not a share"},
		{[]string{"--suggest", "lost=1%"}, "no rule has the step lost"},
		{[]string{"--suggest", "1%", "--against", rule, "-o", "csv"}, "-o csv prints one table"},
	} {
		if code, _, errors := replayCLI(t, replayedOrders, append([]string{"-f", rule, "--events", "-"}, c.args...)...); code != 2 || !strings.Contains(errors, c.want) {
			t.Errorf("%s: exit code %d, %s", c.args, code, errors)
		}
	}
}
