package futurejobs

import (
	"context"
	"errors"
	"time"

	"deadman/checks"
	"deadman/guards"
)

// Trial is the result of calling a handler with a made-up job.
type Trial struct {
	Answer   checks.Answer
	Err      error           // the reason why no answer was returned
	Breach   string          // why a guard would end a job with this answer; empty: no guard would
	Returned <-chan struct{} // closed when the handler has returned, perhaps much later
}

// Try calls the rule's handler once with a made-up job, at a person's request, without any effect on jobs. A handler
// with side effects is not called.
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

// errTrialOnce means that a handler has side effects and must not run in a trial.
var errTrialOnce = errors.New("the handler has effects (at_most_once), and a trial is not to have any; send an event to a rule that names it")
