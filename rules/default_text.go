package rules

import "fmt"

// unknown replaces a value in a sentence that is known only once a job continues.
const unknown = "…"

// StepText returns the text of a step: its own, or the default sentence of the rule, with the key as a placeholder as
// in a template.
func (d Document) StepText(s Step) string {
	const key = "{{key}}"
	switch h := d.Trigger.Heartbeat; {
	case s.Text != "":
		return s.Text
	case h != nil:
		return fmt.Sprintf("%s %s: no beat since %s, expected %s", d.Entity, key, unknown, h.IntervalText())
	}
	after, called := unknown, s.Name
	if s.After.Fixed > 0 {
		after = s.After.Fixed.String()
	}
	switch {
	case s.Until != "":
		called += " " + unknown
	case s.Times > 1:
		called += fmt.Sprintf(" %s of %d", unknown, s.Times)
	}
	return d.sentence(key, after, called)
}

// sentence returns the default text of a step, once the given time has passed.
func (d Document) sentence(key, after, step string) string {
	switch {
	case len(d.Resolve) > 0:
		return fmt.Sprintf("%s %s: not resolved after %s (%s)", d.Entity, key, after, step)
	case d.While != "":
		return fmt.Sprintf("%s %s: the condition still holds after %s (%s)", d.Entity, key, after, step)
	}
	return fmt.Sprintf("%s %s: %s have passed (%s)", d.Entity, key, after, step)
}
