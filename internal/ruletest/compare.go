package ruletest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/configfile"
	"deadman/rules/document"
)

// futureEnd is the end of a test without until: after all checks of jobs that are not paused.
var futureEnd = checks.Forever.Add(-time.Microsecond)

// compare compares a list of the test with the actual entries. An undeclared list of dead letters is empty; other undeclared
// lists are not compared.
func (r *run) compare(list, noun string, expected []Expectation, got []row) {
	if !r.expects[list] && list != "dead_letters" {
		return
	}
	table := map[string]configfile.Table{"alerts": alertFields, "outcomes": outcomeFields, "dead_letters": letterFields}[list]
	expected = inOrderOf(got, expected)
	diff, differing := newDiff(columnsOf(table, expected, len(r.Documents) > 1), expected, got, r.Partial && r.expects[list])
	if diff == nil {
		return
	}
	f := Failure{Line: r.Line, Message: diff.summary(noun), Diff: diff}
	first := differing[0]
	if first.expected >= 0 {
		f.Line = expected[first.expected].Line
	}
	for _, p := range differing {
		if p.expected >= 0 && p.got >= 0 {
			f.Hints = append(f.Hints, r.slotHint(expected[p.expected], got[p.got])...)
		}
	}
	slices.Sort(f.Hints)
	f.Hints = slices.Compact(f.Hints)
	rule, key := r.jobOf(first, expected, got)
	of := rule
	if key != "" {
		of = fmt.Sprintf("%s, key %s", rule, key)
	}
	if !slices.ContainsFunc(r.failures, func(other Failure) bool { return other.Of == of }) { // each job is explained once
		f.Of, f.Explanation = of, r.story.of(rule, key)
	}
	r.failures = append(r.failures, f)
}

// jobOf returns the rule and the key of the job that a difference is about; empty: unknown.
func (r *run) jobOf(p pair, expected []Expectation, got []row) (rule, key string) {
	if p.expected >= 0 {
		rule, key = expected[p.expected].Columns["rule"], expected[p.expected].Columns["key"]
	}
	if p.got >= 0 {
		rule, key = cmp.Or(rule, got[p.got]["rule"]), cmp.Or(key, got[p.got]["key"])
	}
	if rule == "" && len(r.Documents) == 1 {
		rule = r.Documents[0].Name
	}
	return rule, key
}

// slotHint explains an alert that comes later than expected because checks are rounded to slots.
func (r *run) slotHint(x Expectation, got row) []string {
	if x.At.IsZero() || x.Columns["at"] == got["at"] {
		return nil
	}
	i := slices.IndexFunc(r.Documents, func(d document.Document) bool { return d.Name == got["rule"] })
	if i < 0 {
		return nil
	}
	slot := r.Documents[i].Slot
	grid, err := futurejobs.NewGrid(time.Duration(slot))
	if err != nil {
		return nil
	}
	up := grid.Up(x.At)
	if up.Equal(x.At) || r.when(up) != got["at"] {
		return nil
	}
	return []string{fmt.Sprintf("%s is checked each %s only, and %s (%s) is between two checks: expect at: %s, or give the rule a smaller slot",
		got["rule"], slot, x.Columns["at"], x.At.UTC().Format("15:04:05"), got["at"])}
}
