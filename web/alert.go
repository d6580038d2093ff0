package web

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// Alert is an alert as the API returns it: the record of the stream, with its state of publication.
type Alert struct {
	SchemaVersion int `json:"schema_version" doc:"Version of the alert document format."`
	AlertFields
	Published  bool       `json:"published" doc:"Whether the alert is in the alerts stream."`
	Withheld   bool       `json:"withheld,omitempty" doc:"Whether the alert was not published because a quota was used up."`
	Deliveries []Delivery `json:"deliveries,omitempty" doc:"State of the notification on each channel. Returned for single alerts only."`

	Acknowledged *Acknowledged `json:"acknowledged,omitempty" doc:"Current acknowledgement of the alert's job. Returned for single alerts and in lists of open alerts."`
	SnoozedUntil time.Time     `json:"snoozed_until,omitzero" doc:"End of the snooze of the alert's job. Absent if the job is not snoozed, or if its next check is later anyway. Returned for single alerts and in lists of open alerts."`

	Ended *AlertEnd `json:"ended,omitempty" doc:"End of the alert. Absent while the alert's job is pending, and for alerts that resolve others. Returned for single alerts, and in lists with ended=true."`

	BodiesOmitted bool `json:"bodies_omitted,omitempty" doc:"Whether event and state are left out of this list because the alert exceeds 16 KiB. GET /alerts/{id} returns them."`
}

// AlertFields has the fields of an alerts.Alert without its MarshalJSON, so that Alert can add fields.
type AlertFields alerts.Alert

// describeAlerts adds the descriptions of alert documents to their schemas.
func describeAlerts(schemas huma.Registry) {
	for _, name := range []string{"Alert", "Draft"} {
		for field, s := range schemas.Map()[name].Properties {
			if s.Description == "" {
				s.Description = alerts.FieldDocs[field]
			}
		}
	}
}

// alertAPI has the operations that show alerts.
type alertAPI struct {
	lists interface {
		AlertReader
		JobReader
		HistoryReader
	}
	view   *jobView
	mutes  Mutes // nil: the node has no deliveries
	stream *alertStreamAPI
}

func (a *alertAPI) convert(s futurejobs.ListedAlert) Alert {
	now := a.view.now()
	return Alert{
		SchemaVersion: alerts.SchemaVersion, AlertFields: AlertFields(s.Alert), Published: s.Published, Withheld: s.Withheld,
		Acknowledged: AcknowledgedAs(s.Ack, now), SnoozedUntil: a.view.snoozeOf(s.Rule, s.SnoozedUntil, s.NextCheckAt, now),
		BodiesOmitted: s.Omitted,
	}
}

// Record returns the alert without the fields of the API.
func (a Alert) Record() alerts.Alert { return alerts.Alert(a.AlertFields) }

// alertListIn has the filters of an alert list, and the backlog of a stream.
type alertListIn struct {
	OpenAlertFilter
	Open         bool   `query:"open" doc:"Only open alerts: the newest alert of each pending job that has raised one, acknowledged or not, of each ongoing outage, and each alert about lost data that no actor has closed. Required with acknowledged, label and through."`
	Acknowledged string `query:"acknowledged" enum:"true,false" doc:"true: only alerts of acknowledged jobs. false: only others."`

	Ended   bool      `query:"ended" doc:"Return the end of each alert that is not open: how and when its job, outage or condition ended. Not with open, and with a limit of at most 100."`
	PartID  string    `query:"id" doc:"Only alerts whose ID begins or ends with this text: at least 4 hexadecimal digits. Not with open." example:"6c8e0b1d"`
	After   time.Time `query:"decided_after" doc:"Only alerts raised at or after this time." example:"2026-01-31T15:04:05Z"`
	Before  time.Time `query:"decided_before" doc:"Only alerts raised before this time." example:"2026-01-31T15:04:05Z"`
	Backlog int       `query:"backlog" minimum:"0" maximum:"500" doc:"Streams only: number of past alerts to send first, newest ones."`
	Paging
}

// PingOutput returns the last line that a failed ping sent along, shortened. It is empty if the alert is about something else,
// and if its text has the line, as default texts do. The line is untrusted text.
func (a Alert) PingOutput() string {
	var ping struct{ Source, Kind, Body string }
	if a.Status != alerts.Firing || json.Unmarshal(a.State, &ping) != nil || ping.Source != "ping" || ping.Kind != string(rules.Failure) {
		return ""
	}
	line := rules.LastLine(ping.Body)
	if strings.Contains(a.Text, line) {
		return ""
	}
	return line
}

func (a *alertAPI) register(all *operations) {
	register(all, operation{
		ID: "list-alerts", Tag: tagAlerts, Method: "GET", Path: "/alerts", Summary: "list alerts, newest first, or stream them as server-sent events",
		Description: "With Accept: text/event-stream, the response is a stream. Each alert is an event of type alert, with the alert ID as its ID. A " +
			"stream accepts the parameter backlog only.",
		Scope: access.Read, Reach: reachFiltered, Middlewares: huma.Middlewares{a.stream.streamed},
		Responses: map[string]*huma.Response{"200": {Description: "A page of alerts, or a stream of them", Content: map[string]*huma.MediaType{
			jsonType: {}, streamType: {Schema: &huma.Schema{Type: huma.TypeString}},
		}}},
	}, a.list)
	register(all, operation{
		ID: "get-alert", Tag: tagAlerts, Method: "GET", Path: "/alerts/{id}", Summary: "get an alert",
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
		return nil, refused("query.backlog", "it applies to streams only; send Accept: text/event-stream, or use limit for a page")
	}
	f, err := in.OpenAlertFilter.filter()
	if err != nil {
		return nil, err
	}
	if !in.Open && (in.Acknowledged != "" || in.Label != "" || in.Through != alerts.ID{}) {
		return nil, refused("query.open", "acknowledged, label and through select open alerts only; add open=true")
	}
	switch {
	case in.PartID == "":
	case in.Open:
		return nil, refused("query.id", "it selects among all alerts; leave open out")
	case !alerts.IsPartialID(in.PartID):
		return nil, refused("query.id", "%q is no part of an id; give at least %d hexadecimal digits of its beginning or its end", clipped(in.PartID, 40), alerts.MinPartialID)
	}
	if in.Ended && (in.Open || in.Limit > maxEnds) {
		return nil, refused("query.ended", "it needs a page of all alerts with at most %d of them; leave open out, and set limit", maxEnds)
	}
	f.PartID = in.PartID
	if in.Acknowledged != "" {
		is := in.Acknowledged == "true"
		f.Acknowledged, f.Now = &is, a.view.now()
	}
	f, f.Open = in.page(f), in.Open
	f.After, f.Before = in.After.UTC(), in.Before.UTC()
	page, err := a.alerts(ctx, f)
	if err == nil && in.Ended {
		err = a.addEnds(ctx, page.Items)
	}
	return &alertListOut{Vary: "Accept", Body: page}, err
}

func (a *alertAPI) alerts(ctx context.Context, f futurejobs.Filter) (Page[Alert], error) {
	p, err := a.lists.Alerts(ctx, filterVisible(ctx, f))
	if err != nil {
		return Page[Alert]{}, err
	}
	return pageOf(p, a.convert), nil
}

// AlertPath identifies an alert by its path.
type AlertPath struct {
	ID alerts.ID `path:"id" format:"uuid" doc:"Alert ID." example:"019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d"`
}

func (a *alertAPI) get(ctx context.Context, in *AlertPath) (Alert, error) {
	s, err := a.lists.Alert(ctx, in.ID)
	if err == nil && !principalOf(ctx).canSee(s.Rule) {
		err = notFoundFor("alert " + in.ID.String())
	}
	if err != nil {
		return Alert{}, err
	}
	pending, err := a.addJob(ctx, &s)
	if err != nil {
		return Alert{}, err
	}
	out := a.convert(s)
	if !pending {
		if out.Ended, err = a.endOf(ctx, s.Alert); err != nil {
			return Alert{}, err
		}
	}
	out.Deliveries, err = a.deliveries(ctx, s.Alert)
	return out, err
}

func (a *alertAPI) deliveries(ctx context.Context, alert alerts.Alert) ([]Delivery, error) {
	if a.mutes == nil {
		return nil, nil
	}
	found, err := a.mutes.Deliveries(ctx, alert)
	var out []Delivery
	for _, d := range found {
		out = append(out, Delivery{Channel: d.Channel, State: string(d.State), At: d.At, Attempts: d.Tries, Error: d.Error, Mute: d.Mute})
	}
	return out, err
}

// addJob adds the acknowledgement and the next check of the alert's job, and reports whether the job is pending.
func (a *alertAPI) addJob(ctx context.Context, of *futurejobs.ListedAlert) (pending bool, err error) {
	page, err := a.lists.Jobs(ctx, futurejobs.Filter{Rule: of.Rule, Entity: of.Entity, Key: of.Key})
	if err != nil {
		return false, err
	}
	for _, l := range page.Items {
		if slices.Contains(l.Alerts, of.ID) {
			of.Ack, of.NextCheckAt, of.SnoozedUntil = l.Ack, l.NextCheckAt, l.SnoozedUntil
			pending = true
		}
	}
	return pending, nil
}
