package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules/document"
)

// stepView is a step of an escalation in words.
type stepView struct {
	document.Step
	When string
	Text string
	At   time.Time // slot of the check that raises it next; zero: unknown
}

// isNamed reports whether the step has a name that may have a repetition, such as reminder 2 of 3.
func (s stepView) isNamed(name string) bool {
	return name == s.Name || s.Every > 0 && isRepetition(name, s.Name)
}

// isRepetition reports whether a name is that of a repetition of a step.
func isRepetition(name, step string) bool { return strings.HasPrefix(name, step+" ") }

// isFixed reports whether the start of the job alone determines the time of the step.
func (s stepView) isFixed() bool {
	return s.Every == 0 && s.At.IsZero() && s.Step.At == "" && s.After.Computed == "" && s.Of == "" && s.Within == ""
}

// timeSteps adds the times of the steps after the next one that follow from the start of the job. It adds none if the next
// step has another time than its after: because of a spread, a pause or a snooze.
func timeSteps(ahead []stepView, since time.Time, grid futurejobs.Grid) {
	due := func(s stepView) time.Time { return grid.Up(since.Add(time.Duration(s.After.Fixed))) }
	next := ahead[0]
	if next.At = (time.Time{}); !next.isFixed() || !due(next).Equal(ahead[0].At) {
		return
	}
	for i, s := range ahead {
		if i > 0 && s.isFixed() {
			ahead[i].At = due(s)
		}
	}
}

// escalationSteps returns the steps with their times and texts in words.
func escalationSteps(d document.Document) []stepView {
	steps := d.Steps()
	all := make([]stepView, len(steps))
	for i, s := range steps {
		all[i] = stepView{Step: s, When: whenOf(s), Text: d.StepText(s)}
	}
	return all
}

func whenOf(s document.Step) string {
	var when string
	switch {
	case s.Until != "":
		when = fmt.Sprintf("every %s until %s", s.Every, s.Until)
	case s.Every > 0:
		when = fmt.Sprintf("every %s, %d times", s.Every, s.Times)
	case s.At != "":
		when = "at " + s.At
	case s.After.Computed != "":
		when = "after " + s.After.Computed
	case s.After.AtOnce:
		when = "immediately"
	default:
		when = "after " + s.After.Fixed.String()
	}
	if s.Of != "" {
		when += " of " + s.Of + " time"
	}
	if s.Within != "" {
		when += ", within the hours of " + s.Within
	}
	return when
}

// teethShown is the number of repetitions of a step in a drawing.
const teethShown = 6

// escalation draws a rule's escalation on a time axis. It draws nothing if all steps are due at once. If the time of
// a step depends on the job, toScale is false.
func escalation(d document.Document) (drawing []timeAxis, toScale bool) {
	steps := d.Steps()
	if len(steps) == 0 {
		return nil, true
	}
	dots := []axisEvent{{kind: "starts"}}
	texts := make([]string, 0, len(steps))
	after, toScale := time.Duration(0), true
	for i, s := range steps {
		texts = append(texts, fmt.Sprintf("%s: %s, %s", whenOf(s), s.Name, s.Severity))
		m := axisEvent{kind: string(s.Severity), label: s.Name, step: i + 1}
		switch {
		case s.Every > 0:
			m.label += " every " + length(time.Duration(s.Every))
			turns := min(cmp.Or(s.Times, teethShown), teethShown)
			if s.Times > turns || s.Until != "" {
				m.label += " …"
			}
			for range turns {
				after += time.Duration(s.Every)
				m.after = after
				dots = append(dots, m)
				m.label = ""
			}
			continue
		case s.At != "" || s.After.Computed != "" || s.Of != "":
			toScale = false
		default:
			after = max(after, time.Duration(s.After.Fixed))
			m.label += " " + sinceStart(after)
		}
		m.after = after
		dots = append(dots, m)
	}
	if toScale && after == 0 {
		return nil, true // a single point needs no axis
	}
	return timeAxes(dots, !toScale, holds(d), 0, "Escalation: "+strings.Join(texts, "; ")), toScale
}

// forGood is a hold that counts as endless.
const forGood = document.Duration(365 * 24 * time.Hour)

// holds reports whether a job stays after its last step, so that a late event resolves it.
func holds(d document.Document) bool {
	return d.Hold > 0 && (len(d.Resolve) > 0 || d.Trigger.Heartbeat != nil)
}

// triggerText describes the trigger of a rule.
func triggerText(t document.Trigger) string {
	switch h := t.Heartbeat; {
	case h != nil && h.Event == "":
		return "a missing ping, expected " + h.IntervalText()
	case h != nil:
		return "a missing event on " + h.Event + " or ping, expected " + h.IntervalText()
	case t.IsStored() && t.Emit.Webhook != "":
		return "each tick of a stored schedule posts an event to " + t.Emit.Webhook
	case t.IsStored():
		return "each tick of a stored schedule publishes an event on " + t.Emit.Subject
	case t.Emit != nil:
		return "each tick of " + t.Schedule + " (" + cmp.Or(t.Zone, "UTC") + ") publishes an event on " + t.Emit.Subject
	case t.Schedule != "":
		return "each tick of " + t.Schedule + " (" + cmp.Or(t.Zone, "UTC") + ")"
	case t.If != "":
		return "an event on " + t.Event + " with " + t.If
	}
	return "an event on " + t.Event
}

// subscriptionView is a subject of a rule with the effect of its events.
type subscriptionView struct {
	Does, Subject, Key, If string
}

// hearings lists the subjects of a rule in the order of its document.
func hearings(d document.Document) (all []subscriptionView) {
	t := d.Trigger
	if t.Event != "" {
		all = append(all, subscriptionView{"starts a job", t.Event, t.Key, t.If})
	}
	if h := t.Heartbeat; h != nil && h.Event != "" {
		all = append(all, subscriptionView{"reports a heartbeat", h.Event, h.Key, h.If})
	}
	for _, w := range d.Update {
		all = append(all, subscriptionView{"updates the state", w.Event, w.Key, w.If})
	}
	for _, p := range d.Pause {
		all = append(all, subscriptionView{"pauses the job", p.Event, p.Key, p.If})
		if p.Until != nil {
			all = append(all, subscriptionView{"ends the pause", p.Until.Event, p.Until.Key, p.Until.If})
		}
	}
	for _, r := range d.Resolve {
		does := "ends the job as " + cmp.Or(r.As, "resolved")
		if r.Distinct != "" {
			does = fmt.Sprintf("ends the job after %s different values of %s", r.Need, r.Distinct)
		}
		all = append(all, subscriptionView{does, r.Event, r.Key, r.If})
	}
	return all
}

// ruleFact is a property of a rule beside its steps.
type ruleFact struct{ Name, Text string }

// facts lists the less visible properties of a rule.
func facts(d document.Document) (all []ruleFact) {
	add := func(name, format string, args ...any) {
		all = append(all, ruleFact{name, fmt.Sprintf(format, args...)})
	}
	if d.While != "" {
		add("Condition", "while %s", d.While)
	}
	if source, what := lookupTexts(d.Lookup); source != "" {
		add("Lookup", "in %s: %s", source, what)
	}
	if h := d.Trigger.Heartbeat; h != nil {
		add("Overdue immediately", "%s", failures(*h))
	}
	names := d.CalendarNames()
	for name := range d.Calendars {
		names = append(names, name+" (in this rule)")
	}
	if len(names) > 0 {
		slices.Sort(names)
		add("Calendars", "%s", strings.Join(names, ", "))
	}
	if d.Recheck != "" {
		add("Additional check", "at %s", d.Recheck)
	}
	if holds(d) && d.Hold < forGood {
		add("Late-resolve window", "%s after the last step", d.Hold)
	}
	if d.Early > 0 && len(d.Resolve) > 0 {
		add("Early-resolve window", "%s before the trigger", d.Early)
	}
	if d.Again == document.Restart {
		add("Repeated trigger", "restarts the job")
	}
	if d.Spread > 0 {
		add("Spread", "steps of different keys over %s", d.Spread)
	}
	add("Check interval", "%s grid", d.Slot)
	g := d.Guards
	add("Guards", "timeout %s, %d attempts, at most %d checks, horizon %s", g.Timeout, g.Attempts, g.MaxChecks, g.Horizon)
	if late := d.CatchUp; late.Do != document.Run {
		add("Late jobs", "after %s: %s", late.After, late.Do)
	}
	return all
}

// failures describes the signals that a heartbeat treats as missed.
func failures(h document.Heartbeat) string {
	text := "a reported failure"
	if h.Max > 0 {
		text += fmt.Sprintf(", a run longer than %s", h.Max)
	}
	if h.Min > 0 {
		text += fmt.Sprintf(", a run shorter than %s", h.Min)
	}
	if h.TooOften > 0 {
		text += fmt.Sprintf(", a run that starts less than %s after the previous run", h.TooOften)
	}
	return text
}

// lookupTexts returns the source of a lookup and its query.
func lookupTexts(l *document.Lookup) (source, what string) {
	switch {
	case l == nil:
	case l.SQL != nil:
		return l.SQL.Source, l.SQL.Query
	case l.HTTP != nil:
		return l.HTTP.Source, "GET " + l.HTTP.Path
	case l.NATS != nil:
		return l.NATS.Source, "a request on " + l.NATS.Subject
	case l.KV != nil:
		return l.KV.Source, "bucket " + l.KV.Bucket
	}
	return "", ""
}
