package rules

import (
	"context"
	"fmt"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// handler answers checks with what the rule says.
type handler struct{ rule *Rule }

var _ checks.Inline = handler{}

// Prompt says that a check does no I/O and is bounded in itself.
func (h handler) Prompt() {}

// Check looks at a job.
//
//  1. The condition no longer holds: the job ends, and what was said is closed.
//  2. Of the steps that are due by now and not taken, the highest speaks and names the
//     others: after an outage the alert has the present state, not the way to it. A step that the
//     rule's streams are not read past is not due yet: what came before it may end the job.
//  3. Steps are left: the next look is at the slot of the first of them.
//  4. The last step is taken: a rule that can still be resolved holds the job for a while,
//     any other job ends. A look within that while, as after a snooze, leaves it as long.
//  5. Before the next step the rule may ask for a look in between.
//  6. Steps that are due while what was said is acknowledged are not taken. Once that is over
//     the highest of them speaks.
//
// What can't be evaluated is an error: nobody knows. A look by hand takes no step.
func (h handler) Check(_ context.Context, c checks.Check) (checks.Answer, error) {
	r := h.rule
	w := waitOfCheck(c)
	w.spend = r.purse(w.spend)
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
		// From the slot that the look is in: being late within it does not make it a slot more.
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
		answer.Saw = r.explain(w)
	}
	return r.withState(c, w, answer)
}

// explain is what the condition saw, for a look of which no alert tells.
func (r *Rule) explain(w waitContext) string {
	if r.while == nil {
		return ""
	}
	return r.while.explain(w.scope)
}

// takeSteps takes the steps that are due, as far as the open alert is not acknowledged at the instant.
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

// withState puts what was found out into an answer by which something is said, be it that a guard
// ends the job. Merging costs more than most answers are worth.
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
	if c.Said > 0 && !r.document.Quiet {
		text := fmt.Sprintf("%s %s: the condition no longer holds", r.engine.Entity, c.Key)
		answer.Alerts = []alerts.Draft{r.closeAlert(w, c.Step, text)}
	} else {
		answer.Saw = r.explain(w)
	}
	return answer
}

// due is how many steps have had their slot.
func (r *Rule) due(line []stepTime, at time.Time) int {
	n := 0
	for n < len(line) && !r.engine.Grid.Up(line[n].at).After(at) {
		n++
	}
	return n
}

// lookedAt is when the look takes place: at its slot, or after it where deadman was late.
func lookedAt(c checks.Check) time.Time {
	if c.At.After(c.Slot) {
		return c.At
	}
	return c.Slot
}

// stepAlert drafts the alert of the last of the steps that are due; the others are passed over.
// at is its place in the timeline.
func (r *Rule) stepAlert(due []stepTime, at int, s scope) alerts.Draft {
	last := due[len(due)-1]
	s.step, s.turn, s.turns = last.name, last.turn, last.turns
	if last.nags {
		s.turns = 0 // nobody knows
	}
	var passed []string
	for _, m := range due[:len(due)-1] {
		passed = append(passed, m.name)
	}
	return alerts.Draft{
		Status: alerts.Firing, Severity: last.severity, Step: last.name, StepIndex: at,
		Passed: passed, Text: r.text(last, s), Labels: r.label(s),
	}
}

// text is what a step says: its own text, or a sentence made from the rule.
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

// called is the step's name with its turn, where it has several. Of how many is not said where that
// is until somebody acknowledges.
func (m stepTime) called() string {
	switch {
	case m.nags:
		return fmt.Sprintf("%s %d", m.name, m.turn)
	case m.turns > 1:
		return fmt.Sprintf("%s %d of %d", m.name, m.turn, m.turns)
	}
	return m.name
}

// label fills the labels in.
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

// labelsOf are the labels of an alert that the engine makes.
func (r *Rule) labelsOf(j futurejobs.Job) map[string]string {
	w := waitOf(j)
	w.rule = r.engine.Name
	return r.label(w.scope)
}
