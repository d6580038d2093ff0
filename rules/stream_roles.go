package rules

import "slices"

// streamRoles derives from the reads of a version which streams do what to the jobs of its rule.
type streamRoles struct {
	document Document
	reads    []StreamBinding
}

// changing returns the streams whose events can change, end or restart a job of the rule, each once, sorted.
func (s streamRoles) changing() []string {
	d := s.document
	changing := make(map[string]bool)
	if h := d.Trigger.Heartbeat; h != nil && h.Event != "" {
		changing[h.Event] = true
	}
	if d.Again == Restart && d.Trigger.Event != "" {
		changing[d.Trigger.Event] = true
	}
	for _, r := range d.Resolve {
		changing[r.Event] = true
	}
	for _, w := range slices.Concat(d.Update, d.Pause) {
		changing[w.Event] = true
	}
	return s.of(changing)
}

// starting returns the streams of the trigger, sorted.
func (s streamRoles) starting() []string {
	if s.document.Trigger.Event == "" {
		return nil
	}
	return s.of(map[string]bool{s.document.Trigger.Event: true})
}

// of returns the streams that subjects are read from, each once, sorted.
func (s streamRoles) of(subjects map[string]bool) []string {
	var streams []string
	for _, read := range s.reads {
		if subjects[read.Subject] {
			streams = append(streams, read.Stream)
		}
	}
	slices.Sort(streams)
	return slices.Compact(streams)
}

// pausing returns the streams of the events that pause jobs, sorted.
func (s streamRoles) pausing() []string {
	subjects := make(map[string]bool)
	for _, w := range s.document.Pause {
		subjects[w.Event] = true
	}
	return s.of(subjects)
}

// heartbeats returns the streams of the rule's heartbeats, sorted; "" for pings, if no event is a heartbeat; none for a rule
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
