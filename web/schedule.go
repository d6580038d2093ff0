package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"deadman/rules/document"

	"github.com/danielgtaylor/huma/v2"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// ScheduleReader reads stored schedules and their ticks. A cursor of another list is futurejobs.ErrBadCursor.
// Implementations are safe for concurrent use.
type ScheduleReader interface {
	// Schedules returns the schedules of a rule, by id.
	Schedules(ctx context.Context, f futurejobs.ScheduleFilter) (futurejobs.Page[futurejobs.Schedule], error)
	// Schedule returns one schedule, or futurejobs.ErrNotFound.
	Schedule(ctx context.Context, ref futurejobs.ScheduleRef) (futurejobs.Schedule, error)
	// ScheduleTicks returns the ticks of a schedule, newest first; of all schedules of a rule, if the reference has no ID.
	ScheduleTicks(ctx context.Context, ref futurejobs.ScheduleRef, f futurejobs.TickFilter) (futurejobs.Page[futurejobs.ScheduleTick], error)
}

// ScheduleActions changes stored schedules, and computes their ticks. Implementations are safe for concurrent use.
type ScheduleActions interface {
	// ChangeSchedules creates, replaces and deletes schedules in one transaction. Refused changes do not affect the others.
	// It returns futurejobs.ErrScheduleHeld if the event of a schedule may be in transit; nothing is changed then.
	ChangeSchedules(ctx context.Context, all []ScheduleChange) (ChangedSchedules, error)
	// HasSchedules reports whether the schedules of a rule are stored. Those that another trigger has left over can be read
	// and deleted only.
	HasSchedules(rule string) bool
	// NextTicks returns the next ticks of a schedule of a rule, at most n; nil: there are none, or the schedules of the rule
	// are not stored.
	NextTicks(rule string, s futurejobs.Schedule, n int) []time.Time
}

// ScheduleChange creates or replaces a schedule, or deletes it. Of a deleted one, Rule and ID are set.
type ScheduleChange struct {
	futurejobs.Schedule
	Deleted bool
}

// ChangedSchedules is the result of changes of schedules.
type ChangedSchedules struct {
	futurejobs.ScheduleChanges
	Refused []error // by the index of the change: futurejobs.ErrNotFound of its rule, or document.Problems; nil: not refused
	Ended   []int   // indexes of the changes that store an enabled schedule without a further tick
}

// Schedule is a stored schedule, as the API returns it.
type Schedule struct {
	Rule      string          `json:"rule" doc:"Name of the rule." example:"report-due"`
	ID        string          `json:"id" doc:"ID of the schedule, unique in the rule: printable ASCII without spaces." example:"customer-1234"`
	Schedule  string          `json:"schedule" doc:"Crontab of five fields, a macro such as @daily, @every with a duration, or @at with a time." example:"30 8 * * MON-FRI"`
	Zone      string          `json:"zone,omitempty" doc:"Time zone of the crontab. Absent: UTC." example:"Europe/Berlin"`
	Data      json.RawMessage `json:"data,omitempty" doc:"Body of the events. Absent: that of the rule."`
	Enabled   bool            `json:"enabled" doc:"Whether the schedule ticks."`
	Inactive  bool            `json:"inactive,omitempty" doc:"Whether the rule has another trigger now, so that the schedule does not tick, and can be deleted only. It ticks again if the rule has stored schedules again."`
	Paused    bool            `json:"paused,omitempty" doc:"Whether the rule is paused or not enabled, so that ticks pass and emit no event. They are not made up for."`
	Version   int64           `json:"version" doc:"Version, from 1. Each change raises it." example:"3"`
	CreatedAt time.Time       `json:"created_at" doc:"Time of creation."`
	UpdatedAt time.Time       `json:"updated_at" doc:"Time of the last change."`
	LastAt    time.Time       `json:"last_at,omitzero" doc:"Nominal time of the last tick. Absent before the first one."`
	NextAt    time.Time       `json:"next_at,omitzero" doc:"Nominal time of the next tick. Absent if there is none, and while the schedule is inactive or paused."`
	Next      []time.Time     `json:"next,omitempty" doc:"Nominal times of the next five ticks. Returned for single schedules only." nullable:"false"`
	Warnings  []string        `json:"warnings,omitempty" doc:"Warnings about a schedule that was stored, such as one whose only tick is past." nullable:"false"`
}

// shownTicks is the number of next ticks of a single schedule.
const shownTicks = 5

// newSchedule returns a schedule of a rule, which has stored schedules if it is active.
func newSchedule(rule rules.ListedRule, s futurejobs.Schedule, isActive bool) Schedule {
	isPaused := isActive && (!rule.PausedAt.IsZero() || !rule.Document.Enabled)
	if !isActive || isPaused {
		s.NextAt = time.Time{}
	}
	return Schedule{
		Rule: rule.Name, ID: s.ID, Inactive: !isActive, Paused: isPaused, Schedule: s.Text, Zone: s.Zone, Data: s.Data, Enabled: s.Enabled, Version: s.Version,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, LastAt: s.LastAt, NextAt: s.NextAt,
	}
}

// SchedulePath identifies a schedule by its path.
type SchedulePath struct {
	Rule identifier `path:"rule" doc:"Name of the rule." example:"report-due"`
	ID   identifier `path:"id" doc:"ID of the schedule." example:"customer-1234"`
}

// ScheduleQuery identifies a schedule by its path and its query, for ids that do not fit into a path.
type ScheduleQuery struct {
	Rule identifier `path:"rule" doc:"Name of the rule." example:"report-due"`
	ID   identifier `query:"id" required:"true" doc:"ID of the schedule." example:"customer/1234"`
}

// scheduleName is the rule and the id of a schedule, and the part of the request that has the id.
type scheduleName struct{ rule, id, in string }

func (p SchedulePath) named() scheduleName { return scheduleName{string(p.Rule), string(p.ID), "path"} }

func (q ScheduleQuery) named() scheduleName {
	return scheduleName{string(q.Rule), string(q.ID), "query"}
}

// ScheduleRequest is the body of a request that creates or replaces a schedule.
type ScheduleRequest struct {
	Schedule string          `json:"schedule" minLength:"1" doc:"Crontab of five fields, a macro such as @daily, @every with a duration, or @at with a time. The id determines the values of ? in a crontab, and when @every begins." example:"30 8 * * MON-FRI"`
	Zone     string          `json:"zone,omitempty" doc:"Time zone of the crontab. Default: UTC." example:"Europe/Berlin"`
	Data     json.RawMessage `json:"data,omitempty" doc:"Body of the events, as JSON of up to 8 KiB. Default: that of the rule."`
	Enabled  *bool           `json:"enabled,omitempty" doc:"Whether the schedule ticks. Default: true."`
}

// scheduleAPI has the operations on stored schedules.
type scheduleAPI struct {
	lists   ScheduleReader
	rules   RuleVersions
	actions ScheduleActions
	turns   *semaphore[tokenRef]
}

// register registers the operations on stored schedules.
func (a *scheduleAPI) register(all *operations) {
	a.registerBulk(all)
	register(all, operation{
		ID: "list-schedules", Tag: tagSchedules, Method: "GET", Path: "/schedules", Summary: "list the stored schedules of a rule, by id",
		Scope: access.Read, Reach: reachBody, Errors: []int{http.StatusNotFound},
	}, withBody(a.list))
	inPath, inQuery := operation{
		ID: "get-schedule", Tag: tagSchedules, Method: "GET", Summary: "get a stored schedule, with its next five ticks", Scope: access.Read,
	}.inTwoForms(scheduleBase, "id", "")
	register(all, inPath, withBody(func(ctx context.Context, in *SchedulePath) (Schedule, error) { return a.get(ctx, in.named()) }))
	register(all, inQuery, withBody(func(ctx context.Context, in *ScheduleQuery) (Schedule, error) { return a.get(ctx, in.named()) }))
	a.registerPut(all)
	inPath, inQuery = operation{
		ID: "delete-schedule", Tag: tagSchedules, Method: "DELETE", Summary: "delete a stored schedule", Scope: access.Rules,
		Description: "After the response, no tick of the schedule emits an event. A schedule of a rule that has another trigger now can be deleted, too.",
	}.inTwoForms(scheduleBase, "id", "")
	register(all, inPath, noContent(func(ctx context.Context, in *SchedulePath) error { return a.delete(ctx, in.named()) }))
	register(all, inQuery, noContent(func(ctx context.Context, in *ScheduleQuery) error { return a.delete(ctx, in.named()) }))
	(&scheduleTickAPI{a.lists, a.rules}).register(all)
}

// scheduleBase is the path of the schedules of a rule.
const scheduleBase = "/schedules/{rule}"

// scheduleListIn selects a page of the schedules of a rule.
type scheduleListIn struct {
	Rule   identifier `query:"rule" required:"true" doc:"Name of the rule." example:"report-due"`
	Prefix identifier `query:"prefix" doc:"Filter by a prefix of the id." example:"customer-"`
	Paging
}

func (a *scheduleAPI) list(ctx context.Context, in *scheduleListIn) (Page[Schedule], error) {
	if err := principalOf(ctx).requireRule(access.Read, string(in.Rule)); err != nil {
		return Page[Schedule]{}, err
	}
	rule, err := a.rules.Get(ctx, string(in.Rule))
	if err != nil {
		return Page[Schedule]{}, err
	}
	p, err := a.lists.Schedules(ctx, futurejobs.ScheduleFilter{RuleID: rule.RuleID, Prefix: string(in.Prefix), Cursor: in.Cursor, Limit: in.Limit})
	if err != nil {
		return Page[Schedule]{}, err
	}
	isActive := a.actions.HasSchedules(string(in.Rule))
	return pageOf(p, func(s futurejobs.Schedule) Schedule { return newSchedule(rule, s, isActive) }), nil
}

func (a *scheduleAPI) get(ctx context.Context, of scheduleName) (Schedule, error) {
	rule, err := a.rules.Get(ctx, of.rule)
	if err != nil {
		return Schedule{}, err
	}
	stored, err := a.lists.Schedule(ctx, futurejobs.ScheduleRef{RuleID: rule.RuleID, ID: of.id})
	if err != nil {
		return Schedule{}, err
	}
	s := newSchedule(rule, stored, a.actions.HasSchedules(of.rule))
	if !s.Paused {
		s.Next = a.actions.NextTicks(of.rule, stored, shownTicks)
	}
	return s, nil
}

// scheduleOut is the response to a created or replaced schedule.
type scheduleOut struct {
	Status int
	Body   Schedule
}

func scheduleContent() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{jsonType: {Schema: &huma.Schema{Ref: schemaPath + "Schedule"}}}
}

func (a *scheduleAPI) registerPut(all *operations) {
	inPath, inQuery := operation{
		ID: "put-schedule", Tag: tagSchedules, Method: "PUT", Summary: "create or replace a stored schedule", Scope: access.Rules,
		Description: "201: the schedule was created. 200: it was replaced, or is unchanged. A change raises the version; after the response, no tick " +
			"of an earlier version emits an event. A schedule without a further tick, such as @at with a past time, is stored, and warnings says so. " +
			"503: the event of a tick may be in transit; retry.",
		Responses: map[string]*huma.Response{
			"200": {Description: "The schedule was replaced or is unchanged", Content: scheduleContent()},
			"201": {Description: "The schedule was created", Content: scheduleContent()},
		},
	}.inTwoForms(scheduleBase, "id", "")
	register(all, inPath, func(ctx context.Context, in *struct {
		SchedulePath
		Body ScheduleRequest
	},
	) (*scheduleOut, error) {
		return a.put(ctx, in.named(), in.Body)
	})
	register(all, inQuery, func(ctx context.Context, in *struct {
		ScheduleQuery
		Body ScheduleRequest
	},
	) (*scheduleOut, error) {
		return a.put(ctx, in.named(), in.Body)
	})
}

func (a *scheduleAPI) put(ctx context.Context, of scheduleName, body ScheduleRequest) (*scheduleOut, error) {
	change := ScheduleChange{Schedule: futurejobs.Schedule{
		Rule: of.rule, ID: of.id, Text: body.Schedule, Zone: body.Zone, Data: withoutNull(body.Data), Enabled: body.Enabled == nil || *body.Enabled,
	}}
	done, err := a.changeOne(ctx, of, change)
	if err != nil {
		return nil, err
	}
	out := &scheduleOut{Status: http.StatusOK}
	if done.Created > 0 {
		out.Status = http.StatusCreated
	}
	if out.Body, err = a.get(ctx, of); err == nil && len(done.Ended) > 0 {
		out.Body.Warnings = []string{"the schedule has no tick after now, so it emits no event; write a later time, or delete the schedule"}
	}
	return out, err
}

func (a *scheduleAPI) delete(ctx context.Context, of scheduleName) error {
	done, err := a.changeOne(ctx, of, ScheduleChange{Schedule: futurejobs.Schedule{Rule: of.rule, ID: of.id}, Deleted: true})
	if err == nil && done.Unknown > 0 {
		return notFoundFor("schedule " + of.id + " of rule " + of.rule)
	}
	return err
}

// changeOne changes one schedule.
func (a *scheduleAPI) changeOne(ctx context.Context, of scheduleName, change ScheduleChange) (ChangedSchedules, error) {
	done, err := a.actions.ChangeSchedules(ctx, []ScheduleChange{change})
	if err == nil && len(done.Refused) > 0 {
		err = done.Refused[0]
	}
	var wrong document.Problems
	if errors.As(err, &wrong) {
		err = scheduleInvalid(of, wrong)
	}
	return done, err
}

// scheduleInvalid returns the problem of a schedule that its rule refuses.
func scheduleInvalid(of scheduleName, wrong document.Problems) *Problem {
	p := bodyInvalid(wrong)
	for i, d := range p.Errors {
		switch d.Location {
		case "body.rule":
			p.Errors[i].Location = "path.rule"
		case "body.id":
			p.Errors[i].Location = of.in + ".id"
		}
	}
	return problemOfDetails(Invalid, http.StatusUnprocessableEntity, p.Errors)
}

// withoutNull returns JSON data, or nil for null.
func withoutNull(data json.RawMessage) json.RawMessage {
	if string(data) == "null" {
		return nil
	}
	return data
}
