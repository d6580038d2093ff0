package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// Mutes stores mutes. The store implements it. Implementations are safe for concurrent use.
type Mutes interface {
	// Mutes returns all stored mutes, newest first.
	Mutes(ctx context.Context) ([]alerts.Mute, error)
	// CreateMute stores a mute.
	CreateMute(ctx context.Context, m alerts.Mute) (alerts.Mute, error)
	// EndMute ends a mute early, or before its start; an unknown or ended mute is futurejobs.ErrNotFound.
	EndMute(ctx context.Context, id int64) error
	// Deliveries returns the deliveries of an alert on all channels.
	Deliveries(ctx context.Context, a alerts.Alert) ([]alerts.Delivery, error)
}

// Mute is a mute as the API returns it.
type Mute struct {
	ID        int64             `json:"id" doc:"ID of the mute."`
	Match     map[string]string `json:"match" doc:"Pattern for each alert field or label; * matches any text. An alert is muted if all patterns match."`
	Reason    string            `json:"reason" doc:"Reason of the mute." example:"the belt is being mended"`
	State     string            `json:"state" enum:"pending,active,ended" doc:"pending: it begins later. active: it is in effect. ended: its end has come, or an actor ended it."`
	Active    bool              `json:"active" doc:"Whether the mute is in effect."`
	CreatedAt time.Time         `json:"created_at" doc:"Time of creation."`
	CreatedBy string            `json:"created_by" doc:"Actor who created the mute."`
	StartsAt  time.Time         `json:"starts_at" doc:"Start of the mute: created_at, or a later time."`
	EndsAt    time.Time         `json:"ends_at" doc:"End of the mute."`
	EndedBy   string            `json:"ended_by,omitempty" doc:"Actor who ended the mute early."`
	Reach     *MuteReach        `json:"reach,omitempty" doc:"Effect of the mute at its creation. Absent in lists."`
}

// muteAPI has the operations on mutes.
type muteAPI struct {
	mutes Mutes // nil: the node has none
	count *muteCounter
	now   func() time.Time
}

func (a *muteAPI) mute(m alerts.Mute) Mute {
	state := m.State(a.now())
	return Mute{
		ID: m.ID, Match: m.Match, Reason: m.Reason, State: string(state), Active: state == alerts.MuteActive, CreatedAt: m.CreatedAt,
		CreatedBy: m.CreatedBy, StartsAt: cmp.Or(m.StartsAt, m.CreatedAt), EndsAt: m.EndsAt, EndedBy: m.EndedBy,
	}
}

// MuteMatch is the body of a request for the reach of a mute.
type MuteMatch struct {
	Match map[string]string `json:"match" doc:"Pattern for each alert field (rule, entity, key, severity, status, step) or label, as of a mute."`
}

// MuteRequest is the body of a request that creates a mute.
type MuteRequest struct {
	Match  map[string]string `json:"match" doc:"Pattern for each alert field (rule, entity, key, severity, status, step) or label; * matches any text. An alert is muted if all patterns match."`
	Reason string            `json:"reason" minLength:"1" maxLength:"500" doc:"Reason of the mute." example:"the belt is being mended"`
	Starts time.Time         `json:"starts_at,omitzero" doc:"Start of the mute, for planned maintenance. Without it the mute begins now." example:"2026-01-31T13:00:00Z"`
	Until  time.Time         `json:"until,omitzero" doc:"End of the mute. Alternative to for." example:"2026-01-31T15:04:05Z"`
	For    string            `json:"for,omitempty" doc:"Duration of the mute from its start, such as 2h. Alternative to until." example:"2h"`
}

// muteMost is the longest duration of a mute, since an unlimited mute would be forgotten.
const muteMost = 366 * 24 * time.Hour

func (a *muteAPI) register(all *operations) {
	register(all, operation{
		ID: "list-mutes", Tag: tagPeople, Method: "GET", Path: "/mutes", Summary: "list mutes, newest first, including those that begin later and ended ones",
		Scope: access.Read, Reach: reachAll,
	}, withBody(a.list))
	register(all, operation{
		ID: "create-mute", Tag: tagPeople, Method: "POST", Path: "/mutes", Summary: "create a mute",
		Description: "Suppresses notifications of matching alerts, from now or from starts_at on. The alerts are still published and listed. Alerts that were sent before the mute " +
			"are still resolved on their channels.",
		Scope: access.OnCall, Reach: reachAll, Status: http.StatusCreated, IdempotencyKey: true,
	}, withBody(a.create))
	register(all, operation{
		ID: "preview-mute", Tag: tagPeople, Method: "POST", Path: "/mutes/preview", Summary: "count the open alerts and rules that a mute would match",
		Scope: access.Read, Reach: reachAll, Status: http.StatusOK,
	}, withBody(a.preview))
	register(all, operation{
		ID: "end-mute", Tag: tagPeople, Method: "DELETE", Path: "/mutes/{id}", Summary: "end a mute early, or before its start",
		Description: "Notifications that were suppressed are not sent later.",
		Scope:       access.OnCall, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, noContent(a.end))
}

// muteListIn selects a page of the mutes.
type muteListIn struct {
	Active bool       `query:"active" doc:"Only mutes in effect."`
	Limit  int        `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Maximum number of items on the page."`
	Cursor identifier `query:"cursor" doc:"Value of next on the previous page. Omit it for the first page."`
}

func (a *muteAPI) list(ctx context.Context, in *muteListIn) (Page[Mute], error) {
	if a.mutes == nil {
		return Page[Mute]{Items: []Mute{}}, nil
	}
	all, err := a.mutes.Mutes(ctx)
	if err != nil {
		return Page[Mute]{}, err
	}
	if in.Active {
		all = slices.DeleteFunc(all, func(m alerts.Mute) bool { return m.State(a.now()) != alerts.MuteActive })
	}
	if in.Cursor != "" {
		before, err := strconv.ParseInt(string(in.Cursor), 10, 64)
		if err != nil {
			return Page[Mute]{}, futurejobs.ErrBadCursor
		}
		all = slices.DeleteFunc(all, func(m alerts.Mute) bool { return m.ID >= before })
	}
	return pageFrom(all, in.Limit, a.mute, func(m alerts.Mute) string { return strconv.FormatInt(m.ID, 10) }), nil
}

func (a *muteAPI) preview(ctx context.Context, in *struct{ Body MuteMatch }) (*MuteReach, error) {
	m := alerts.Match(in.Body.Match)
	if err := m.Check(); err != nil {
		return nil, refused("body.match", "%v", err)
	}
	return a.count.reach(ctx, m)
}

func (a *muteAPI) create(ctx context.Context, in *struct{ Body MuteRequest }) (Mute, error) {
	if a.mutes == nil {
		return Mute{}, noChannels()
	}
	m := alerts.Mute{Match: in.Body.Match, Reason: in.Body.Reason}
	if err := m.Match.Check(); err != nil {
		return Mute{}, refused("body.match", "%v", err)
	}
	if err := setSpan(&m, in.Body, a.now()); err != nil {
		return Mute{}, err
	}
	reach, err := a.count.reach(ctx, m.Match)
	if err != nil {
		return Mute{}, err
	}
	if m, err = a.mutes.CreateMute(ctx, m); err != nil {
		return Mute{}, err
	}
	made := a.mute(m)
	made.Reach = reach
	return made, nil
}

// setSpan sets the start and the end of a mute.
func setSpan(m *alerts.Mute, r MuteRequest, now time.Time) error {
	starts := now
	if !r.Starts.IsZero() {
		starts, m.StartsAt = r.Starts, r.Starts.UTC()
	}
	switch {
	case starts.Before(now):
		return refused("body.starts_at", "%s is in the past; give a later time, or leave it out for a mute from now on", m.StartsAt.Format(time.RFC3339))
	case starts.Sub(now) > muteMost:
		return refused("body.starts_at", "%s is not within a year from now; create the mute later", m.StartsAt.Format(time.RFC3339))
	}
	until, err := untilOf(r.Until, r.For, starts)
	if err != nil {
		return err
	}
	m.EndsAt = until.UTC()
	switch {
	case until.IsZero():
		return noEnd()
	case !m.StartsAt.IsZero() && !m.EndsAt.After(m.StartsAt):
		return refused("body.until", "%s is not after the start of the mute, %s; give a later end, or a duration from the start as for",
			m.EndsAt.Format(time.RFC3339), m.StartsAt.Format(time.RFC3339))
	case !m.EndsAt.After(now):
		return refused("body.until", "%s is in the past; it is %s", m.EndsAt.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case m.EndsAt.Sub(now) > muteMost:
		return refused("body.until", "%s is not within a year from now; for a longer time, change the rule or the routes", m.EndsAt.Format(time.RFC3339))
	}
	return nil
}

func (a *muteAPI) end(ctx context.Context, in *struct {
	ID int64 `path:"id" minimum:"1" doc:"Mute ID." example:"7"`
},
) error {
	if a.mutes == nil {
		return noChannels()
	}
	return a.mutes.EndMute(ctx, in.ID)
}
