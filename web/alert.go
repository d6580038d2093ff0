package web

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// Alert is an alert as the API returns it: the record of the stream, with its state of publication.
type Alert struct {
	SchemaVersion int `json:"schema_version"`
	AlertFields
	Published  bool       `json:"published" doc:"It is in the stream."`
	Withheld   bool       `json:"withheld,omitempty" doc:"It is not in the stream, since a quota had no room for it."`
	Deliveries []Delivery `json:"deliveries,omitempty" doc:"What became of it on each channel; of a single alert only."`

	Acknowledged *Acknowledged `json:"acknowledged,omitempty" doc:"Who acknowledged what its job said, while that holds; of a single alert, and in a list of open ones."`

	BodiesOmitted bool `json:"bodies_omitted,omitempty" doc:"In a list: event and state are left out, because the alert has more than 16 KiB; GET /alerts/{id} has them."`
}

// AlertFields has the fields of an alerts.Alert without its MarshalJSON, so that Alert can add fields.
type AlertFields alerts.Alert

// alertAPI has the operations that show alerts.
type alertAPI struct {
	lists interface {
		AlertReader
		JobReader
	}
	mutes  Mutes // nil: the node has no deliveries
	stream *alertStreamAPI
	now    func() time.Time
}

func (a *alertAPI) said(s futurejobs.ListedAlert) Alert {
	return Alert{
		SchemaVersion: alerts.SchemaVersion, AlertFields: AlertFields(s.Alert), Published: s.Published, Withheld: s.Withheld, Acknowledged: AcknowledgedAs(s.Ack, a.now()),
		BodiesOmitted: s.Omitted,
	}
}

// Said returns the alert without the fields of the API.
func (a Alert) Said() alerts.Alert { return alerts.Alert(a.AlertFields) }

// alertListIn has the filters of an alert list, and the backlog of a stream.
type alertListIn struct {
	ListFilter
	Status   string    `query:"status" enum:"firing,resolved,undetermined,gave_up,expired" doc:"What kind of news."`
	Severity string    `query:"severity" enum:"info,warning,error,critical" doc:"How much it matters."`
	Open     bool      `query:"open" doc:"What goes on: the newest alert of each pending job about which something was said, acknowledged or not, and of each outage."`
	After    time.Time `query:"decided_after" doc:"Then or later." example:"2026-01-31T15:04:05Z"`
	Before   time.Time `query:"decided_before" doc:"Before then." example:"2026-01-31T15:04:05Z"`
	Backlog  int       `query:"backlog" minimum:"0" maximum:"500" doc:"Of a stream only: how many of the newest alerts come first."`
	Paging
}

func (a *alertAPI) register(all *operations) {
	register(all, operation{
		ID: "list-alerts", Tag: tagAlerts, Method: "GET", Path: "/alerts", Does: "lists alerts, newest first; follows them with Accept: text/event-stream",
		Says: "As a stream of server-sent events, each alert is an event of the kind alert with the alert's id. " +
			"Of the parameters, a stream takes backlog and no other.",
		Scope: access.Read, Reach: reachFiltered, Middlewares: huma.Middlewares{a.stream.streamed},
		Responses: map[string]*huma.Response{"200": {Description: "A page of alerts, or a stream of them", Content: map[string]*huma.MediaType{
			jsonType: {}, streamType: {Schema: &huma.Schema{Type: huma.TypeString}},
		}}},
	}, a.list)
	register(all, operation{
		ID: "get-alert", Tag: tagAlerts, Method: "GET", Path: "/alerts/{id}", Does: "shows an alert",
		Scope: access.Read, Reach: reachBody, Errors: []int{http.StatusNotFound},
	}, withBody(a.get))
}

// alertListOut is a page that varies by the Accept header.
type alertListOut struct {
	Vary string `header:"Vary" hidden:"true"`
	Body Page[Alert]
}

func (a *alertAPI) list(ctx context.Context, in *alertListIn) (*alertListOut, error) {
	if in.Backlog != 0 {
		return nil, refused("query.backlog", "it is of a stream; send Accept: text/event-stream, or ask for a page with limit")
	}
	f := in.page(in.filter())
	f.Open, f.Status, f.Severity = in.Open, alerts.Status(in.Status), alerts.Severity(in.Severity)
	f.After, f.Before = in.After.UTC(), in.Before.UTC()
	page, err := a.alerts(ctx, f)
	return &alertListOut{Vary: "Accept", Body: page}, err
}

func (a *alertAPI) alerts(ctx context.Context, f futurejobs.Filter) (Page[Alert], error) {
	p, err := a.lists.Alerts(ctx, filterVisible(ctx, f))
	if err != nil {
		return Page[Alert]{}, err
	}
	return pageOf(p, a.said), nil
}

// AlertPath identifies an alert by its path.
type AlertPath struct {
	ID alerts.ID `path:"id" format:"uuid" doc:"The alert's id." example:"019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d"`
}

func (a *alertAPI) get(ctx context.Context, in *AlertPath) (Alert, error) {
	s, err := a.lists.Alert(ctx, in.ID)
	if err == nil && !principalOf(ctx).canSee(s.Rule) {
		err = notFoundFor("alert " + in.ID.String())
	}
	if err != nil {
		return Alert{}, err
	}
	out := a.said(s)
	if out.Deliveries, err = a.deliveries(ctx, s.Alert); err != nil {
		return Alert{}, err
	}
	out.Acknowledged, err = a.ackOf(ctx, s.Alert)
	return out, err
}

func (a *alertAPI) deliveries(ctx context.Context, said alerts.Alert) ([]Delivery, error) {
	if a.mutes == nil {
		return nil, nil
	}
	found, err := a.mutes.Deliveries(ctx, said)
	var out []Delivery
	for _, d := range found {
		out = append(out, Delivery{Channel: d.Channel, State: string(d.State), At: d.At, Tries: d.Tries, Error: d.Error, Mute: d.Mute})
	}
	return out, err
}

// ackOf returns the acknowledgement of the alert's job, if the job is pending and the acknowledgement holds.
func (a *alertAPI) ackOf(ctx context.Context, of alerts.Alert) (*Acknowledged, error) {
	page, err := a.lists.Jobs(ctx, futurejobs.Filter{Rule: of.Rule, Entity: of.Entity, Key: of.Key})
	if err != nil {
		return nil, err
	}
	for _, l := range page.Items {
		if slices.Contains(l.Alerts, of.ID) {
			return AcknowledgedAs(l.Ack, a.now()), nil
		}
	}
	return nil, nil
}
