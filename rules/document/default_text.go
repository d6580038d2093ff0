package document

import (
	"cmp"
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
	turn := ""
	switch {
	case s.Until != "":
		turn = s.Name + " " + unknown
	case s.Times > 1:
		turn = fmt.Sprintf("%s %s of %d", s.Name, unknown, s.Times)
	}
	switch h := d.Trigger.Heartbeat; {
	case s.Text != "":
		return s.Text
	case h != nil:
		return d.EntityText(key, fmt.Sprintf("no heartbeat since %s, expected %s", unknown, h.IntervalText()), turn)
	}
	if s.At != "" {
		return d.DueText(key, d.dueAt(s.At), turn)
	}
	after := unknown
	if s.After.Fixed > 0 {
		after = s.After.Fixed.String()
	}
	return d.DefaultText(key, SpanText(after, s.Of), d.StartText(), turn)
}

// dueAt returns the time of a step, as far as it is known: a time of day in the zone of the schedule.
func (d Document) dueAt(at string) string {
	if d.Trigger.Schedule == "" {
		return unknown
	}
	return at + " " + cmp.Or(d.Trigger.Zone, "UTC")
}

// SpanText returns a span, with the calendar that counts it; calendar is empty if all time counts.
func SpanText(span, calendar string) string {
	if calendar == "" {
		return span
	}
	return span + " of " + calendar + " time"
}

// DefaultText returns the text of a step that is due a span after the start: the event that was expected until then.
// turn names the repetition of a repeated step, and is empty for other steps.
func (d Document) DefaultText(key, span, start, turn string) string {
	entity := d.Entity + " " + key
	var text string
	switch {
	case len(d.Resolve) > 0:
		text = d.missingText(entity) + " within " + span + afterStart(span) + start
	case d.While != "":
		text = fmt.Sprintf("%s still holds for %s, %s after %s", configfile.Truncate(d.While, 80), entity, span, start)
	default:
		text = fmt.Sprintf("%s passed for %s since %s", span, entity, start)
	}
	return text + turnText(turn)
}

// afterStart joins a span and its start. The name of a calendar in the span has an "of" already.
func afterStart(span string) string {
	if strings.Contains(span, " of ") {
		return " after "
	}
	return " of "
}

// DueText returns the text of a step that is due at a time: the event that was expected until then.
func (d Document) DueText(key, at, turn string) string {
	entity := d.Entity + " " + key
	var text string
	switch {
	case len(d.Resolve) > 0:
		text = d.missingText(entity) + " by " + at
	case d.While != "":
		text = fmt.Sprintf("%s still holds for %s at %s", configfile.Truncate(d.While, 80), entity, at)
	default:
		text = fmt.Sprintf("%s: %s has passed", entity, at)
	}
	return text + turnText(turn)
}

// EntityText returns a text about an entity. turn names the repetition of a repeated step, and is empty for other
// steps.
func (d Document) EntityText(key, text, turn string) string {
	return fmt.Sprintf("%s %s: %s%s", d.Entity, key, text, turnText(turn))
}

func turnText(turn string) string {
	if turn == "" {
		return ""
	}
	return " (" + turn + ")"
}

// missingText names the events of which one resolves the job of an entity.
func (d Document) missingText(entity string) string {
	var events []string
	anySet, anyIf := false, false
	for _, r := range d.Resolve {
		anySet, anyIf = anySet || r.Distinct != "", anyIf || r.If != ""
		if !slices.Contains(events, r.Event) {
			events = append(events, r.Event)
		}
	}
	missing := strings.Join(events, " or ")
	switch {
	case len(events) > maxNamedEvents:
		missing = "no resolving event"
	case anySet && len(events) == 1:
		missing = "not all " + missing
	case anySet:
		return entity + " not resolved by " + missing
	case anyIf:
		missing = "no matching " + missing
	default:
		missing = "no " + missing
	}
	return missing + " for " + entity
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
