package web

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// Desk is what a person may do to jobs.
type Desk interface {
	// Cancel ends the pending job of a rule and a key, or returns futurejobs.ErrNotFound.
	Cancel(ctx context.Context, rule, key string) error
}

// Job is a pending job as it goes out. Spans are in seconds.
type Job struct {
	Rule        string `json:"rule"`
	RuleVersion int32  `json:"rule_version"`
	Entity      string `json:"entity"`
	Key         string `json:"key"`
	Status      Status `json:"status,omitempty"` // absent in history

	Since        time.Time `json:"since"`
	CreatedAt    time.Time `json:"created_at"`
	FirstCheckAt time.Time `json:"first_check_at"`
	NextCheckAt  time.Time `json:"next_check_at,omitzero"`

	CheckCount int `json:"check_count"` // decided checks
	Step       int `json:"step"`        // steps taken

	PickedAt    time.Time `json:"picked_at,omitzero"` // of the last check, as the three below
	StartedAt   time.Time `json:"started_at,omitzero"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
	FailedAt    time.Time `json:"failed_at,omitzero"`

	Checks            int     `json:"checks"` // all, decided or not
	CheckSecondsTotal float64 `json:"check_seconds_total"`
	CheckSecondsMax   float64 `json:"check_seconds_max"`

	Alerts []alerts.ID `json:"alerts"` // what was said about it, oldest first

	Event json.RawMessage `json:"event,omitempty"` // of a single job only
	State json.RawMessage `json:"state,omitempty"` // of a single job only
}

// Status is what a pending job is doing. It is derived when it is read.
type Status string

// The statuses, the strongest first.
const (
	Due          Status = "due"          // its slot has come
	Undetermined Status = "undetermined" // the last look could not find out; it is looked at again
	Open         Status = "open"         // it was alerted, and is watched on
	Waiting      Status = "waiting"      // its slot is still to come, and nothing was said
)

// StatusOf derives the status of a job at an instant.
func StatusOf(j futurejobs.Job, now time.Time) Status {
	switch {
	case !j.NextCheckAt.After(now):
		return Due
	case j.Undecided > 0:
		return Undetermined
	case len(j.Alerts) > 0:
		return Open
	}
	return Waiting
}

func newJob(l futurejobs.Listed) Job {
	j := Job{
		Rule: l.Rule, RuleVersion: l.Version, Entity: l.Entity, Key: l.Key,
		Since: l.Since, CreatedAt: l.CreatedAt, FirstCheckAt: l.FirstCheckAt, NextCheckAt: l.NextCheckAt,
		CheckCount: l.CheckCount, Step: l.Step,
		PickedAt: l.Last.PickedAt, StartedAt: l.Last.StartedAt,
		CompletedAt: l.Last.CompletedAt, FailedAt: l.Last.FailedAt,
		Checks: l.Checks, CheckSecondsTotal: l.CheckTotal.Seconds(), CheckSecondsMax: l.CheckSlowest.Seconds(),
		Alerts: l.Alerts,
	}
	if j.Alerts == nil {
		j.Alerts = []alerts.ID{}
	}
	return j
}

func (a *api) pending(l futurejobs.Listed) Job {
	j := newJob(l)
	j.Status = StatusOf(l.Job, a.Now())
	return j
}

func readJobs(from *reading) futurejobs.Filter {
	f := readFilter(from)
	f.DueAfter, f.DueBefore = from.instant("due_after"), from.instant("due_before")
	return f
}

func (a *api) jobs(ctx context.Context, f futurejobs.Filter) (Page[Job], error) {
	p, err := a.Lists.Jobs(ctx, f)
	if err != nil {
		return Page[Job]{}, err
	}
	return pageOf(p, a.pending), nil
}

// ref names a job from outside.
type ref struct{ rule, key string }

// readRef takes the key from the path, or from the query where it does not fit a path.
func readRef(from *reading) ref {
	as := ref{rule: from.path("rule"), key: from.path("key")}
	if as.key == "" {
		as.key = from.text("key")
	}
	if as.key == "" {
		from.refuse("query.key", "the key is missing; write /jobs/{rule}/{key}, or /jobs/{rule}?key=… where it does not fit a path")
	}
	return as
}

func (a *api) job(ctx context.Context, of ref) (Job, error) {
	l, err := a.Lists.Job(ctx, of.rule, of.key)
	if err != nil {
		return Job{}, notPending(err)
	}
	j := a.pending(l)
	j.Event, j.State = l.Event, l.State
	return j, nil
}

func (a *api) cancel(ctx context.Context, of ref) (struct{}, error) {
	if err := a.Desk.Cancel(ctx, of.rule, of.key); err != nil {
		return struct{}{}, notPending(err)
	}
	return struct{}{}, nil
}

func notPending(err error) error {
	return fmt.Errorf("%w (a job that ended is in the history)", err)
}
