package rules

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
)

// countTicks returns the jobs that schedules create between ten and the end of a span of some hours, by quarters of an
// hour that have any; the rule was saved at eight.
func countTicks(t *testing.T, text string, hours int) map[string]int {
	t.Helper()
	known, err := calendars.Parse([]byte("calendars:\n  office: {zone: UTC, hours: \"12:00-13:00\"}\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	documents, err := ParseAgainst([]byte("name: due\nentity: import\n"+text), "", known)
	if err != nil {
		t.Fatal(err)
	}
	document, err := documents[0].Canonical()
	if err != nil {
		t.Fatal(err)
	}
	b := &Catalog{shards: 4}
	b.current.Store(newSnapshot(1, []RuleVersion{{RuleID: 7, Version: 1, Name: "due", Entity: "import", Document: document, SavedAt: minuteOf(-120)}}, nil, environment{calendars: known}))
	span := futurejobs.BucketRange{From: minuteOf(0), Until: minuteOf(60 * hours), Width: 15 * time.Minute}
	got := make(map[string]int)
	for i, n := range b.PlannedTicks(span, minuteOf(-60)) {
		if n > 0 {
			got[span.From.Add(time.Duration(i)*span.Width).Format("15:04")] = n
		}
	}
	return got
}

// The jobs of a tick are in the part of their first check's slot.
func TestTicksCountAtTheirCheck(t *testing.T) {
	for name, c := range map[string]struct {
		rule string
		want map[string]int
	}{
		"after the tick":           {`trigger: {schedule: "0 * * * *"}` + "\nescalate: [{after: 50m}]", map[string]int{"10:45": 1, "11:45": 1, "12:45": 1}},
		"at a slot":                {`trigger: {schedule: "0 11 * * *", keys: [a, b]}` + "\nescalate: [{after: 31m}]\nslot: 1h", map[string]int{"12:00": 2}},
		"a tick before the span":   {`trigger: {schedule: "30 9 * * *"}` + "\nescalate: [{after: 2h}]", map[string]int{"11:30": 1}},
		"one that was, is no more": {`trigger: {schedule: "59 8 * * *"}` + "\nescalate: [{after: 2h}]", map[string]int{}},
		"at a time of day":         {`trigger: {schedule: "0 11 * * *", keys: [a, b]}` + "\nescalate: [{at: '12:40'}]", map[string]int{"12:30": 2}},
		"at the tick":              {`trigger: {schedule: "15 11 * * *"}` + "\nescalate: [{at: '11:15'}]\nslot: 15m", map[string]int{"11:30": 1}},
		"within":                   {`trigger: {schedule: "0 10 * * *"}` + "\nescalate: [{after: 10m, within: office}]", map[string]int{"12:00": 1}},
		"of":                       {`trigger: {schedule: "0 10 * * *"}` + "\nescalate: [{after: 20m, of: office}]", map[string]int{"12:15": 1}},
		"many": {`trigger: {schedule: "@every 1s"}` + "\nescalate: [{after: 2h20m}]", map[string]int{"11:15": 539, // the last tick of a minute represents it
			"11:30": 900, "11:45": 900, "12:00": 900, "12:15": 900, "12:30": 900, "12:45": 900}},
		"a check in between": {`trigger: {schedule: "0 10 * * *"}` + "\nescalate: [{after: 2h}]\nrecheck: since + minutes(20)", map[string]int{"10:15": 1}},
		"a handler":          {`trigger: {schedule: "0 10 * * *", keys: [a]}` + "\nhandler: checks", map[string]int{"10:00": 1}},
		"an event":           {`trigger: {schedule: "0 10 * * *", emit: {subject: imports.due}}`, map[string]int{"10:00": 1}},
		"many events":        {`trigger: {schedule: "*/5 10-11 * * *", emit: {subject: imports.due}}`, map[string]int{"10:00": 3, "10:15": 3, "10:30": 3, "10:45": 3, "11:00": 3, "11:15": 3, "11:30": 3, "11:45": 3}},
		"events at rest":     {`trigger: {schedule: "0 10 * * *", emit: {subject: imports.due}}` + "\nenabled: false", map[string]int{}},
		"at rest":            {`trigger: {schedule: "0 10 * * *"}` + "\nescalate: [{after: 2h}]\nenabled: false", map[string]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, countTicks(t, c.rule, 3)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Spread keys are not a herd: each key is in its own slot.
func TestTicksAreSpread(t *testing.T) {
	keys, want := "", make(map[string]int)
	for i := range 1000 {
		key := "k" + time.Duration(i).String()
		keys += key + ","
		at := minuteOf(35).Add(time.Duration(futurejobs.SpreadIndex("due", key, 60)) * time.Minute)
		want[at.Truncate(15*time.Minute).Format("15:04")]++
	}
	got := countTicks(t, `trigger: {schedule: "30 10 * * *", keys: [`+keys+"]}\nescalate: [{after: 5m}]\nslot: 1m\nspread: 1h", 3)
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 5 {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
