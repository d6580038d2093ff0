package ui

import (
	"net/http"
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
	Alerts     []web.Alert
	Severities []string
	Statuses   []string
	Spans      []span
	Within     string // the selected span
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
	for _, s := range spans {
		if s.Text == v.Within && query.Get("decided_after") == "" {
			query.Set("decided_after", u.Now().Add(-s.width).UTC().Format(time.RFC3339))
		}
	}
	var page web.Page[web.Alert]
	if err := c.get(alertsAt, query, &page); err != nil {
		return view{}, err
	}
	v.Alerts = page.Items
	v.goesOn(page.Next)
	err = v.findRule(c, len(page.Items))
	return view{Title: "All alerts", Body: v}, err
}
