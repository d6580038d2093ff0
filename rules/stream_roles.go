package rules

import (
	"slices"

	"deadman/rules/document"

	futurejobs "deadman/future_jobs"
)

// streamRoles derives from the reads of a version the roles of its lines and streams for the jobs of its rule. A rule
// waits for a line; the order of events is that of their stream, whatever the line.
type streamRoles struct {
	document document.Document
	reads    []StreamBinding
}

// changing returns the lines whose events can change, end or restart a job of the rule, each once, sorted.
func (s streamRoles) changing() []string {
	d := s.document
	changing := make(map[string]bool)
	if h := d.Trigger.Heartbeat; h != nil && h.Event != "" {
		changing[h.Event] = true
	}
	if d.Again == document.Restart && d.Trigger.Event != "" {
		changing[d.Trigger.Event] = true
	}
	for _, r := range d.Resolve {
		changing[r.Event] = true
	}
	for _, w := range d.Changes() {
		changing[w.Event] = true
	}
	return s.of(changing)
}

// starting returns the streams of the trigger, sorted.
func (s streamRoles) starting() []string {
	if s.document.Trigger.Event == "" {
		return nil
	}
	return sourcesOf(s.of(map[string]bool{s.document.Trigger.Event: true}))
}

// of returns the lines that subjects are read from, each once, sorted.
func (s streamRoles) of(subjects map[string]bool) []string {
	var lines []string
	for _, read := range s.reads {
		if subjects[read.Subject] {
			lines = append(lines, read.Stream)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// pausing returns the streams of the events that pause jobs, sorted.
func (s streamRoles) pausing() []string {
	subjects := make(map[string]bool)
	for _, w := range s.document.Pauses() {
		subjects[w.Event] = true
	}
	return sourcesOf(s.of(subjects))
}

// heartbeats returns the lines of the rule's heartbeats, sorted; "" for pings, if no event is a heartbeat; none for a rule
// without a heartbeat. Pings to a rule with heartbeat events are heartbeats too, but its jobs must not restart for each
// restart of deadman that missed no event.
func (s streamRoles) heartbeats() []string {
	h := s.document.Trigger.Heartbeat
	switch {
	case h == nil:
		return nil
	case h.Event == "":
		return []string{""}
	}
	return s.of(map[string]bool{h.Event: true})
}

// sourcesOf returns the streams of lines, each once, sorted.
func sourcesOf(lines []string) []string {
	streams := make([]string, len(lines))
	for i, line := range lines {
		streams[i] = futurejobs.StreamOf(line)
	}
	slices.Sort(streams)
	return slices.Compact(streams)
}
