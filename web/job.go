package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// Job is a pending job, as the API returns it. Durations are in seconds.
type Job struct {
	Rule        string `json:"rule" doc:"Name of the rule." example:"order-unshipped"`
	RuleVersion int32  `json:"rule_version" doc:"Version of the rule that the job follows."`
	Entity      string `json:"entity" doc:"Entity type." example:"order"`
	Key         string `json:"key" doc:"Key of the entity." example:"1234"`
	Status      Status `json:"status,omitempty" enum:"due,paused,undetermined,open,waiting" doc:"due: the slot of the next check has come. paused: a pause of the rule is in effect. undetermined: the last check failed and will be repeated. open: the job has raised an alert. waiting: the next check is in the future and no alert was raised. Absent in history."`

	Since             time.Time `json:"since" doc:"Start of the job, from which steps are timed."`
	CreatedAt         time.Time `json:"created_at" doc:"Time at which the job was stored."`
	FirstCheckAt      time.Time `json:"first_check_at" doc:"Slot of the first check. It never changes."`
	NextCheckAt       time.Time `json:"next_check_at,omitzero" doc:"Slot of the next check. Absent in history, while the job is paused, and for a missing heartbeat whose steps are all taken."`
	SnoozedUntil      time.Time `json:"snoozed_until,omitzero" doc:"End of the snooze. Absent if the job is not snoozed."`
	SnoozeIneffective bool      `json:"snooze_ineffective,omitempty" doc:"Whether the next check is later than the end of the snooze anyway."`
	PausedAt          time.Time `json:"paused_at,omitzero" doc:"Time at which the job was paused. Absent if it is not paused."`

	CheckCount int `json:"check_count" doc:"Number of completed checks."`
	Step       int `json:"step" doc:"Number of steps taken."`
	Steps      int `json:"steps,omitempty" doc:"Number of steps of the rule. Absent if unlimited, decided by a handler, of an older version of the rule, and in history."`

	PickedAt    time.Time `json:"picked_at,omitzero" doc:"Last check: time at which the job was picked."`
	StartedAt   time.Time `json:"started_at,omitzero" doc:"Last check: time at which it started."`
	CompletedAt time.Time `json:"completed_at,omitzero" doc:"Last check: time at which it completed."`
	FailedAt    time.Time `json:"failed_at,omitzero" doc:"Last check: time at which it failed to get an answer."`

	CheckAttempts     int     `json:"check_attempts" doc:"Number of all checks, including failed ones."`
	CheckSecondsTotal float64 `json:"check_seconds_total" doc:"Total duration of all checks, in seconds."`
	CheckSecondsMax   float64 `json:"check_seconds_max" doc:"Duration of the longest check, in seconds."`

	Alerts []alerts.ID `json:"alerts" nullable:"false" doc:"IDs of the alerts of the job, oldest first."`

	NextAlert *NextAlert `json:"next_alert,omitempty" doc:"Alert that the job raises next if nothing changes. Absent in history."`

	Acknowledged *Acknowledged `json:"acknowledged,omitempty" doc:"Current acknowledgement. Further steps are suppressed until it ends."`

	Event json.RawMessage `json:"event,omitempty" doc:"Body of the trigger event. Returned for single jobs and for jobs of an entity only."`
	State json.RawMessage `json:"state,omitempty" doc:"Body of the trigger event, with later updates merged in. Returned for single jobs and for jobs of an entity only."`

	BodiesOmitted bool `json:"bodies_omitted,omitempty" doc:"Whether event and state are left out of the entity because they exceed 16 KiB. GET /jobs/{rule}/{key} returns them."`

	Trail []TrailEntry `json:"trail,omitempty" doc:"Last 16 checks and changes of the job, oldest first. Returned for single jobs and for jobs of an entity only."`
}

// Status is the state of a pending job, derived at reading time.
type Status string

// The statuses, in order of precedence.
const (
	Paused       Status = "paused"       // its time is stopped
	Due          Status = "due"          // its slot has come
	Undetermined Status = "undetermined" // the last check got no answer and will be repeated
	Open         Status = "open"         // it has raised an alert, and is still checked
	Waiting      Status = "waiting"      // its slot is in the future, and it has raised no alert
)

// StatusOf derives the status of a job at now.
func StatusOf(j futurejobs.Job, now time.Time) Status {
	switch {
	case !j.PausedAt().IsZero():
		return Paused
	case !j.NextCheckAt.After(now):
		return Due
	case j.UndeterminedChecks > 0:
		return Undetermined
	case len(j.Alerts) > 0:
		return Open
	}
	return Waiting
}

func newJob(l futurejobs.ListedJob) Job {
	j := Job{
		Rule: l.Rule, RuleVersion: l.Version, Entity: l.Entity, Key: l.Key,
		Since: l.Since, CreatedAt: l.CreatedAt, FirstCheckAt: l.FirstCheckAt, PausedAt: l.PausedAt(),
		CheckCount: l.CheckCount, Step: l.Step,
		PickedAt: l.Last.PickedAt, StartedAt: l.Last.StartedAt,
		CompletedAt: l.Last.CompletedAt, FailedAt: l.Last.FailedAt,
		CheckAttempts: l.CheckAttempts, CheckSecondsTotal: l.CheckTotal.Seconds(), CheckSecondsMax: l.CheckSlowest.Seconds(),
		Alerts: l.Alerts,
	}
	if j.Alerts == nil {
		j.Alerts = []alerts.ID{}
	}
	return j
}

// NextCheck returns the slot of a job's next check, or the zero time if it has none: while it is paused, and after all
// alerts of a missing heartbeat, until the heartbeat arrives.
func NextCheck(catalog LoadedRules, rule string, j futurejobs.Job, now time.Time) time.Time {
	if !j.PausedAt().IsZero() || j.Step > 0 && j.UndeterminedChecks == 0 && heldForGood(catalog, rule, j.NextCheckAt, now) {
		return time.Time{}
	}
	return j.NextCheckAt
}

// heldForGood reports whether checks of a rule's alerted jobs have no effect.
func heldForGood(catalog LoadedRules, rule string, next, now time.Time) bool {
	newest, err := catalog.Newest(rule)
	return err == nil && newest.HeldForever(next, now)
}

// jobView shows pending jobs, with the present meaning of their rules.
type jobView struct {
	catalog LoadedRules
	now     func() time.Time
}

// pending returns a function that shows the pending jobs of one list.
func (a *jobView) pending(ctx context.Context) func(futurejobs.ListedJob) Job {
	now := a.now()
	steps := a.catalog.NextSteps(now)
	return func(l futurejobs.ListedJob) Job { return a.pendingAt(ctx, l, steps, now) }
}

func (a *jobView) pendingAt(ctx context.Context, l futurejobs.ListedJob, steps *rules.NextSteps, now time.Time) Job {
	j := newJob(l)
	j.NextAlert = nextAlertOf(ctx, steps, l)
	j.NextCheckAt = NextCheck(a.catalog, l.Rule, l.Job, now)
	j.NextAlert.JobEnds = j.NextAlert.JobEnds && !j.NextCheckAt.IsZero()
	j.Status, j.Steps, j.Acknowledged = StatusOf(l.Job, now), a.stepsOf(l), AcknowledgedAs(l.Ack, now)
	if l.SnoozedUntil.After(now) {
		j.SnoozedUntil, j.SnoozeIneffective = l.SnoozedUntil, a.isIdle(l.Rule, l.SnoozedUntil, l.NextCheckAt)
	}
	return j
}

// isIdle reports whether a snooze delays no check, because the next one is later. For a paused job and a deleted rule it
// returns false.
func (a *jobView) isIdle(rule string, until, next time.Time) bool {
	newest, err := a.catalog.Newest(rule)
	return err == nil && !next.Equal(futurejobs.FarFuture) && next.After(newest.Engine().Grid.Up(until))
}

// snoozeOf returns the end of a snooze that delays the next check of a job; zero: none does.
func (a *jobView) snoozeOf(rule string, until, next, now time.Time) time.Time {
	if !until.After(now) || a.isIdle(rule, until, next) {
		return time.Time{}
	}
	return until
}

// stepsOf returns the number of steps of a job's rule; 0 if unknown.
func (a *jobView) stepsOf(l futurejobs.ListedJob) int {
	newest, err := a.catalog.Newest(l.Rule)
	if err != nil || newest.Engine().Version != l.Version {
		return 0
	}
	return newest.Steps()
}

// whole returns a function that shows the pending jobs of one list with their events, states and trails.
func (a *jobView) whole(ctx context.Context) func(futurejobs.ListedJob) Job {
	pending := a.pending(ctx)
	return func(l futurejobs.ListedJob) Job { return wholeJob(pending(l), l) }
}

// wholeJob adds the event, state and trail to a pending job.
func wholeJob(j Job, l futurejobs.ListedJob) Job {
	j.Event, j.State, j.Trail, j.BodiesOmitted = l.Event, l.State, trailOf(l.Trail), l.Omitted
	for i := range j.Trail {
		if j.NextCheckAt.IsZero() && (j.Trail[i].Next.Equal(l.NextCheckAt) || i == len(j.Trail)-1 && l.PausedAt().IsZero()) {
			j.Trail[i].Next, j.Trail[i].NoNextCheck = time.Time{}, true
		}
	}
	return j
}

// jobAPI has the operations on pending jobs.
type jobAPI struct {
	lists   JobReader
	view    *jobView
	actions *jobActionAPI
	bulk    *bulkAPI
	counts  *ruleJobCounts
	now     func() time.Time
}

// register registers the operations on pending jobs.
func (a *jobAPI) register(all *operations) {
	register(all, operation{
		ID: "list-jobs", Tag: tagJobs, Method: "GET", Path: "/jobs", Summary: "list pending jobs, next due first",
		Description: "A job that is checked between two page requests may be listed twice. Unchanged jobs are listed exactly once.",
		Scope:       access.Read, Reach: reachFiltered,
	}, withBody(a.list))
	register(all, operation{
		ID: "create-job", Tag: tagJobs, Method: "POST", Path: "/jobs", Summary: "create a job",
		Scope: access.Rules, Reach: reachBody, Status: http.StatusCreated, IdempotencyKey: true,
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge},
	}, withBody(a.actions.create))
	a.bulk.register(all)
	addKeyed(all, operation{
		ID: "get-job", Method: "GET", Summary: "get a pending job", Scope: access.Read,
	}, "", withBody(func(ctx context.Context, of *keyRef) (Job, error) { return a.get(ctx, of.ref) }))
	a.actions.registerCancel(all)
	addKeyed(all, operation{
		ID: "check-job", Method: "POST", Summary: "check a job now", Scope: access.Rules, IdempotencyKey: true,
		Description: "The check may end the job. It raises no step and is not counted in check_count. " +
			"The tokens of a prefix have two such checks at a time; a few wait, further ones get 429, as do all while the allowance for checks of the prefix is used up.",
		Errors: []int{http.StatusTooManyRequests},
	}, "/check", withBody(inTurnOf(a.actions.checks, principal.checker, func(ctx context.Context, of *keyRef) (CheckResult, error) {
		return a.actions.check(ctx, of.ref)
	})))
	a.actions.registerSnooze(all)
}

// jobListIn has the filters of a job list.
type jobListIn struct {
	ListFilter
	KeyPrefix identifier `query:"key_prefix" doc:"Filter by a prefix of the key." example:"12"`
	DueAfter  time.Time  `query:"due_after" doc:"Only jobs whose next check is at or after this time." example:"2026-01-31T15:04:05Z"`
	DueBefore time.Time  `query:"due_before" doc:"Only jobs whose next check is before this time." example:"2026-01-31T15:04:05Z"`
	Due       bool       `query:"due" doc:"Only due jobs, whose slot has come."`
	Where     string     `query:"where" doc:"Filter by fields of event and state: comparisons with = or != and a JSON value, joined by and. One request searches up to 20,000 jobs for up to 2 s; searched tells how many, and next continues the search, also of a page without items. A missing field is null." example:"event.customer = \"acme\""`
	Paging
}

func (a *jobAPI) list(ctx context.Context, in *jobListIn) (JobPage, error) {
	f := in.page(in.filter())
	f.KeyPrefix = string(in.KeyPrefix)
	f.DueAfter, f.DueBefore = in.DueAfter.UTC(), in.DueBefore.UTC()
	if now := a.now().UTC(); in.Due && (f.DueBefore.IsZero() || now.Before(f.DueBefore)) {
		f.DueBefore = now
	}
	if in.Where != "" {
		return a.search(ctx, f, in.Where)
	}
	p, err := a.lists.Jobs(ctx, filterVisible(ctx, f))
	if err != nil {
		return JobPage{}, err
	}
	return JobPage{Page: pageOf(p, a.view.pending(ctx))}, nil
}

func (a *jobAPI) get(ctx context.Context, of ref) (Job, error) {
	l, err := a.lists.Job(ctx, of.rule, of.key)
	if err != nil {
		return Job{}, notPending(err)
	}
	return a.view.whole(ctx)(l), nil
}

func notPending(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (ended jobs are in the history)", err)
}
