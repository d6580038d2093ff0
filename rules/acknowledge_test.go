package rules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"deadman/rules/document"

	"github.com/google/go-cmp/cmp"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// ackAction is an action of a person in a story: its time after ten o'clock, and until when the alert is acknowledged.
type ackAction struct{ after, until string }

// The actions of a person, beside an instant such as 2h.
const (
	untilResolved = "until resolved"
	takeBack      = "no more"
)

// ackTimeline plays a job that begins at ten with the actions of a person. It returns the alerts, and the checks that are not
// counted, until a given time.
func ackTimeline(t *testing.T, text, end string, story ...ackAction) (lines []string) {
	t.Helper()
	rule := compileRule(t, text)
	begin, err := rule.Start("1", tenOClock, tenOClock, []byte(itBegins), 1)
	if err != nil {
		t.Fatal(err)
	}
	job := *futurejobs.Fold([]futurejobs.Effect{begin}, futurejobs.FoldInput{}, tenOClock).Create[0]
	job.ID = 1
	over := false
	// Without a change in between, an alert is the next step that the job had after the last alert or action.
	name, severity, at, predicted := rule.NextStep(job, tenOClock)
	checkUntil := func(through time.Time) {
		for !over && !job.NextCheckAt.After(through) {
			slot, counted := job.NextCheckAt, job.CheckCount
			d := rule.Engine().Check(t.Context(), job, slot)
			line := document.Duration(slot.Sub(tenOClock)).String()
			for _, a := range d.Alerts {
				line += fmt.Sprintf(" %s", a.Text)
				if len(a.SkippedSteps) > 0 {
					line += fmt.Sprintf(" instead of %d", len(a.SkippedSteps))
				}
			}
			if d.Job.CheckCount == counted {
				line += " held"
			}
			if over = d.Ends(); over {
				line += " " + string(d.Outcome)
			}
			lines, job = append(lines, line), d.Job
			for _, a := range d.Alerts {
				if !predicted || !strings.HasPrefix(name, a.Step) || severity != a.Severity || !at.Equal(slot) {
					t.Errorf("%s: next was %v, %s (%s) at %s", line, predicted, name, severity, at.Sub(tenOClock))
				}
				name, severity, at, predicted = rule.NextStep(job, slot)
			}
		}
	}
	for _, s := range story {
		now := tenOClock.Add(parseSpan(t, s.after))
		checkUntil(now.Add(-time.Microsecond))
		ack := futurejobs.Acknowledge{Ack: futurejobs.Ack{By: "ada"}}
		if len(job.Alerts) > 0 {
			ack.Ack.Alert = job.Alerts[0]
		}
		switch s.until {
		case untilResolved:
			ack.Ack.Until = checks.Forever
		case takeBack:
		default:
			ack.Ack.Until = tenOClock.Add(parseSpan(t, s.until))
		}
		effect := futurejobs.Effect{Rule: rule.Engine(), Ref: job.Ref, Action: ack}
		net := futurejobs.Fold([]futurejobs.Effect{effect}, futurejobs.FoldInput{Pending: map[futurejobs.Ref]futurejobs.Job{job.Ref: job}}, now)
		if len(net.Change) != 1 {
			t.Fatalf("at %s nothing changes: %+v", s.after, net)
		}
		job = net.Change[0]
		name, severity, at, predicted = rule.NextStep(job, now)
	}
	checkUntil(tenOClock.Add(parseSpan(t, end)))
	return lines
}

func TestAcknowledged(t *testing.T) {
	const (
		three = `escalate: [{after: 1h, step: one, text: one}, {after: 2h, step: two, text: two}, {after: 3h, step: three, text: three}]`
		nags  = `escalate: [{after: 1h, step: one, text: one}, {every: 30m, until: acknowledged, step: nag, text: "nag {{job.turn}}{{job.turns > 0 ? '?' : ''}}"}, {after: 3h, step: last, text: last}]`
	)
	for name, c := range map[string]struct {
		rule  string
		end   string
		story []ackAction
		want  []string
	}{
		"not acknowledged":                                {joinLines(doneResolves, three), "9h", nil, []string{"1h one", "2h two", "3h three", "4h exhausted"}},
		"until after a step was due":                      {joinLines(doneResolves, three), "9h", []ackAction{{"1h10m", "2h30m"}}, []string{"1h one", "2h held", "2h30m two", "3h three", "4h exhausted"}},
		"until after the last step":                       {joinLines(doneResolves, three), "9h", []ackAction{{"1h10m", "5h"}}, []string{"1h one", "2h held", "3h held", "5h three instead of 1", "6h exhausted"}},
		"until before the next step":                      {joinLines(doneResolves, three), "9h", []ackAction{{"1h10m", "1h50m"}}, []string{"1h one", "2h two", "3h three", "4h exhausted"}},
		"until the slot of a step":                        {joinLines(doneResolves, three), "9h", []ackAction{{"1h10m", "2h"}}, []string{"1h one", "2h two", "3h three", "4h exhausted"}},
		"extended":                                        {joinLines(doneResolves, three), "9h", []ackAction{{"1h10m", "2h30m"}, {"2h20m", "3h30m"}}, []string{"1h one", "2h held", "2h30m held", "3h held", "3h30m three instead of 1", "4h30m exhausted"}},
		"shortened":                                       {joinLines(doneResolves, three), "9h", []ackAction{{"1h10m", "5h"}, {"2h20m", "2h40m"}}, []string{"1h one", "2h held", "2h45m two", "3h three", "4h exhausted"}},
		"until resolved":                                  {joinLines(doneResolves, three), "9h", []ackAction{{"1h10m", untilResolved}}, []string{"1h one", "2h held", "3h held", "4h held exhausted"}},
		"until resolved, without a resolve":               {joinLines("quiet: true", three), "9h", []ackAction{{"1h10m", untilResolved}}, []string{"1h one", "2h held", "3h held exhausted"}},
		"removed after a step was due":                    {joinLines(doneResolves, three), "9h", []ackAction{{"1h10m", "5h"}, {"2h10m", takeBack}}, []string{"1h one", "2h held", "2h15m two", "3h three", "4h exhausted"}},
		"removed before a step was due":                   {joinLines(doneResolves, three), "9h", []ackAction{{"1h10m", "5h"}, {"1h20m", takeBack}}, []string{"1h one", "2h two", "3h three", "4h exhausted"}},
		"removed, until resolved":                         {joinLines(doneResolves, three), "9h", []ackAction{{"1h10m", untilResolved}, {"2h10m", takeBack}}, []string{"1h one", "2h held", "2h15m two", "3h three", "4h exhausted"}},
		"removed in the hold":                             {joinLines(doneResolves, three), "9h", []ackAction{{"1h10m", untilResolved}, {"3h10m", takeBack}}, []string{"1h one", "2h held", "3h held", "3h15m three instead of 1", "4h15m exhausted"}},
		"the condition clears meanwhile":                  {joinLines(`while: since > date("2026-03-02T09:00:00Z") and event.n == 2`, `recheck: date("2026-03-02T11:30:00Z")`, three), "9h", []ackAction{{"1h10m", "5h"}}, []string{"1h one", "1h30m", "2h held", "3h held", "5h three instead of 1 exhausted"}},
		"in the hold":                                     {joinLines(doneResolves, three), "9h", []ackAction{{"3h10m", "3h30m"}}, []string{"1h one", "2h two", "3h three", "4h exhausted"}},
		"repeated step, not acknowledged":                 {joinLines(doneResolves, nags, "guards: {horizon: 4h}"), "9h", nil, []string{"1h one", "1h30m nag 1", "2h nag 2", "2h30m nag 3", "3h last instead of 1", "3h30m nag 5", "4h nag 6", "5h exhausted"}},
		"repeated step, until resolved":                   {joinLines(doneResolves, nags, "guards: {horizon: 4h}"), "9h", []ackAction{{"1h40m", untilResolved}}, []string{"1h one", "1h30m nag 1", "2h held", "3h held", "5h held exhausted"}},
		"repeated step, until a time":                     {joinLines(doneResolves, nags, "guards: {horizon: 4h}"), "9h", []ackAction{{"1h40m", "2h50m"}}, []string{"1h one", "1h30m nag 1", "2h held", "2h30m held", "3h last instead of 3", "3h30m nag 5", "4h nag 6", "5h exhausted"}},
		"repeated step, until resolved, removed":          {joinLines(doneResolves, nags, "guards: {horizon: 4h}"), "9h", []ackAction{{"2h10m", untilResolved}, {"2h20m", takeBack}}, []string{"1h one", "1h30m nag 1", "2h nag 2", "2h30m nag 3", "3h last instead of 1", "3h30m nag 5", "4h nag 6", "5h exhausted"}},
		"repeated step without a resolve, until resolved": {joinLines(`quiet: true`, `escalate: [{after: 1h, step: one, text: one}, {every: 30m, until: acknowledged, step: nag, text: nag}]`), "9h", []ackAction{{"1h40m", untilResolved}}, []string{"1h one", "1h30m nag", "2h held exhausted"}},
		"repeated step with a condition, until resolved":  {joinLines(`while: event.n == 2`, nags, "guards: {horizon: 4h}"), "9h", []ackAction{{"1h40m", untilResolved}}, []string{"1h one", "1h30m nag 1", "2h held", "2h30m held", "3h held", "3h30m held", "4h held exhausted"}},
		"max_checks are not used up":                      {joinLines(doneResolves, three, "guards: {max_checks: 4}", "slot: 5m"), "9h", []ackAction{{"1h1m", "1h2m"}, {"2h5m", "2h6m"}, {"2h10m", "2h11m"}, {"2h20m", "4h"}, {"3h10m", "3h20m"}, {"3h30m", "5h"}}, []string{"1h one", "2h two", "3h held", "3h20m three", "4h20m exhausted"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, ackTimeline(t, c.rule, c.end, c.story...)); diff != "" {
				t.Errorf("%s\n(-want +got):\n%s", c.rule, diff)
			}
		})
	}
}

// A step that is repeated until a user acknowledges needs no number: it has as many repetitions as the horizon, or all
// steps together, may have.
func TestNaggingIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		rule         string
		turns        int
		more, checks int
	}{
		"by the horizon":                          {joinLines(`escalate: [{after: 1d}, {every: 1d, until: acknowledged, step: nag}]`), 30, 26, 35},
		"by the maximum of steps":                 {joinLines(`escalate: [{after: 1h}, {every: 15m, until: acknowledged, step: nag}]`), 1000, 996, 1005},
		"by the default, if its time is computed": {joinLines(`escalate: [{after: hours(event.n)}, {every: 1h, until: acknowledged, step: nag}]`), 721, 717, 726},
		"by being the last step":                  {joinLines(`escalate: [{every: 30d, until: acknowledged, step: nag}]`), 1, 0, 6},
	} {
		t.Run(name, func(t *testing.T) {
			rule := compileRule(t, c.rule)
			if n := rule.Document().Guards.MaxChecks; n != c.checks {
				t.Errorf("max_checks is %d, want %d", n, c.checks)
			}
			preview, err := rule.Preview(t.Context(), []rules.PreviewEvent{{At: tenOClock, Data: []byte(itBegins)}}, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if len(preview.Refusals) > 0 || preview.Outcome != string(checks.Exhausted) || len(preview.Lines) > 8 {
				t.Fatalf("refused %v, ended %q after %d lines", preview.Refusals, preview.Outcome, len(preview.Lines))
			}
			last := preview.Lines[len(preview.Lines)-2]
			if last.More != c.more || last.More > 0 && !last.Last.Equal(preview.EndedAt) {
				t.Errorf("the last line stands for %d more, until %s; it ended at %s", last.More, last.Last, preview.EndedAt)
			}
		})
	}
}
