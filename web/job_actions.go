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

// JobActions is what a person may do to jobs. A job, or a rule, that is not there is
// futurejobs.ErrNotFound. Implementations are safe for concurrent use.
type JobActions interface {
	// Create begins a wait by hand, or returns futurejobs.ErrExists.
	Create(ctx context.Context, j NewJob) (futurejobs.ListedJob, error)
	// CreateAll begins waits by hand, all in one transaction. Those that are refused or are there
	// already keep none of the others out.
	CreateAll(ctx context.Context, all []NewJob) (StartResult, error)
	// Cancel ends the pending job of a rule and a key.
	Cancel(ctx context.Context, rule, key string) error
	// CancelEntity ends the pending jobs that any rule has of an entity's key, and returns
	// how many they were.
	CancelEntity(ctx context.Context, entity, key string) (int, error)
	// Check looks at a job now. It may end, and takes no step.
	Check(ctx context.Context, rule, key string) (CheckResult, error)
	// Snooze looks at a job again at the first slot from an instant on, and not before; one that is
	// looked at later anyhow is looked at then.
	Snooze(ctx context.Context, rule, key string, until time.Time) (futurejobs.ListedJob, error)
}

// NewJob is a wait that is begun by hand.
type NewJob = rules.NewJob

// NewJobBody is a NewJob as it comes in.
type NewJobBody struct {
	Rule  identifier      `json:"rule" minLength:"1" doc:"The rule that waits." example:"order-unshipped"`
	Key   identifier      `json:"key" minLength:"1" doc:"The key that is waited for." example:"1234"`
	Event json.RawMessage `json:"event,omitempty" doc:"What the rule sees as the trigger's body."`
	Since time.Time       `json:"since,omitzero" doc:"When the wait began; absent: now." example:"2026-01-31T15:04:05Z"`
}

func (a *api) createJob(ctx context.Context, in *struct{ Body NewJobBody }) (Job, error) {
	if err := principalOf(ctx).requireRule(access.Rules, string(in.Body.Rule)); err != nil {
		return Job{}, err
	}
	l, err := a.Desk.Create(ctx, NewJob{
		Rule: string(in.Body.Rule), Key: string(in.Body.Key), Event: in.Body.Event, Since: in.Body.Since.UTC(),
	})
	var wrong rules.Problems
	if errors.As(err, &wrong) {
		return Job{}, jobInvalid(wrong)
	}
	if err != nil {
		return Job{}, err
	}
	return a.whole(l), nil
}

// jobInvalid is the problem of a wait that the rule does not take.
func jobInvalid(wrong rules.Problems) *Problem {
	all := details(wrong)
	for i, d := range all {
		if d.Pointer != "" {
			all[i].Location = "body." + d.Location
		}
		all[i].Pointer = "" // it is no place in the rule
	}
	return problemOfDetails(Invalid, http.StatusUnprocessableEntity, all)
}

// CheckResult is what a look came to that was asked for by hand.
type CheckResult struct {
	Ended   bool      `json:"ended" doc:"What is waited for has happened, and the job is in the history."`
	Unknown bool      `json:"unknown,omitempty" doc:"Nobody could find out whether it has happened."`
	Outcome string    `json:"outcome,omitempty" doc:"Why it ended." example:"cleared"`
	Reason  string    `json:"reason,omitempty"`
	Next    time.Time `json:"next,omitzero" doc:"When it is looked at again; absent as in the job."`
}

func (a *api) check(ctx context.Context, of ref) (CheckResult, error) {
	l, err := a.Desk.Check(ctx, of.rule, of.key)
	return l, notPending(err)
}

// SnoozeBody is how long a job is to rest.
type SnoozeBody struct {
	Until time.Time `json:"until,omitzero" doc:"Not to be looked at before; this or for." example:"2026-01-31T15:04:05Z"`
	For   string    `json:"for,omitempty" doc:"A span from now; this or until." example:"2h"`
}

func (a *api) mountSnooze() {
	inPath, inQuery := operation{
		ID: "snooze-job", Method: "POST", Does: "lets a job rest for a while", Scope: access.OnCall, Once: true,
		Says: "It is not looked at before; a next look that is later anyhow stays where it is, and snooze_idle says so. What resolves it ends it all the same, and a step that came due meanwhile speaks after it.",
	}.keyed("/snooze")
	register(a, inPath, withBody(func(ctx context.Context, in *struct {
		JobPath
		Body SnoozeBody
	},
	) (Job, error) {
		return a.snooze(ctx, in.named(), in.Body)
	}))
	register(a, inQuery, withBody(func(ctx context.Context, in *struct {
		JobQuery
		Body SnoozeBody
	},
	) (Job, error) {
		return a.snooze(ctx, in.named(), in.Body)
	}))
}

func (a *api) snooze(ctx context.Context, of ref, body SnoozeBody) (Job, error) {
	until, err := body.until(a.Now())
	if err != nil {
		return Job{}, err
	}
	l, err := a.Desk.Snooze(ctx, of.rule, of.key, until.UTC())
	var wrong rules.Problems
	if errors.As(err, &wrong) {
		return Job{}, jobInvalid(wrong)
	}
	if err != nil {
		return Job{}, notPending(err)
	}
	return a.whole(l), nil
}

// until is when the rest ends.
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

// Cancelled is how many jobs ended by hand.
type Cancelled struct {
	Cancelled int `json:"cancelled"`
}

// mountCancelEntity is the one thing that may be done to the jobs of several rules.
func (a *api) mountCancelEntity() {
	register(a, operation{
		ID: "cancel-entity-jobs", Tag: tagJobs, Method: "DELETE", Path: "/entities/{entity}/{key}/jobs", Does: "ends all waits for an entity's key",
		Says:  "Those of every rule; what was said about them is closed by alerts. No job is no error: none is cancelled.",
		Scope: access.Rules, Reach: reachAll, Status: http.StatusOK,
	}, withBody(a.cancelEntity))
}

func (a *api) cancelEntity(ctx context.Context, in *EntityPath) (Cancelled, error) {
	n, err := a.Desk.CancelEntity(ctx, string(in.Entity), string(in.Key))
	return Cancelled{n}, err
}
