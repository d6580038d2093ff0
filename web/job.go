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
)

// Job is a pending job, as the API returns it. Durations are in seconds.
type Job struct {
	Rule        string `json:"rule" example:"order-unshipped"`
	RuleVersion int32  `json:"rule_version" doc:"The version that it goes by."`
	Entity      string `json:"entity" example:"order"`
	Key         string `json:"key" example:"1234"`
	Status      Status `json:"status,omitempty" enum:"due,paused,undetermined,open,waiting" doc:"What it is doing; absent in history."`

	Since        time.Time `json:"since" doc:"When the wait began."`
	CreatedAt    time.Time `json:"created_at"`
	FirstCheckAt time.Time `json:"first_check_at" doc:"The slot of the first look; it never changes."`
	NextCheckAt  time.Time `json:"next_check_at,omitzero" doc:"The slot of the next look; absent while time stands still, where all is said of a beat that stays away and nothing is left but that it comes, and in history."`
	SnoozedUntil time.Time `json:"snoozed_until,omitzero" doc:"It is not looked at before, because somebody said so; absent once that is over."`
	SnoozeIdle   bool      `json:"snooze_idle,omitempty" doc:"The snooze puts nothing off: the next look is later than its end anyhow."`
	PausedAt     time.Time `json:"paused_at,omitzero" doc:"Since when time stands still for it."`

	CheckCount int `json:"check_count" doc:"Decided looks."`
	Step       int `json:"step" doc:"Steps taken."`
	Steps      int `json:"steps,omitempty" doc:"Of how many; absent where there is no end to them, of a handler, of another version than the newest, and in history."`

	PickedAt    time.Time `json:"picked_at,omitzero" doc:"Of the last look, as the three that follow."`
	StartedAt   time.Time `json:"started_at,omitzero"`
	CompletedAt time.Time `json:"completed_at,omitzero"`
	FailedAt    time.Time `json:"failed_at,omitzero" doc:"It could not find out."`

	Checks            int     `json:"checks" doc:"All looks, decided or not."`
	CheckSecondsTotal float64 `json:"check_seconds_total"`
	CheckSecondsMax   float64 `json:"check_seconds_max"`

	Alerts []alerts.ID `json:"alerts" nullable:"false" doc:"What was said about it, oldest first."`

	Acknowledged *Acknowledged `json:"acknowledged,omitempty" doc:"Who acknowledged what was said, while that holds; until then steps stay unsaid."`

	Event json.RawMessage `json:"event,omitempty" doc:"What began the wait; of single jobs and those of an entity only."`
	State json.RawMessage `json:"state,omitempty" doc:"The event with what changed it later; of single jobs and those of an entity only."`

	BodiesOmitted bool `json:"bodies_omitted,omitempty" doc:"Of a job of an entity: event and state are left out, because they have more than 16 KiB; GET /jobs/{rule}/{key} has them."`

	Trail []TrailEntry `json:"trail,omitempty" doc:"What became of it since it began, oldest first, the last 16; of single jobs and those of an entity only."`
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
	case j.Undecided > 0:
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
		Checks: l.Checks, CheckSecondsTotal: l.CheckTotal.Seconds(), CheckSecondsMax: l.CheckSlowest.Seconds(),
		Alerts: l.Alerts,
	}
	if j.Alerts == nil {
		j.Alerts = []alerts.ID{}
	}
	return j
}

// NextLook returns the slot of a job's next check, or the zero time if it has none: while it is paused, and after all
// alerts of a missing heartbeat, until the heartbeat arrives.
func NextLook(book Book, rule string, j futurejobs.Job, now time.Time) time.Time {
	if !j.PausedAt().IsZero() || j.Step > 0 && j.Undecided == 0 && heldForGood(book, rule, j.NextCheckAt, now) {
		return time.Time{}
	}
	return j.NextCheckAt
}

// heldForGood reports whether checks of a rule's alerted jobs have no effect.
func heldForGood(book Book, rule string, next, now time.Time) bool {
	newest, err := book.Newest(rule)
	return err == nil && newest.HeldForever(next, now)
}

// jobView shows pending jobs, with what their rules say of them now.
type jobView struct {
	book Book
	now  func() time.Time
}

func (a *jobView) pending(l futurejobs.ListedJob) Job {
	j := newJob(l)
	now := a.now()
	j.NextCheckAt = NextLook(a.book, l.Rule, l.Job, now)
	j.Status, j.Steps, j.Acknowledged = StatusOf(l.Job, now), a.stepsOf(l), AcknowledgedAs(l.Ack, now)
	if l.SnoozedUntil.After(now) {
		j.SnoozedUntil, j.SnoozeIdle = l.SnoozedUntil, a.isIdle(l)
	}
	return j
}

// isIdle reports whether a snooze delays no check. For a deleted rule it returns false.
func (a *jobView) isIdle(l futurejobs.ListedJob) bool {
	newest, err := a.book.Newest(l.Rule)
	return err == nil && l.PausedAt().IsZero() && l.NextCheckAt.After(newest.Engine().Grid.Up(l.SnoozedUntil))
}

// stepsOf returns the number of steps of a job's rule; 0 if unknown.
func (a *jobView) stepsOf(l futurejobs.ListedJob) int {
	newest, err := a.book.Newest(l.Rule)
	if err != nil || newest.Engine().Version != l.Version {
		return 0
	}
	return newest.Steps()
}

// whole returns a pending job with its event, state and trail.
func (a *jobView) whole(l futurejobs.ListedJob) Job {
	j := a.pending(l)
	j.Event, j.State, j.Trail, j.BodiesOmitted = l.Event, l.State, trailOf(l.Trail), l.Omitted
	for i := range j.Trail {
		if j.NextCheckAt.IsZero() && j.Trail[i].Next.Equal(l.NextCheckAt) {
			j.Trail[i].Next = time.Time{}
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
	now     func() time.Time
}

// register registers the operations on pending jobs.
func (a *jobAPI) register(all *operations) {
	register(all, operation{
		ID: "list-jobs", Tag: tagJobs, Method: "GET", Path: "/jobs", Does: "lists pending jobs, next due first",
		Says:  "A job that is looked at between two pages may come again, later; none that stays as it is comes twice or is left out.",
		Scope: access.Read, Reach: reachFiltered,
	}, withBody(a.list))
	register(all, operation{
		ID: "create-job", Tag: tagJobs, Method: "POST", Path: "/jobs", Does: "begins a wait by hand",
		Scope: access.Rules, Reach: reachBody, Status: http.StatusCreated, Once: true,
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge},
	}, withBody(a.actions.create))
	a.bulk.register(all)
	addKeyed(all, operation{
		ID: "get-job", Method: "GET", Does: "shows a pending job", Scope: access.Read,
	}, "", withBody(func(ctx context.Context, of *keyRef) (Job, error) { return a.get(ctx, of.ref) }))
	addKeyed(all, operation{
		ID: "cancel-job", Method: "DELETE", Does: "ends a wait", Says: "What was said about it is closed by an alert.", Scope: access.Rules,
	}, "", noContent(func(ctx context.Context, of *keyRef) error {
		return notPending(a.actions.desk.Cancel(ctx, of.rule, of.key))
	}))
	addKeyed(all, operation{
		ID: "check-job", Method: "POST", Does: "looks at a job now", Scope: access.OnCall, Once: true,
		Says: "The look may end the job, if what is waited for has happened. It takes no step and does not count.",
	}, "/check", withBody(func(ctx context.Context, of *keyRef) (CheckResult, error) { return a.actions.check(ctx, of.ref) }))
	a.actions.registerSnooze(all)
}

// jobListIn has the filters of a job list.
type jobListIn struct {
	ListFilter
	KeyPrefix identifier `query:"key_prefix" doc:"Whose keys begin so." example:"12"`
	DueAfter  time.Time  `query:"due_after" doc:"Due then or later." example:"2026-01-31T15:04:05Z"`
	DueBefore time.Time  `query:"due_before" doc:"Due before then." example:"2026-01-31T15:04:05Z"`
	Overdue   bool       `query:"overdue" doc:"Those whose slot has come."`
	Paging
}

func (a *jobAPI) list(ctx context.Context, in *jobListIn) (Page[Job], error) {
	f := in.page(in.filter())
	f.KeyPrefix = string(in.KeyPrefix)
	f.DueAfter, f.DueBefore = in.DueAfter.UTC(), in.DueBefore.UTC()
	if now := a.now().UTC(); in.Overdue && (f.DueBefore.IsZero() || now.Before(f.DueBefore)) {
		f.DueBefore = now
	}
	return a.jobs(ctx, f)
}

func (a *jobAPI) jobs(ctx context.Context, f futurejobs.Filter) (Page[Job], error) {
	p, err := a.lists.Jobs(ctx, filterVisible(ctx, f))
	if err != nil {
		return Page[Job]{}, err
	}
	return pageOf(p, a.view.pending), nil
}

func (a *jobAPI) get(ctx context.Context, of ref) (Job, error) {
	l, err := a.lists.Job(ctx, of.rule, of.key)
	if err != nil {
		return Job{}, notPending(err)
	}
	return a.view.whole(l), nil
}

func notPending(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (a job that ended is in the history)", err)
}
