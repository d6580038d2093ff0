package document

import (
	"fmt"
	"slices"
	"strings"

	"deadman/internal/configfile"
)

// unknown replaces a value in a default text that is known only for a job.
const unknown = "…"

// maxNamedEvents bounds how many events a default text names.
const maxNamedEvents = 3

// StepText returns the text of a step: its own, or the default text of the rule, with the key as a placeholder as in a
// template.
func (d Document) StepText(s Step) string {
	const key = "{{key}}"
	called := s.Name
	switch {
	case s.Until != "":
		called += " " + unknown
	case s.Times > 1:
		called += fmt.Sprintf(" %s of %d", unknown, s.Times)
	}
	switch h := d.Trigger.Heartbeat; {
	case s.Text != "":
		return s.Text
	case h != nil:
		return d.SignedText(key, fmt.Sprintf("no heartbeat since %s, expected %s", unknown, h.IntervalText()), called)
	}
	after := unknown
	if s.After.Fixed > 0 {
		after = s.After.Fixed.String()
	}
	return d.DefaultText(key, after, d.StartText(), called)
}

// DefaultText returns the text of a step that is due a time after the start: what was expected until then.
func (d Document) DefaultText(key, after, start, step string) string {
	var missing string
	switch {
	case len(d.Resolve) > 0:
		missing = d.missingText() + " " + after + " after " + start
	case d.While != "":
		missing = fmt.Sprintf("%s still holds %s after %s", configfile.Truncate(d.While, 80), after, start)
	default:
		missing = after + " passed since " + start
	}
	return d.SignedText(key, missing, step)
}

// SignedText returns a text about an entity, with the rule and the step.
func (d Document) SignedText(key, text, step string) string {
	return fmt.Sprintf("%s %s: %s (rule %s, step %s)", d.Entity, key, text, d.Name, step)
}

// missingText names the events of which one resolves a job.
func (d Document) missingText() string {
	var events []string
	anySet, anyIf := false, false
	for _, r := range d.Resolve {
		anySet, anyIf = anySet || r.Distinct != "", anyIf || r.If != ""
		if !slices.Contains(events, r.Event) {
			events = append(events, r.Event)
		}
	}
	switch {
	case len(events) > maxNamedEvents:
		return "no resolving event"
	case anySet && len(events) == 1:
		return "not all " + events[0]
	case anySet:
		return "not resolved by " + strings.Join(events, " or ")
	case anyIf:
		return "no matching " + strings.Join(events, " or ")
	}
	return "no " + strings.Join(events, " or ")
}

// StartText names the event or tick from which the steps of a job are counted.
func (d Document) StartText() string {
	switch t := d.Trigger; {
	case t.Since != "":
		return configfile.Truncate(t.Since, 80)
	case t.Schedule != "":
		return "the tick"
	default:
		return t.Event
	}
}
