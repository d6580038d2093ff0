package rules

import (
	"fmt"
	"maps"
	"slices"

	"deadman/alerts"
	"deadman/rules/document"
)

// Cautions returns warnings about a valid rule that may not do what its author expects.
func Cautions(d document.Document) []string {
	return slices.Concat(unwatched(d), endsItself(d), coarseSlot(d), slowAttempts(d), idleHold(d), idleRecheck(d), hiddenLabels(d))
}

// slowAttempts warns of attempts of a check that may take longer than the time between two ticks. A tick waits for the
// check of the job that it restarts, so ticks are missed while a source fails.
func slowAttempts(d document.Document) []string {
	s := scheduleOf(d)
	if s == nil || d.Lookup == nil && d.Handler == "" {
		return nil
	}
	gap, worst := document.Duration(s.Shortest()), longestAttempts(d)
	if gap == 0 || worst < gap {
		return nil
	}
	return []string{fmt.Sprintf("guards: %d attempts of a check may take %s, but ticks are only %s apart, so ticks are missed while a lookup or a handler fails; lower attempts, interval, jitter or timeout",
		d.Guards.Attempts, atMost(worst), gap)}
}

// idleHold warns of a hold in a rule whose jobs end at their last step: the author expects the alert to stay open.
func idleHold(d document.Document) []string {
	if d.IsHeld() || d.Hold == 0 || d.Hold == document.DefaultHold || d.Handler != "" {
		return nil
	}
	return []string{"hold: it has no effect without resolve: the job ends at its last step, and its alert is not open then; add resolve, or repeat the last step with every"}
}

// unwatched warns of a heartbeat without keys: until its first signal no job exists, so nothing raises an alert if the
// signal never comes. Some senders are unknown beforehand, so it is no reason to refuse a rule.
func unwatched(d document.Document) []string {
	h := d.Trigger.Heartbeat
	if h == nil || len(h.Keys) > 0 {
		return nil
	}
	signal := "event"
	if h.Event == "" {
		signal = "ping"
	}
	return []string{"trigger.heartbeat: nothing is watched until a first " + signal + "; name the expected keys in trigger.heartbeat.keys"}
}

// coarseSlot warns of the first span of the rule that is shorter than its slot: its alert may come a slot later.
func coarseSlot(d document.Document) []string {
	late := func(place string, span document.Duration) []string {
		return []string{fmt.Sprintf("slot: %s is longer than %s, %s, so the alert may be raised up to %[1]s late; set a shorter slot", d.Slot, place, span)}
	}
	if h := d.Trigger.Heartbeat; h != nil && 0 < h.Every && h.Every < d.Slot {
		return late("trigger.heartbeat.every", h.Every)
	}
	for i, s := range d.Escalate {
		for _, span := range []struct {
			field string
			document.Duration
		}{{"after", s.After.Fixed}, {"every", s.Every}} {
			if 0 < span.Duration && span.Duration < d.Slot {
				return late(fmt.Sprintf("escalate[%d].%s", i, span.field), span.Duration)
			}
		}
	}
	return nil
}

// endsItself warns of a resolve that each heartbeat of the rule matches: a key is watched until its first one only.
func endsItself(d document.Document) (warnings []string) {
	h := d.Trigger.Heartbeat
	for i, r := range d.Resolve {
		if h != nil && resolvesTrigger(d, r) && (r.If == "" || r.If == h.If) {
			warnings = append(warnings, fmt.Sprintf("resolve[%d]: every heartbeat also ends the job that awaits the next one, so a key is watched until its first heartbeat only; add an if to the resolve, or remove it", i))
		}
	}
	return warnings
}

// idleRecheck warns of a check between the steps that finds nothing: only a condition ends a job without an event.
func idleRecheck(d document.Document) []string {
	if d.Recheck == "" || d.While != "" {
		return nil
	}
	return []string{"recheck: it has no effect without while: a check between the steps has no condition to look at; add while, or remove recheck"}
}

// hiddenLabels warns of labels that are named like the fields of alerts. Routes and mutes match the field.
func hiddenLabels(d document.Document) (warnings []string) {
	for _, name := range slices.Sorted(maps.Keys(d.Labels)) {
		if slices.Contains(alerts.Fields, name) {
			warnings = append(warnings, fmt.Sprintf("labels.%s: every alert has a field %[1]s, which routes, mutes and Alertmanager read in place of the label; name the label otherwise, such as own_%[1]s", name))
		}
	}
	return warnings
}
