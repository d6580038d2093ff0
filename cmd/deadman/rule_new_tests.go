package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"deadman/internal/ruletest"
	"deadman/internal/schedules"
	"deadman/rules"
	"deadman/rules/document"
)

// testFileOf returns the file of the tests of a rule file.
func testFileOf(file string) string {
	return strings.TrimSuffix(file, filepath.Ext(file)) + rules.TestSuffix
}

// tests returns a file of tests for the rule: its alerts, and its silence if all is well.
func (r newRule) tests(ctx context.Context, d document.Document) ([]byte, error) {
	header := fmt.Sprintf("# yaml-language-server: $schema=%s\n# Run with: deadman rule test %s\n", testSchemaFile, r.File)
	if filepath.Ext(r.File) != ".yaml" {
		header += fmt.Sprintf("rules: %s\n", filepath.Base(r.File))
	}
	switch {
	case r.Every != "":
		return ruletest.Write(ctx, d, header, r.heartbeatDrafts(d))
	case r.Schedule != "":
		drafts, err := r.scheduleDrafts(d)
		if err != nil {
			return nil, err
		}
		return ruletest.Write(ctx, d, header, drafts)
	}
	return ruletest.Write(ctx, d, header, r.eventDrafts(d))
}

// eventDrafts returns the drafts for a rule with a trigger event.
func (r newRule) eventDrafts(d document.Document) []ruletest.Draft {
	trigger := r.event(r.Event, "1", 0)
	if r.Until == "" {
		return []ruletest.Draft{{Name: "after " + r.Event + " the rule raises its alerts", Events: []ruletest.Event{trigger}}}
	}
	first := time.Duration(d.Escalate[0].After.Fixed)
	return []ruletest.Draft{
		{Name: "without " + r.Until + " the rule raises its alerts", Events: []ruletest.Event{trigger}},
		{Name: r.Until + " in time keeps the rule silent", Events: []ruletest.Event{trigger, r.event(r.Until, "1", first/2)}, Outcomes: true},
	}
}

// heartbeatDrafts returns the drafts for a rule with a heartbeat.
func (r newRule) heartbeatDrafts(d document.Document) []ruletest.Draft {
	every := time.Duration(d.Trigger.Heartbeat.Every)
	overdue := every + time.Duration(d.Trigger.Heartbeat.Grace)
	end := overdue + time.Duration(d.Slot)
	for _, s := range d.Escalate {
		end = max(end, overdue+time.Duration(s.After.Fixed+d.Slot))
	}
	keys := r.Keys
	if len(keys) == 0 {
		keys = []string{"1"}
	}
	silent := ruletest.Draft{Name: "regular signals keep the rule silent", Until: ruletest.DefaultStart.Add(2*every + every/2)}
	missing := ruletest.Draft{Name: "a signal that does not recur raises the alerts", Until: ruletest.DefaultStart.Add(end)}
	missing.Events = append(missing.Events, r.event(r.Event, keys[0], 0))
	for turn := range 3 {
		for _, key := range keys {
			silent.Events = append(silent.Events, r.event(r.Event, key, time.Duration(turn)*every))
		}
	}
	return []ruletest.Draft{missing, silent}
}

// maxDraftTicks bounds the ticks in a draft.
const maxDraftTicks = 20

// scheduleDrafts returns the drafts for a rule with a schedule: from its first tick to its last step, or to its first step if
// the schedule ticks too often.
func (r newRule) scheduleDrafts(d document.Document) ([]ruletest.Draft, error) {
	zone, err := time.LoadLocation(d.Trigger.Zone)
	if err != nil {
		return nil, err
	}
	schedule, err := schedules.Parse(d.Trigger.Schedule, zone, d.Name)
	if err != nil {
		return nil, err
	}
	tick, ok := schedule.From(ruletest.DefaultStart).Next(ruletest.DefaultStart)
	if !ok {
		return nil, fmt.Errorf("%w: the schedule has no tick after %s", ruletest.ErrDraft, ruletest.DefaultStart.Format(time.RFC3339))
	}
	first := time.Duration(d.Escalate[0].After.Fixed)
	last := time.Duration(d.Escalate[len(d.Escalate)-1].After.Fixed)
	if gap := schedule.Shortest(); gap > 0 && last/gap > maxDraftTicks {
		last = first
	}
	until := tick.Add(last + time.Duration(d.Slot))
	if r.Until == "" {
		return []ruletest.Draft{{Name: "a tick raises the alerts", Until: until}}, nil
	}
	silent := ruletest.Draft{Name: r.Until + " in time keeps the rule silent", Until: until}
	for _, key := range r.Keys {
		silent.Events = append(silent.Events, r.event(r.Until, key, tick.Add(first/2).Sub(ruletest.DefaultStart)))
	}
	return []ruletest.Draft{{Name: "without " + r.Until + " a tick raises the alerts", Until: until}, silent}, nil
}

// wildcards replaces the wildcards of a subject by a token.
var wildcards = strings.NewReplacer("*", "x", ">", "x")

// event returns a sample event; a ping if the subject is empty.
func (r newRule) event(subject, key string, after time.Duration) ruletest.Event {
	at := ruletest.DefaultStart.Add(after.Truncate(time.Millisecond))
	if subject == "" {
		return ruletest.Event{At: at, Ping: rules.ReceivedHeartbeat{Key: key, At: at, Kind: rules.Success}}
	}
	return ruletest.Event{At: at, Subject: wildcards.Replace(subject), Data: json.RawMessage(sampleEvent(r.Key, key))}
}
