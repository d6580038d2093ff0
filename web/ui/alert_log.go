package ui

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/web"
)

// alertLogAt is the path of the alert log.
const alertLogAt = "/alerts/all"

// alertLogView is the alert log, newest first.
type alertLogView struct {
	listing
	permissions
	Alerts     []loggedAlert
	Severities []string
	Statuses   []string
	Spans      []span
	Within     string // the selected span
}

// superseded is the state of an alert with a later one of the same job, its next step.
const superseded = "superseded"

// IsPast reports whether the alert is not the current one of a pending job.
func (a loggedAlert) IsPast() bool { return a.State == "over" || a.State == superseded }

// loggedAlert is an alert of the log.
type loggedAlert struct {
	web.Alert
	State string // open, acknowledged, superseded (a later alert of its job is the open one) or over; empty: it resolves others
}

// Instant returns the time of a filter; zero: it has none.
func (v alertLogView) Instant(filter string) time.Time {
	t, _ := time.Parse(time.RFC3339, v.Filter[filter]) // the API refuses another form
	return t
}

// mark sets the states of the alerts by the newest open alerts that match the filters. Alerts before those get none.
func (v *alertLogView) mark(c alertClient) error {
	if !slices.ContainsFunc(v.Alerts, func(a loggedAlert) bool { return a.Status != alerts.Resolved }) {
		return nil
	}
	query := make(url.Values)
	for _, name := range []string{"rule", "entity", "key"} {
		if value := v.Filter[name]; value != "" {
			query.Set(name, value)
		}
	}
	open, err := c.open(query, inboxRead)
	if err != nil {
		return err
	}
	var oldest time.Time
	if len(open) == inboxRead {
		oldest = open[len(open)-1].DecidedAt
	}
	for i := range v.Alerts {
		v.Alerts[i].State = stateAmong(v.Alerts[i].Alert, open, oldest)
	}
	return nil
}

// stateAmong returns the state of an alert by the open alerts that were raised after a time.
func stateAmong(a web.Alert, open []openAlert, after time.Time) string {
	for _, o := range open {
		switch {
		case o.ID == a.ID && o.Acknowledged != nil:
			return acknowledged
		case o.ID == a.ID:
			return "open"
		case o.Rule == a.Rule && o.Entity == a.Entity && o.Key == a.Key && o.Since.Equal(a.Since) && a.Status != alerts.Resolved:
			return superseded
		}
	}
	if a.Status == alerts.Resolved || a.Rule == alerts.SystemRule || !a.DecidedAt.After(after) {
		return "" // a condition of the node is not among the open alerts
	}
	return "over"
}

// span is a length of time that a list covers.
type span struct {
	Words string
	Text  string // its value in the address
	width time.Duration
}

// spans are the selectable spans.
var spans = []span{
	{"the last hour", "1h", time.Hour}, {"the last day", "24h", 24 * time.Hour}, {"the last week", "7d", 7 * 24 * time.Hour},
}

// alertLogFilter names the filters of the alert log.
var alertLogFilter = []string{"rule", "entity", "key", "severity", "status", "decided_after", "decided_before"}

func (u *UI) alertLog(c client, r *http.Request) (view, error) {
	v := alertLogView{
		listing:    listingOf(r, append([]string{"within"}, alertLogFilter...)...),
		Severities: severities,
		Statuses:   []string{string(alerts.Firing), string(alerts.Resolved), string(alerts.Undetermined), string(alerts.GaveUp), string(alerts.Expired)},
		Spans:      spans,
	}
	var err error
	if v.permissions, err = c.may(); err != nil {
		return view{}, err
	}
	v.Within = v.Filter["within"]
	query := v.query()
	query.Del("within")
	query.Set("ended", "true")
	for _, s := range spans {
		if s.Text == v.Within && query.Get("decided_after") == "" {
			query.Set("decided_after", u.Now().Add(-s.width).UTC().Format(time.RFC3339))
		}
	}
	var page web.Page[web.Alert]
	if err := c.get(alertsAt, query, &page); err != nil {
		return view{}, err
	}
	for _, a := range page.Items {
		v.Alerts = append(v.Alerts, loggedAlert{Alert: a})
	}
	if err := v.mark(alertClient{c}); err != nil {
		return view{}, err
	}
	v.goesOn(page.Next)
	err = v.findRule(c, len(page.Items))
	return view{Title: "All alerts", Body: v}, err
}
