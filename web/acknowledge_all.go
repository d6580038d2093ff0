package web

import (
	"context"
	"net/http"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// OpenAlertMatch selects open alerts in the body of a request. Alerts match all of its fields.
type OpenAlertMatch struct {
	Rule     identifier `json:"rule,omitempty" doc:"Only alerts of this rule." example:"order-unshipped"`
	Entity   identifier `json:"entity,omitempty" doc:"Only alerts of this entity type." example:"order"`
	Key      identifier `json:"key,omitempty" doc:"Only alerts of this key." example:"1234"`
	Severity string     `json:"severity,omitempty" enum:"info,warning,error,critical" doc:"Only alerts of this severity."`
	Status   string     `json:"status,omitempty" enum:"firing,resolved,undetermined,gave_up,expired" doc:"Only alerts with this status."`
	Label    identifier `json:"label,omitempty" doc:"Only alerts with this label, as NAME=VALUE. Without a value: alerts without the label." example:"team=fulfilment"`
	All      bool       `json:"all,omitempty" doc:"All open alerts. Required if no other field selects alerts."`
}

// filter returns the filter of the unacknowledged open alerts that match. The error is for the client.
func (m OpenAlertMatch) filter() (futurejobs.Filter, error) {
	no := false
	f := futurejobs.Filter{
		Rule: string(m.Rule), Entity: string(m.Entity), Key: string(m.Key), Severity: alerts.Severity(m.Severity), Status: alerts.Status(m.Status),
		Open: true, Acknowledged: &no,
	}
	var err error
	if f.Label, f.LabelValue, err = splitLabel("body.match.label", m.Label); err != nil {
		return f, err
	}
	selects := f.Rule != "" || f.Entity != "" || f.Key != "" || f.Severity != "" || f.Status != "" || f.Label != ""
	switch {
	case !selects && !m.All:
		return f, refused("body.match", "it selects no alerts; set rule, entity, key, severity, status or label, or all to select every open alert")
	case selects && m.All:
		return f, refused("body.match.all", "it cannot be combined with other fields; leave it out")
	}
	return f, nil
}

// AckAllRequest is the body of a request that acknowledges alerts by their fields.
type AckAllRequest struct {
	AckRequest
	Match   OpenAlertMatch `json:"match" doc:"The alerts to acknowledge."`
	Through alerts.ID      `json:"through,omitzero" format:"uuid" doc:"Only alerts up to this ID, in order of time: those that the sender has seen."`
}

// AckAllResult is the result of acknowledging alerts by their fields.
type AckAllResult struct {
	Acknowledged int64 `json:"acknowledged" doc:"Number of alerts that this request acknowledged."`
	Before       int64 `json:"acknowledged_before" doc:"Number of matching alerts that were acknowledged before. They are not changed."`
	Ended        int64 `json:"ended" doc:"Number of alerts whose jobs ended or changed meanwhile. They are not acknowledged."`
	Outages      int64 `json:"outages" doc:"Number of matching alerts that are about outages. They are not acknowledged: they close when the outage ends."`
	Losses       int64 `json:"losses" doc:"Number of matching alerts about lost data. They are not acknowledged: close them."`
	Remaining    int64 `json:"remaining" doc:"Number of matching alerts that the request did not reach in its time. Repeat it."`
}

func (a *acknowledgeAPI) registerAll(all *operations) {
	register(all, operation{
		ID: "acknowledge-alerts", Tag: tagAlerts, Method: "POST", Path: "/alerts/ack", Summary: "acknowledge all open alerts that match",
		Description: "Acknowledges the unacknowledged open alerts that match, whatever their number. Alerts are acknowledged in batches; what a " +
			"failed request acknowledged stays acknowledged.",
		Scope: access.OnCall, Reach: reachFiltered, Status: http.StatusOK,
	}, withBody(a.acknowledgeAll))
	register(all, operation{
		ID: "unacknowledge-alerts", Tag: tagAlerts, Method: "POST", Path: "/alerts/unack", Summary: "remove the acknowledgements of all open alerts that match",
		Description: "Removes the acknowledgements of the open alerts that match, whatever their number, in batches. The highest step of each job that " +
			"came due meanwhile is raised.",
		Scope: access.OnCall, Reach: reachFiltered, Status: http.StatusOK,
	}, withBody(a.unacknowledgeAll))
}

func (a *acknowledgeAPI) acknowledgeAll(ctx context.Context, in *struct{ Body AckAllRequest }) (out AckAllResult, err error) {
	f, err := in.Body.Match.filter()
	if err != nil {
		return out, err
	}
	ack, err := in.Body.Ack(a.now())
	if err != nil {
		return out, err
	}
	f = filterVisible(ctx, f)
	f.Now, f.Through, f.Limit = a.now(), in.Body.Through, futurejobs.MaxLimit
	if out.Before, err = countAcknowledged(ctx, a.lists, f); err != nil {
		return out, err
	}
	next, err := eachPage(ctx, f, a.lists.Alerts, func(page []futurejobs.ListedAlert) error { return a.acknowledgePage(ctx, page, ack, &out) })
	if err == nil && next != "" {
		out.Remaining, err = countRemaining(ctx, a.lists, f)
	}
	return out, err
}

// UnackAllRequest is the body of a request that removes acknowledgements by the fields of alerts.
type UnackAllRequest struct {
	Match   OpenAlertMatch `json:"match" doc:"The alerts whose acknowledgements are removed."`
	Through alerts.ID      `json:"through,omitzero" format:"uuid" doc:"Only alerts up to this ID, in order of time: those that the sender has seen."`
}

// UnackAllResult is the result of removing acknowledgements by the fields of alerts.
type UnackAllResult struct {
	Unacknowledged int64 `json:"unacknowledged" doc:"Number of alerts whose acknowledgements this request removed."`
	Ended          int64 `json:"ended" doc:"Number of alerts whose jobs ended or changed meanwhile. Their acknowledgements are not removed."`
	Remaining      int64 `json:"remaining" doc:"Number of matching alerts that the request did not reach in its time. Repeat it."`
}

func (a *acknowledgeAPI) unacknowledgeAll(ctx context.Context, in *struct{ Body UnackAllRequest }) (out UnackAllResult, err error) {
	f, err := in.Body.Match.filter()
	if err != nil {
		return out, err
	}
	yes := true
	f = filterVisible(ctx, f)
	f.Now, f.Through, f.Limit, f.Acknowledged = a.now(), in.Body.Through, futurejobs.MaxLimit, &yes
	next, err := eachPage(ctx, f, a.lists.Alerts, func(page []futurejobs.ListedAlert) error {
		n, err := a.acks.UnacknowledgeAll(ctx, page)
		out.Unacknowledged += int64(n)
		if err == nil {
			out.Ended += int64(len(page) - n)
		}
		return err
	})
	if err == nil && next != "" {
		out.Remaining, err = countRemaining(ctx, a.lists, f)
	}
	return out, err
}

// acknowledgePage acknowledges the alerts of a page, except those of outages and of lost data.
func (a *acknowledgeAPI) acknowledgePage(ctx context.Context, page []futurejobs.ListedAlert, ack futurejobs.Ack, out *AckAllResult) error {
	ofJobs, outages, losses := alertsOfJobs(page)
	out.Outages += outages
	out.Losses += losses
	n, err := a.acks.AcknowledgeAll(ctx, ofJobs, ack)
	out.Acknowledged += int64(n)
	if err == nil {
		out.Ended += int64(len(ofJobs) - n)
	}
	return err
}
