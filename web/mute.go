package web

import (
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
	// EndMute ends a mute early; an unknown or ended mute is futurejobs.ErrNotFound.
	EndMute(ctx context.Context, id int64) error
	// Deliveries returns the deliveries of an alert on all channels.
	Deliveries(ctx context.Context, a alerts.Alert) ([]alerts.Delivery, error)
}

// Mute is a mute as the API returns it.
type Mute struct {
	ID        int64             `json:"id"`
	Match     map[string]string `json:"match" doc:"A pattern for each field or label that an alert has to have; * is any text."`
	Reason    string            `json:"reason" example:"the belt is being mended"`
	Live      bool              `json:"live" doc:"It mutes now."`
	CreatedAt time.Time         `json:"created_at"`
	CreatedBy string            `json:"created_by"`
	EndsAt    time.Time         `json:"ends_at"`
	EndedBy   string            `json:"ended_by,omitempty" doc:"Who ended it before its time."`
}

// muteAPI has the operations on mutes.
type muteAPI struct {
	mutes Mutes // nil: the node has none
	now   func() time.Time
}

func (a *muteAPI) mute(m alerts.Mute) Mute {
	return Mute{
		ID: m.ID, Match: m.Match, Reason: m.Reason, Live: m.Live(a.now()), CreatedAt: m.CreatedAt, CreatedBy: m.CreatedBy,
		EndsAt: m.EndsAt, EndedBy: m.EndedBy,
	}
}

// MuteRequest is the body of a request that creates a mute.
type MuteRequest struct {
	Match  map[string]string `json:"match" doc:"A pattern for each field (rule, entity, key, severity, status, step) or label; * is any text."`
	Reason string            `json:"reason" minLength:"1" maxLength:"500" doc:"Why; for those who wonder." example:"the belt is being mended"`
	Until  time.Time         `json:"until,omitzero" doc:"When it ends; this or for." example:"2026-01-31T15:04:05Z"`
	For    string            `json:"for,omitempty" doc:"A span from now; this or until." example:"2h"`
}

// muteMost is the longest duration of a mute, since an unlimited mute would be forgotten.
const muteMost = 366 * 24 * time.Hour

func (a *muteAPI) register(all *operations) {
	register(all, operation{
		ID: "list-mutes", Tag: tagPeople, Method: "GET", Path: "/mutes", Does: "lists mutes, newest first, also those that ended",
		Scope: access.Read, Reach: reachAll,
	}, withBody(a.list))
	register(all, operation{
		ID: "create-mute", Tag: tagPeople, Method: "POST", Path: "/mutes", Does: "keeps alerts from people for a while",
		Says:  "What matches is in the stream and in the lists all the same. What was told already is closed when it is over.",
		Scope: access.OnCall, Reach: reachAll, Status: http.StatusCreated, Once: true,
	}, withBody(a.create))
	register(all, operation{
		ID: "end-mute", Tag: tagPeople, Method: "DELETE", Path: "/mutes/{id}", Does: "ends a mute before its time",
		Says:  "What it muted is not told afterwards.",
		Scope: access.OnCall, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, noContent(a.end))
}

// muteListIn selects a page of the mutes.
type muteListIn struct {
	Limit  int        `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"How many items the page has at most."`
	Cursor identifier `query:"cursor" doc:"Where the page before ended: its next. Leave it out for the first page."`
}

func (a *muteAPI) list(ctx context.Context, in *muteListIn) (Page[Mute], error) {
	page := Page[Mute]{Items: []Mute{}}
	if a.mutes == nil {
		return page, nil
	}
	all, err := a.mutes.Mutes(ctx)
	if err != nil {
		return page, err
	}
	if in.Cursor != "" {
		before, err := strconv.ParseInt(string(in.Cursor), 10, 64)
		if err != nil {
			return page, futurejobs.ErrBadCursor
		}
		all = slices.DeleteFunc(all, func(m alerts.Mute) bool { return m.ID >= before })
	}
	for _, m := range all[:min(in.Limit, len(all))] {
		page.Items = append(page.Items, a.mute(m))
	}
	if n := len(page.Items); n < len(all) {
		page.Next = strconv.FormatInt(page.Items[n-1].ID, 10)
	}
	return page, nil
}

func (a *muteAPI) create(ctx context.Context, in *struct{ Body MuteRequest }) (Mute, error) {
	if a.mutes == nil {
		return Mute{}, noChannels()
	}
	m := alerts.Mute{Match: in.Body.Match, Reason: in.Body.Reason}
	if err := m.Match.Check(); err != nil {
		return Mute{}, refused("body.match", "%v", err)
	}
	now := a.now()
	until, err := untilOf(in.Body.Until, in.Body.For, now)
	if err != nil {
		return Mute{}, err
	}
	if until.IsZero() {
		return Mute{}, noEnd()
	}
	m.EndsAt = until.UTC()
	if !m.EndsAt.After(now) || m.EndsAt.Sub(now) > muteMost {
		return Mute{}, refused("body.until", "%s is not within a year from now; what is to be silent for longer is a matter of the rule or the routes", m.EndsAt.Format(time.RFC3339))
	}
	if m, err = a.mutes.CreateMute(ctx, m); err != nil {
		return Mute{}, err
	}
	return a.mute(m), nil
}

func (a *muteAPI) end(ctx context.Context, in *struct {
	ID int64 `path:"id" minimum:"1" doc:"The mute's id." example:"7"`
},
) error {
	if a.mutes == nil {
		return noChannels()
	}
	return a.mutes.EndMute(ctx, in.ID)
}
