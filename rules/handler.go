package rules

import (
	"context"
	"fmt"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// handler answers checks with what the rule says.
type handler struct{ rule *Rule }

var _ checks.Prompt = handler{}

// Prompt says that a check does no I/O and is bounded in itself.
func (h handler) Prompt() {}

// Check looks at a job.
//
//  1. The condition no longer holds: the job ends, and what was said is closed.
//  2. Of the steps that are due by now and not taken, the highest speaks and names the
//     others: after an outage people are told how it stands, not how it came to that.
//  3. Steps are left: the next look is at the slot of the first of them.
//  4. The last step is taken: a rule that can still be resolved holds the job for a while,
//     any other job ends.
//
// A condition that can't be evaluated is an error: nobody knows.
func (h handler) Check(_ context.Context, c checks.Check) (checks.Answer, error) {
	r := h.rule
	s := r.scope(c)
	if r.while != nil {
		still, err := r.while.holds(s)
		if err != nil {
			return checks.Answer{}, fmt.Errorf("while: %w", err)
		}
		if !still {
			return r.cleared(c), nil
		}
	}
	at := lookedAt(c)
	taken := max(r.due(c.Since, at), c.Step)
	answer := checks.Answer{Step: taken}
	if taken > c.Step {
		answer.Alerts = []alerts.Draft{r.speak(c.Step, taken-1, s)}
	}
	switch {
	case taken < len(r.steps):
		answer.Next, answer.Nominal = r.slot(c.Since, taken), true
	case taken > c.Step && r.document.held():
		answer.Next, answer.Nominal = r.engine.Grid.Up(at.Add(time.Duration(r.document.Hold))), true
	default:
		answer.Outcome = checks.Exhausted
	}
	return answer, nil
}

// scope is what expressions see of a check.
func (r *Rule) scope(c checks.Check) scope {
	event := newBody(c.Event)
	state := event
	if c.State != nil && !sameBytes(c.State, c.Event) {
		state = newBody(c.State)
	}
	return scope{event: event, state: state, key: c.Key, since: c.Since}
}

// sameBytes reports whether two bodies are one in memory, which spares decoding it twice.
func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (r *Rule) cleared(c checks.Check) checks.Answer {
	answer := checks.Answer{Outcome: checks.Cleared, Step: c.Step}
	if c.Said > 0 && !r.document.Quiet {
		text := fmt.Sprintf("%s %s: the condition no longer holds", r.engine.Entity, c.Key)
		answer.Alerts = []alerts.Draft{r.closes(c.Step, text)}
	}
	return answer
}

// slot is when a step is due.
func (r *Rule) slot(since time.Time, step int) time.Time {
	return r.engine.Grid.Up(since.Add(r.steps[step].after))
}

// due is how many steps have had their slot.
func (r *Rule) due(since, at time.Time) int {
	n := 0
	for n < len(r.steps) && !r.slot(since, n).After(at) {
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

// speak drafts the alert of a step. from is the first step that was due.
func (r *Rule) speak(from, at int, s scope) alerts.Draft {
	st := &r.steps[at]
	s.step = st.name
	var passed []string
	for _, p := range r.steps[from:at] {
		passed = append(passed, p.name)
	}
	return alerts.Draft{
		Status: alerts.Firing, Severity: st.severity, Step: st.name, StepIndex: at,
		Passed: passed, Text: r.text(st, s), Labels: r.engine.Labels,
	}
}

// text is what a step says: its own text, or a sentence made from the rule.
func (r *Rule) text(st *step, s scope) string {
	if st.text != nil {
		return st.text.say(s)
	}
	after := Duration(st.after)
	switch {
	case len(r.resolves) > 0:
		return fmt.Sprintf("%s %s: not resolved after %s (%s)", r.engine.Entity, s.key, after, st.name)
	case r.while != nil:
		return fmt.Sprintf("%s %s: the condition still holds after %s (%s)", r.engine.Entity, s.key, after, st.name)
	}
	return fmt.Sprintf("%s %s: %s have passed (%s)", r.engine.Entity, s.key, after, st.name)
}
