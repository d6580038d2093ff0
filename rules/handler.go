package rules

import (
	"context"
	"fmt"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// handler decides checks by the rule.
type handler struct{ rule *Rule }

var _ checks.Inline = handler{}

// Inline marks a check that does no I/O and is bounded in itself.
func (h handler) Inline() {}

// Check decides a check of a job.
//
//  1. If the condition no longer holds, the job ends, and its alert is closed.
//  2. Of the steps that are due by now and not taken, the highest raises an alert and names the others: after an outage
//     the alert has the present state, not the way to it. A step is not due yet until the rule's streams have been read
//     past its time: an event before it may end the job.
//  3. If steps are left, the next check is at the slot of the first of them.
//  4. After the last step, a rule that can still be resolved holds the job for a while, any other job ends. A check
//     within that while, as after a snooze, does not extend it.
//  5. Before the next step the rule may request a check in between.
//  6. Steps that are due while the alert is acknowledged are not taken. After that the highest of them raises an alert.
//  7. What the check of a tenant's rule costs is drawn from the tenant's allowance.
//
// An expression that cannot be evaluated is an error: the check is undetermined. A manual check takes no step.
func (h handler) Check(_ context.Context, c checks.Check) (checks.Answer, error) {
	r := h.rule
	w := waitOfCheck(c)
	w.spend = r.purse(w.spend)
	if r.allowance != nil {
		given := w.spend.left
		defer func() { r.allowance.pay(given-w.spend.left, len(c.Event)+len(c.State)+len(c.Found)) }()
	}
	if r.while != nil {
		still, err := r.while.holds(w.scope)
		if err != nil {
			return checks.Answer{}, fmt.Errorf("while: %w", err)
		}
		if !still {
			return r.withState(c, w, r.cleared(c, w))
		}
	}
	if c.Manual {
		return checks.Answer{Next: c.Slot, Step: c.Step}, nil
	}
	line, err := r.timeline(w)
	if err != nil {
		return checks.Answer{}, err
	}
	at := lookedAt(c)
	answer := r.takeSteps(c, w, line, at)
	step := r.upcoming(line, answer.Step, c.AsOf(), c.AckedUntil)
	switch {
	case !step.IsZero():
		answer.Next, err = r.between(w.scope, at, step)
		answer.Nominal = answer.Next.Equal(step)
	default:
		// The hold counts from the slot of the check: a delay within the slot does not add a slot.
		from := r.engine.Grid.After(at).Add(-time.Duration(r.engine.Grid))
		if len(answer.Alerts) == 0 && len(line) > 0 {
			from = line[len(line)-1].at
		}
		if end := r.engine.Grid.Up(from.Add(time.Duration(r.document.Hold))); r.document.isHeld() && end.After(at) {
			answer.Next, answer.Nominal = end, true
		} else {
			answer.Outcome = checks.Exhausted
		}
	}
	if err != nil {
		return checks.Answer{}, err
	}
	if !answer.Next.IsZero() {
		answer.Values = r.explain(w)
	}
	return r.withState(c, w, answer)
}

// explain returns the values that the condition read, for a check without an alert.
func (r *Rule) explain(w waitContext) string {
	if r.while == nil {
		return ""
	}
	return r.while.explain(w.scope)
}

// takeSteps takes the steps that are due, unless the open alert is acknowledged at the given time.
func (r *Rule) takeSteps(c checks.Check, w waitContext, line []stepTime, at time.Time) checks.Answer {
	due := max(r.due(line, c.AsOf()), c.Step)
	if due == c.Step || at.Before(c.AckedUntil) {
		return checks.Answer{Step: c.Step, Held: due > c.Step}
	}
	taken := line[c.Step:due]
	answer := checks.Answer{Step: due, Alerts: []alerts.Draft{r.stepAlert(taken, due-1, w.scope)}}
	if r.beats == nil || len(taken) == 1 { // the times of a heartbeat's later steps are counted from its first alert
		answer.Due = line[due-1].at
	}
	return answer
}

// withState adds the data that the source found to an answer with an alert, and to one that a guard ends the job with.
// Merging is too expensive for all other answers.
func (r *Rule) withState(c checks.Check, w waitContext, answer checks.Answer) (checks.Answer, error) {
	last := r.engine.Limits.MaxChecks
	if !c.Asked || len(answer.Alerts) == 0 && (last == 0 || c.Count+1 < last) {
		return answer, nil
	}
	var err error
	answer.State, err = w.state.merged()
	return answer, err
}

func (r *Rule) cleared(c checks.Check, w waitContext) checks.Answer {
	answer := checks.Answer{Outcome: checks.Cleared, Step: c.Step}
	if c.AlertCount > 0 && !r.document.Quiet {
		text := fmt.Sprintf("%s %s: the condition no longer holds", r.engine.Entity, c.Key)
		answer.Alerts = []alerts.Draft{r.closeAlert(w, c.Step, text)}
	} else {
		answer.Values = r.explain(w)
	}
	return answer
}

// due returns how many steps have had their slot.
func (r *Rule) due(line []stepTime, at time.Time) int {
	n := 0
	for n < len(line) && !r.engine.Grid.Up(line[n].at).After(at) {
		n++
	}
	return n
}

// lookedAt returns the time of the check: its slot, or later if deadman was late.
func lookedAt(c checks.Check) time.Time {
	if c.At.After(c.Slot) {
		return c.At
	}
	return c.Slot
}

// stepAlert drafts the alert of the last of the steps that are due; the others are skipped. at is its index in the
// timeline.
func (r *Rule) stepAlert(due []stepTime, at int, s scope) alerts.Draft {
	last := due[len(due)-1]
	s.step, s.turn, s.turns = last.name, last.turn, last.turns
	if last.nags {
		s.turns = 0 // the number of repetitions is unknown
	}
	var passed []string
	for _, m := range due[:len(due)-1] {
		passed = append(passed, m.name)
	}
	return alerts.Draft{
		Status: alerts.Firing, Severity: last.severity, Step: last.name, StepIndex: at,
		SkippedSteps: passed, Text: r.text(last, s), Labels: r.label(s),
	}
}

// text returns the text of a step: its own, or a default sentence of the rule.
func (r *Rule) text(m stepTime, s scope) string {
	if m.text != nil {
		return m.text.say(s)
	}
	if r.beats != nil {
		return r.missed(m, s)
	}
	after := Duration(m.at.Sub(s.since).Truncate(time.Second))
	return r.document.sentence(s.key, after.String(), m.called())
}

// called returns the step's name with its repetition, if it has several. The total is left out for a step that is
// repeated until a user acknowledges.
func (m stepTime) called() string {
	switch {
	case m.nags:
		return fmt.Sprintf("%s %d", m.name, m.turn)
	case m.turns > 1:
		return fmt.Sprintf("%s %d of %d", m.name, m.turn, m.turns)
	}
	return m.name
}

// label evaluates the labels.
func (r *Rule) label(s scope) map[string]string {
	if len(r.labels) == 0 {
		return nil
	}
	if r.said != nil {
		return r.said
	}
	filled := make(map[string]string, len(r.labels))
	for _, l := range r.labels {
		filled[l.name] = clip(l.text.say(s), maxLabel)
	}
	return filled
}

// labelsOf returns the labels of an alert that the engine makes.
func (r *Rule) labelsOf(j futurejobs.Job) map[string]string {
	w := waitOf(j)
	w.rule = r.engine.Name
	return r.label(w.scope)
}
