package ui

import (
	"net/url"
	"strings"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// outagesAt is the address of the outages.
const outagesAt = "/health#outages"

// outageOf returns the failing source or handler of an outage alert, such as "handler shipping". It is empty for
// other alerts.
func outageOf(a web.Alert) string {
	if !futurejobs.IsOutage(a.Record()) {
		return ""
	}
	if kind, name, is := strings.Cut(a.Source, "/"); is {
		return kind + " " + name
	}
	return "source " + a.Source
}

// ofWait reports whether an alert belongs to a job. Such an alert has an entity and can be acknowledged while the job
// is pending.
func ofWait(a web.Alert) bool {
	return a.Key != "" && a.Rule != alerts.SystemRule && !futurejobs.IsOutage(a.Record())
}

// outage adds the story of the alert's outage: its opening alert, and its end or the fact that it is open.
func (v *alertView) outage(c client, of string) error {
	v.Story = []alertEntry{{At: v.Since, Kind: "waiting", Word: "opened", Text: of + " stopped answering"}, newAlertEntry(v.Alert, v.ID)}
	for _, id := range v.Closes {
		var opening web.Alert
		if is, err := exists(c.get(alertAt(id.String()), nil, &opening)); err != nil {
			return err
		} else if is { // otherwise its retention has ended
			v.Story = append(v.Story, newAlertEntry(opening, v.ID))
		}
	}
	var all web.Page[web.Outage]
	if is, err := exists(c.get("/outages", url.Values{"rule": {v.Rule}, "limit": {"500"}}, &all)); !is {
		return err // nil: the visitor may not read outages
	}
	for _, o := range all.Items {
		switch {
		case o.Source != v.Source || !o.OpenedAt.Equal(v.Since):
		case o.ClosedAt.IsZero():
			v.Outage = &o
		case len(v.Closes) == 0:
			v.Story = append(v.Story, alertEntry{At: o.ClosedAt, Kind: "resolved", Word: "closed", Text: of + " answered again"})
		}
	}
	return nil
}
