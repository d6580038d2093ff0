package rules

import (
	"context"
	"fmt"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// handler decides checks by the rule.
type handler struct{ *Rule }

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
	w := contextOfCheck(c)
	w.spend = h.tenantBudget(w.spend)
	if h.allowance != nil {
		given := w.spend.left
		defer func() { h.allowance.pay(given-w.spend.left, len(c.Event)+len(c.State)+len(c.Found)) }()
	}
	if h.while != nil {
		still, err := h.while.holds(w.scope)
		if err != nil {
			return checks.Answer{}, fmt.Errorf("while: %w", err)
		}
		if !still {
			return h.withState(c, w, h.cleared(c, w))
		}
	}
	if c.Manual {
		return checks.Answer{Next: c.Slot, Step: c.Step}, nil
	}
	line, err := h.timeline(w)
	if err != nil {
		return checks.Answer{}, err
	}
	at := checkedAt(c)
	answer := h.takeSteps(c, w, line, at)
	step := h.upcoming(line, answer.Step, c.AsOf(), c.AckedUntil)
	switch {
	case !step.IsZero():
		answer.Next, err = h.between(w.scope, at, step)
		answer.Nominal = answer.Next.Equal(step)
	default:
		// The hold counts from the slot of the check: a delay within the slot does not add a slot.
		from := h.engine.Grid.After(at).Add(-time.Duration(h.engine.Grid))
		if len(answer.Alerts) == 0 && len(line) > 0 {
			from = line[len(line)-1].at
		}
		if end := h.holdEnd(from); h.document.IsHeld() && end.After(at) {
			answer.Next, answer.Nominal = end, true
		} else {
			answer.Outcome = checks.Exhausted
		}
	}
	if err != nil {
		return checks.Answer{}, err
	}
	if !answer.Next.IsZero() {
		answer.Values = h.explain(w)
	}
	return h.withState(c, w, answer)
}

// holdEnd returns the end of the late-resolve window that begins at a time.
func (r *Rule) holdEnd(from time.Time) time.Time {
	return r.engine.Grid.Up(from.Add(time.Duration(r.document.Hold)))
}

// explain returns the values that the condition read, for a check without an alert.
func (h handler) explain(w jobContext) string {
	if h.while == nil {
		return ""
	}
	return h.while.explain(w.scope)
}

// takeSteps takes the steps that are due, unless the open alert is acknowledged at the given time.
func (h handler) takeSteps(c checks.Check, w jobContext, line []stepTime, at time.Time) checks.Answer {
	due := max(h.due(line, c.AsOf()), c.Step)
	switch {
	case due == c.Step:
		return checks.Answer{Step: c.Step}
	case at.Before(c.AckedUntil):
		return checks.Answer{Step: c.Step, Held: true, HeldStep: line[due-1].called()}
	}
	taken := line[c.Step:due]
	answer := checks.Answer{Step: due, Alerts: []alerts.Draft{h.stepAlert(taken, due-1, w)}}
	if h.heartbeat == nil || len(taken) == 1 { // the times of a heartbeat's later steps are counted from its first alert
		answer.Due = line[due-1].at
	}
	return answer
}

// withState adds the data that the source found to an answer with an alert, and to one that a guard ends the job with.
// Merging is too expensive for all other answers.
func (h handler) withState(c checks.Check, w jobContext, answer checks.Answer) (checks.Answer, error) {
	last := h.engine.Limits.MaxChecks
	if !c.Queried || len(answer.Alerts) == 0 && (last == 0 || c.Count+1 < last) {
		return answer, nil
	}
	var err error
	answer.State, err = w.state.Merged()
	return answer, err
}

func (h handler) cleared(c checks.Check, w jobContext) checks.Answer {
	answer := checks.Answer{Outcome: checks.Cleared, Step: c.Step}
	if c.AlertCount > 0 && !h.document.Quiet {
		text := fmt.Sprintf("%s %s: the condition no longer holds", h.engine.Entity, c.Key)
		answer.Alerts = []alerts.Draft{h.closeAlert(w, c.Step, text)}
	} else {
		answer.Values = h.explain(w)
	}
	return answer
}

// checkedAt returns the time of the check: its slot, or later if deadman was late.
func checkedAt(c checks.Check) time.Time {
	if c.At.After(c.Slot) {
		return c.At
	}
	return c.Slot
}
