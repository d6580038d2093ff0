package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"deadman/rules/document"

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
	// Cancel ends the pending job of a rule and a key. The reason is kept in history and the audit log; it may be empty.
	Cancel(ctx context.Context, rule, key, reason string) error
	// CancelEntity ends the pending jobs of all rules for an entity's key, and returns their number.
	CancelEntity(ctx context.Context, entity, key string) (int, error)
	// Check checks a job now. The job may end, but takes no step. It returns a futurejobs.UsedUpError to a tenant that must
	// wait.
	Check(ctx context.Context, rule, key string) (CheckResult, error)
	// Snooze moves a job's next check to the first slot from the given time on; a later next check stays.
	Snooze(ctx context.Context, rule, key string, until time.Time) (futurejobs.ListedJob, error)
	// CancelAll cancels jobs in one transaction, and returns their number. SnoozeAll snoozes jobs likewise. Both leave out
	// jobs that have ended.
	CancelAll(ctx context.Context, all []JobName, reason string) (int, error)
	SnoozeAll(ctx context.Context, all []JobName, until time.Time) (SnoozedJobs, error)
}

// NewJob is a job to create manually.
type NewJob = rules.NewJob

// JobRequest is the body of a request that creates a job.
type JobRequest struct {
	Rule  identifier      `json:"rule" minLength:"1" doc:"Name of the rule." example:"order-unshipped"`
	Key   identifier      `json:"key" minLength:"1" doc:"Key of the entity." example:"1234"`
	Event json.RawMessage `json:"event,omitempty" doc:"Body of the trigger event, as the rule sees it."`
	Since time.Time       `json:"since,omitzero" doc:"Start of the job. Default: now." example:"2026-01-31T15:04:05Z"`
}

// jobActionAPI has the operations that change jobs.
type jobActionAPI struct {
	actions JobActions
	view    *jobView
	checks  *semaphore[tokenRef]
	now     func() time.Time
}

func (a *jobActionAPI) create(ctx context.Context, in *struct{ Body JobRequest }) (Job, error) {
	if err := principalOf(ctx).requireRule(access.Rules, string(in.Body.Rule)); err != nil {
		return Job{}, err
	}
	l, err := a.actions.Create(ctx, NewJob{
		Rule: string(in.Body.Rule), Key: string(in.Body.Key), Event: in.Body.Event, Since: in.Body.Since.UTC(),
	})
	var wrong document.Problems
	if errors.As(err, &wrong) {
		return Job{}, bodyInvalid(wrong)
	}
	if err != nil {
		return Job{}, err
	}
	return a.view.whole(ctx)(l), nil
}

// bodyInvalid returns the problem of a body that its rule refuses.
func bodyInvalid(wrong document.Problems) *Problem {
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
	Ended        bool      `json:"ended" doc:"Whether the check ended the job. The job is in the history then."`
	Undetermined bool      `json:"undetermined,omitempty" doc:"Whether the check failed to get an answer."`
	Outcome      string    `json:"outcome,omitempty" doc:"Outcome of the ended job." example:"cleared"`
	Reason       string    `json:"reason,omitempty" doc:"Explanation of the result."`
	NextCheckAt  time.Time `json:"next_check_at,omitzero" doc:"Slot of the next check. Absent under the same conditions as in the job."`
}

func (a *jobActionAPI) check(ctx context.Context, of ref) (CheckResult, error) {
	l, err := a.actions.Check(ctx, of.rule, of.key)
	var usedUp *futurejobs.UsedUpError
	if errors.As(err, &usedUp) {
		p := problem(http.StatusTooManyRequests, "%v", usedUp)
		p.retry = usedUp.After
		return l, p
	}
	return l, notPending(err)
}

// SnoozeRequest is the body of a request that snoozes a job.
type SnoozeRequest struct {
	Until time.Time `json:"until,omitzero" doc:"End of the snooze. Alternative to for." example:"2026-01-31T15:04:05Z"`
	For   string    `json:"for,omitempty" doc:"Duration of the snooze from now, such as 2h. Alternative to until." example:"2h"`
}

func (a *jobActionAPI) registerSnooze(all *operations) {
	inPath, inQuery := operation{
		ID: "snooze-job", Method: "POST", Summary: "snooze a job", Scope: access.OnCall, IdempotencyKey: true,
		Description: "Postpones the next check to the end of the snooze. A later check is not moved, and snooze_ineffective is true. Events still " +
			"resolve the job. A step that came due in the meantime is raised after the snooze.",
	}.keyed("/snooze")
	register(all, inPath, withBody(func(ctx context.Context, in *struct {
		JobPath
		Body SnoozeRequest
	},
	) (Job, error) {
		return a.snooze(ctx, in.named(), in.Body)
	}))
	register(all, inQuery, withBody(func(ctx context.Context, in *struct {
		JobQuery
		Body SnoozeRequest
	},
	) (Job, error) {
		return a.snooze(ctx, in.named(), in.Body)
	}))
}

func (a *jobActionAPI) snooze(ctx context.Context, of ref, body SnoozeRequest) (Job, error) {
	until, err := body.until(a.now())
	if err != nil {
		return Job{}, err
	}
	l, err := a.actions.Snooze(ctx, of.rule, of.key, until.UTC())
	var wrong document.Problems
	if errors.As(err, &wrong) {
		return Job{}, bodyInvalid(wrong)
	}
	if err != nil {
		return Job{}, notPending(err)
	}
	return a.view.whole(ctx)(l), nil
}

// until returns the end of the snooze.
func (b SnoozeRequest) until(now time.Time) (time.Time, error) {
	until, err := untilOf(b.Until, b.For, now)
	switch {
	case err != nil:
		return now, err
	case until.IsZero():
		return now, noEnd()
	case !until.After(now):
		return now, refused("body.until", "%s is in the past; set a future time", until.Format(time.RFC3339))
	}
	return until, nil
}

// CancelReason is the reason of a cancellation.
type CancelReason struct {
	Reason identifier `query:"reason" doc:"Reason, kept in the history and the audit log; up to 500 bytes." example:"shipped by hand"`
}

func (a *jobActionAPI) registerCancel(all *operations) {
	inPath, inQuery := operation{
		ID: "cancel-job", Method: "DELETE", Summary: "cancel a job", Description: "Its open alert is resolved.", Scope: access.Rules,
	}.keyed("")
	register(all, inPath, noContent(func(ctx context.Context, in *struct {
		JobPath
		CancelReason
	},
	) error {
		return a.cancel(ctx, in.named(), in.CancelReason)
	}))
	register(all, inQuery, noContent(func(ctx context.Context, in *struct {
		JobQuery
		CancelReason
	},
	) error {
		return a.cancel(ctx, in.named(), in.CancelReason)
	}))
}

func (a *jobActionAPI) cancel(ctx context.Context, of ref, why CancelReason) error {
	if len(why.Reason) > ackNote {
		return refused("query.reason", "it has %d bytes; the maximum is %d", len(why.Reason), ackNote)
	}
	return notPending(a.actions.Cancel(ctx, of.rule, of.key, string(why.Reason)))
}
