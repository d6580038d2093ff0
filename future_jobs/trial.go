package futurejobs

import (
	"context"
	"errors"
	"time"

	"deadman/checks"
	"deadman/guards"
)

// Trial is what came of asking a handler about a job that there is not.
type Trial struct {
	Answer   checks.Answer
	Err      error           // why there is no answer
	Breach   string          // why a guard would end a job for the answer; empty: none would
	Returned <-chan struct{} // closed when the handler has returned, which may be much later
}

// Try asks the rule's handler once about a job that is made up, as a person does who wants to
// know. Nothing comes of it. A handler with effects is not asked.
func (r *Rule) Try(ctx context.Context, j Job, now time.Time) Trial {
	if isAtMostOnce(r) {
		return Trial{Err: errTrialOnce, Returned: done}
	}
	c := r.checkOf(&j, now)
	c.Manual = true
	var t Trial
	t.Answer, t.Returned, t.Err = callWithTimeout(ctx, r.Limits.Timeout, r.Handler, c)
	if t.Err != nil || t.Answer.Next.IsZero() {
		return t
	}
	limits := r.Limits
	if t.Answer.Nominal {
		limits.Horizon = 0
	}
	if breach := limits.Judge(c.Slot, t.Answer.Next, c.Count+1); breach != guards.None {
		t.Breach = limits.Explain(breach, c.Slot, t.Answer.Next)
	}
	return t
}

// errTrialOnce means that a handler has effects, which a trial is not to have.
var errTrialOnce = errors.New("the handler has effects (at_most_once), and a trial is not to have any; send an event to a rule that names it")
