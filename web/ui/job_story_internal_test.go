package ui

import (
	"fmt"
	"testing"
	"time"

	"deadman/rules/document"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"deadman/alerts"
	"deadman/checks"
	"deadman/web"
)

var midday = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func minute(n int) time.Time { return midday.Add(time.Duration(n) * time.Minute) }

// storyLines summarizes a story, newest first.
func storyLines(s jobStory) (lines []string) {
	for _, m := range s.Line {
		line := fmt.Sprintf("%s %s|%s", m.At.Format("15:04"), m.Word, m.Text)
		if m.Times > 0 {
			line += fmt.Sprintf("|%d since %s", m.Times, m.From.Format("15:04"))
		}
		if m.Values != "" {
			line += "|" + m.Values
		}
		lines = append(lines, line)
	}
	return lines
}

func TestStories(t *testing.T) {
	check := func(at int, saw string) web.TrailEntry {
		return web.TrailEntry{Kind: "check", At: minute(at), Values: saw, Next: minute(at + 1)}
	}
	step := check(6, "paid = false")
	step.Step = "primary"
	suppressed := check(7, "")
	suppressed.Step = "other" // without a known alert
	unknown := check(8, "")
	unknown.Reason = "no route"
	a := web.Alert{AlertFields: web.AlertFields(alerts.Alert{
		ID: uuid.MustParse("0194bd10-0000-8000-8000-000000000001"), DecidedAt: minute(6).Add(time.Second),
		Detail: alerts.Detail{Draft: alerts.Draft{Status: alerts.Firing, Severity: alerts.Error, Step: "primary", Text: "it waits"}, Slot: minute(6)},
	})}
	other := a
	other.ID = uuid.MustParse("0194bd10-0000-8000-8000-000000000002")
	j := web.Job{
		Since: minute(0), FirstCheckAt: minute(1), NextCheckAt: minute(30), Alerts: []alerts.ID{a.ID},
		Trail: []web.TrailEntry{
			check(1, "paid = false"), check(2, "paid = false"), check(3, "paid = true"),
			{Kind: "update", At: minute(4), By: "orders.paid"},
			check(5, "paid = true"), step, suppressed, unknown,
			{Kind: "snooze", At: minute(9), Next: minute(30)},
		},
	}
	want := []string{
		"12:30 next check|",
		"12:09 snoozed|",
		"12:08 undetermined|no route",
		"12:07 check|step other",
		"12:06 error|it waits|paid = false",
		"12:05 check|no step due;|paid = true",
		"12:04 updated|by orders.paid",
		"12:03 check|no step due;|paid = true",
		"12:02 check|no step due;|2 since 12:01|paid = false",
		"12:00 started|",
	}
	if diff := cmp.Diff(want, storyLines(storyOf(j, nil, alertsOfJob(j, []web.Alert{a, other})))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ended := web.EndedJob{Job: j, Outcome: checks.Cleared, Reason: "found by a manual check", EndedAt: minute(10)}
	want[0] = "12:10 cleared|found by a manual check"
	if diff := cmp.Diff(want, storyLines(storyOf(j, &ended, []web.Alert{a}))); diff != "" {
		t.Errorf("once it ended (-want +got):\n%s", diff)
	}
}

func TestMissingEventsOfJob(t *testing.T) {
	on := func(subjects ...string) (list []document.Resolve) {
		for _, s := range subjects {
			list = append(list, document.Resolve{Watch: document.Watch{Event: s}})
		}
		return list
	}
	for want, d := range map[string]document.Document{
		"No a.done":                     {Resolve: on("a.done"), While: "state.x == 1"},
		"No a.done or a.gone":           {Resolve: on("a.done", "a.gone", "a.gone")},
		"No a.done or 2 other events":   {Resolve: on("a.done", "a.gone", "a.off")},
		"Condition holds: state.x == 1": {While: "state.x == 1"},
		"No ping":                       {Trigger: document.Trigger{Heartbeat: &document.Heartbeat{}}},
		"No event on a.beat":            {Trigger: document.Trigger{Heartbeat: &document.Heartbeat{Event: "a.beat"}}},
		"Handler mine: not resolved":    {Handler: "mine"},
		"Not resolved":                  {},
	} {
		if got := missingEvent(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
