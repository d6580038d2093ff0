package ui

import (
	"net/url"
	"strings"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// outagesAt is where outages are listed.
const outagesAt = "/health#outages"

// outageOf is what could not be asked, such as "handler shipping", where an alert is about an outage;
// empty: it is not.
func outageOf(a web.Alert) string {
	if !futurejobs.IsOutage(a.Said()) {
		return ""
	}
	if kind, name, is := strings.Cut(a.Source, "/"); is {
		return kind + " " + name
	}
	return "source " + a.Source
}

// ofWait reports whether an alert is about a wait: there is an entity that it is of, and it can be
// acknowledged while the wait goes on.
func ofWait(a web.Alert) bool {
	return a.Key != "" && a.Rule != alerts.SystemRule && !futurejobs.IsOutage(a.Said())
}

// outage adds what became of the outage that the alert is about: what opened it, and how it ended or
// that it goes on.
func (v *alertView) outage(c client, of string) error {
	v.Story = []alertEntry{{At: v.Since, Kind: "waiting", Word: "began", Text: of + " could not be asked any more"}, spoken(v.Alert, v.ID)}
	for _, id := range v.Closes {
		var opening web.Alert
		if is, err := exists(c.get(alertAt(id.String()), nil, &opening)); err != nil {
			return err
		} else if is { // else its retention is over
			v.Story = append(v.Story, spoken(opening, v.ID))
		}
	}
	var all web.Page[web.Outage]
	if is, err := exists(c.get("/outages", url.Values{"rule": {v.Rule}, "limit": {"500"}}, &all)); !is {
		return err // nil: outages are not for the visitor
	}
	for _, o := range all.Items {
		switch {
		case o.Source != v.Source || !o.OpenedAt.Equal(v.Since):
		case o.ClosedAt.IsZero():
			v.Outage = &o
		case len(v.Closes) == 0:
			v.Story = append(v.Story, alertEntry{At: o.ClosedAt, Kind: "resolved", Word: "over", Text: of + " could be asked again"})
		}
	}
	return nil
}
