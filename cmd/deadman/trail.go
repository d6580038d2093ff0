package main

import (
	"strings"

	"deadman/web"
)

// trail prints the trail of a job, oldest first.
func (s *keyValues) trail(entries []web.TrailEntry) {
	for i, e := range entries {
		name := ""
		if i == 0 {
			name = "trail"
		}
		s.line(name, "%s  %s", s.p.exact(e.At), s.trailText(e))
	}
}

// trailText formats a trail entry.
func (s *keyValues) trailText(e web.TrailEntry) string {
	said := []string{actionText(e)}
	for _, more := range []struct{ what, value string }{{"", e.Reason}, {"saw ", e.Saw}, {"by ", e.By}} {
		if more.value != "" {
			said = append(said, more.what+more.value)
		}
	}
	if !e.Next.IsZero() {
		said = append(said, "next "+s.p.exact(e.Next))
	}
	return strings.Join(said, "; ")
}

// actionText describes the action of a trail entry.
func actionText(e web.TrailEntry) string {
	switch {
	case e.Kind != "look":
		return map[string]string{
			"update": "updated", "pause": "paused", "resume": "resumed", "snooze": "snoozed", "move": "moved to another version of the rule",
			"acknowledge": "acknowledged", "unacknowledge": "acknowledgement taken back",
		}[e.Kind]
	case e.Outcome != "":
		return "looked: over, " + string(e.Outcome)
	case e.Step != "":
		return "looked: step " + e.Step
	case e.Held:
		return "looked: a step is held back, acknowledged"
	case e.Reason != "":
		return "looked: not known"
	}
	return "looked: nothing due"
}
