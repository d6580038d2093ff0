package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// JobActions changes jobs on behalf of users. An unknown job or rule is futurejobs.ErrNotFound. Implementations are safe
// for concurrent use.
type JobActions interface {
	// Create creates a job manually, or returns futurejobs.ErrExists.
	Create(ctx context.Context, j NewJob) (futurejobs.ListedJob, error)
	// CreateAll creates jobs manually, all in one transaction. Refused or existing jobs do not affect the others.
	CreateAll(ctx context.Context, all []NewJob) (StartResult, error)
	// Cancel ends the pending job of a rule and a key.
	Cancel(ctx context.Context, rule, key string) error
	// CancelEntity ends the pending jobs of all rules for an entity's key, and returns their number.
	CancelEntity(ctx context.Context, entity, key string) (int, error)
	// Check checks a job now. The job may end, but takes no step.
	Check(ctx context.Context, rule, key string) (CheckResult, error)
	// Snooze moves a job's next check to the first slot from the given time on; a later next check stays.
	Snooze(ctx context.Context, rule, key string, until time.Time) (futurejobs.ListedJob, error)
}

// NewJob is a job to create manually.
type NewJob = rules.NewJob

// NewJobBody is the body of a request that creates a job.
type NewJobBody struct {
	Rule  identifier      `json:"rule" minLength:"1" doc:"The rule that waits." example:"order-unshipped"`
	Key   identifier      `json:"key" minLength:"1" doc:"The key that is waited for." example:"1234"`
	Event json.RawMessage `json:"event,omitempty" doc:"What the rule sees as the trigger's body."`
	Since time.Time       `json:"since,omitzero" doc:"When the wait began; absent: now." example:"2026-01-31T15:04:05Z"`
}

// jobActionAPI has the operations that change jobs.
type jobActionAPI struct {
	desk JobActions
	view *jobView
	now  func() time.Time
}

func (a *jobActionAPI) create(ctx context.Context, in *struct{ Body NewJobBody }) (Job, error) {
	if err := principalOf(ctx).requireRule(access.Rules, string(in.Body.Rule)); err != nil {
		return Job{}, err
	}
	l, err := a.desk.Create(ctx, NewJob{
		Rule: string(in.Body.Rule), Key: string(in.Body.Key), Event: in.Body.Event, Since: in.Body.Since.UTC(),
	})
	var wrong rules.Problems
	if errors.As(err, &wrong) {
		return Job{}, jobInvalid(wrong)
	}
	if err != nil {
		return Job{}, err
	}
	return a.view.whole(l), nil
}

// jobInvalid returns the problem of a job that its rule refuses.
func jobInvalid(wrong rules.Problems) *Problem {
	all := details(wrong)
	for i, d := range all {
		if d.Pointer != "" {
			all[i].Location = "body." + d.Location
		}
		all[i].Pointer = "" // it does not point into the rule
	}
	return problemOfDetails(Invalid, http.StatusUnprocessableEntity, all)
}

// CheckResult is the result of a manual check.
type CheckResult struct {
	Ended   bool      `json:"ended" doc:"What is waited for has happened, and the job is in the history."`
	Unknown bool      `json:"unknown,omitempty" doc:"Nobody could find out whether it has happened."`
	Outcome string    `json:"outcome,omitempty" doc:"Why it ended." example:"cleared"`
	Reason  string    `json:"reason,omitempty"`
	Next    time.Time `json:"next,omitzero" doc:"When it is looked at again; absent as in the job."`
}

func (a *jobActionAPI) check(ctx context.Context, of ref) (CheckResult, error) {
	l, err := a.desk.Check(ctx, of.rule, of.key)
	return l, notPending(err)
}

// SnoozeBody is the body of a request that snoozes a job.
type SnoozeBody struct {
	Until time.Time `json:"until,omitzero" doc:"Not to be looked at before; this or for." example:"2026-01-31T15:04:05Z"`
	For   string    `json:"for,omitempty" doc:"A span from now; this or until." example:"2h"`
}

func (a *jobActionAPI) registerSnooze(all *operations) {
	inPath, inQuery := operation{
		ID: "snooze-job", Method: "POST", Does: "lets a job rest for a while", Scope: access.OnCall, Once: true,
		Says: "It is not looked at before; a next look that is later anyhow stays where it is, and snooze_idle says so. What resolves it ends it all the same, and a step that came due meanwhile speaks after it.",
	}.keyed("/snooze")
	register(all, inPath, withBody(func(ctx context.Context, in *struct {
		JobPath
		Body SnoozeBody
	},
	) (Job, error) {
		return a.snooze(ctx, in.named(), in.Body)
	}))
	register(all, inQuery, withBody(func(ctx context.Context, in *struct {
		JobQuery
		Body SnoozeBody
	},
	) (Job, error) {
		return a.snooze(ctx, in.named(), in.Body)
	}))
}

func (a *jobActionAPI) snooze(ctx context.Context, of ref, body SnoozeBody) (Job, error) {
	until, err := body.until(a.now())
	if err != nil {
		return Job{}, err
	}
	l, err := a.desk.Snooze(ctx, of.rule, of.key, until.UTC())
	var wrong rules.Problems
	if errors.As(err, &wrong) {
		return Job{}, jobInvalid(wrong)
	}
	if err != nil {
		return Job{}, notPending(err)
	}
	return a.view.whole(l), nil
}

// until returns the end of the snooze.
func (b SnoozeBody) until(now time.Time) (time.Time, error) {
	until, err := untilOf(b.Until, b.For, now)
	switch {
	case err != nil:
		return now, err
	case until.IsZero():
		return now, noEnd()
	case !until.After(now):
		return now, refused("body.until", "%s has passed; a job rests until an instant to come", until.Format(time.RFC3339))
	}
	return until, nil
}
