package ruletest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/internal/replay"
	"deadman/rules"
)

// Entry is a line of an explanation: one thing that happened, and the conditions that decided it.
type Entry struct {
	At    string   `json:"at"`
	Kind  string   `json:"kind"`
	Text  string   `json:"text"`
	Notes []string `json:"notes,omitempty"` // evaluated conditions

	rule, key string
}

// story records all that happens in a test.
type story struct {
	test    *Test
	entries []Entry
	notes   map[string][]string // evaluations of a rule that no entry has yet
	steps   map[string]bool     // evaluations of steps so far: each check repeats them
	event   replay.Moment       // the last event
}

// maxStory bounds the entries of a story, and maxExplanation those of an explanation.
const (
	maxStory       = 20_000
	maxExplanation = 30
)

func newStory(t *Test) story {
	return story{test: t, notes: make(map[string][]string), steps: make(map[string]bool)}
}

func (s *story) add(at time.Time, kind, rule, key, text string) {
	if len(s.entries) >= maxStory {
		return
	}
	s.entries = append(s.entries, Entry{At: s.test.when(at), Kind: kind, Text: text, Notes: s.notes[rule], rule: rule, key: key})
	delete(s.notes, rule)
}

// evaluated records the evaluation of a condition.
func (s *story) evaluated(e rules.Evaluation) {
	note := fmt.Sprintf("%s: %s is %t", e.Field, e.Condition, e.Holds)
	if e.Values != "" {
		note += "; " + e.Values
	}
	if strings.HasPrefix(e.Field, "step ") {
		if s.steps[e.Rule+note] {
			return
		}
		s.steps[e.Rule+note] = true
	}
	if !slices.Contains(s.notes[e.Rule], note) {
		s.notes[e.Rule] = append(s.notes[e.Rule], note)
	}
}

// shownBody limits the shown body of an event, in bytes.
const shownBody = 80

// lastEvent returns the subject of the last event with its body, because an event without a job may be about any key.
func (s *story) lastEvent() string {
	body := strings.Join(strings.Fields(strings.ToValidUTF8(string(s.event.Data), "?")), " ")
	if len(body) > shownBody {
		body = strings.ToValidUTF8(body[:shownBody], "") + "…"
	}
	return strings.TrimSpace(s.event.By + " " + body)
}

// flush records the rules that the last event has no effect on, and their conditions.
func (s *story) flush() {
	for _, rule := range slices.Sorted(maps.Keys(s.notes)) {
		s.add(s.event.At, "event", rule, "", s.lastEvent()+" has no effect")
	}
}

// observed records a moment of the replay.
func (s *story) observed(m replay.Moment) {
	next := ""
	switch {
	case m.Kind == replay.Ended:
	case m.Next.IsZero():
		next = "; it is paused"
	case m.Held:
		next = "; no further check until the next heartbeat"
	default:
		next = "; next check at " + s.test.when(m.Next)
	}
	switch m.Kind {
	case replay.Due:
		s.flush()
	case replay.Received:
		s.flush()
		s.event = m
	case replay.Started:
		text := m.By + " starts the job" + next
		if !m.Since.Equal(m.At) {
			text += ", counted from " + s.test.when(m.Since)
		}
		s.add(m.At, "event", m.Rule, m.Key, text)
	case replay.Changed:
		s.add(m.At, "event", m.Rule, m.Key, m.By+" changes the job"+next)
	case replay.Unchanged:
		s.add(m.At, "event", m.Rule, m.Key, fmt.Sprintf("%s changes nothing: %s", m.By, m.Reason))
	case replay.Checked:
		s.add(m.At, "check", m.Rule, m.Key, checkText(m)+next)
	case replay.Ended:
		text := m.Outcome
		if m.Reason != "" {
			text += ": " + m.Reason
		}
		s.add(m.At, "ends", m.Rule, m.Key, text)
	case replay.Refused:
		s.add(m.At, "refused", m.Rule, m.Key, fmt.Sprintf("%s would be a dead letter: %s", s.lastEvent(), m.Reason))
	}
}

// checkText returns the result of a check after which the job continues.
func checkText(m replay.Moment) string {
	switch {
	case m.Check.Held && m.Check.Step != "":
		return "step " + m.Check.Step + " is due, and suppressed by an acknowledgement"
	case m.Check.Held:
		return "a step is due, and suppressed by an acknowledgement"
	case m.Check.Step != "":
		return "step " + m.Check.Step + " is due"
	case m.Reason != "":
		return "undetermined: " + m.Reason
	}
	return "no step is due"
}

// raised records an alert.
func (s *story) raised(a alerts.Alert) {
	text := string(a.Status) + " " + string(a.Severity)
	if a.Step != "" {
		text += " " + a.Step
	}
	s.add(a.Slot, "alert", a.Rule, a.Key, text+": "+a.Text)
}

// of returns the entries about a job, and those of events that have no effect on its rule. Without a key it returns those
// about all jobs of the rule, and without a rule all.
func (s *story) of(rule, key string) (entries []Entry) {
	s.flush()
	for _, e := range s.entries {
		if (rule == "" || e.rule == rule) && (key == "" || e.key == "" || e.key == key) {
			entries = append(entries, e)
		}
	}
	if extra := len(entries) - maxExplanation; extra > 0 {
		const head = 5
		left := Entry{Kind: "…", Text: fmt.Sprintf("%d lines are left out", extra)}
		entries = slices.Concat(entries[:head], []Entry{left}, entries[len(entries)-maxExplanation+head:])
	}
	return entries
}
