package web

import (
	"net/url"
	"slices"
	"strconv"

	"deadman/alerts"
)

// readSystemAlerts is the number of system alerts that are read to find the open ones.
const readSystemAlerts = 500

// SystemAlerts selects the alerts that OpenSystemAlerts reads, for GET /alerts.
func SystemAlerts() url.Values {
	return url.Values{"rule": {alerts.SystemRule}, "limit": {strconv.Itoa(readSystemAlerts)}}
}

// OpenSystemAlerts returns the firing system alerts whose conditions have not ended, newest first. newest has the newest
// system alerts, in that order. Alerts about lost data are not among them: GET /alerts?open=true lists those.
func OpenSystemAlerts(newest []Alert) []Alert {
	closed := make(map[alerts.ID]bool)
	return slices.DeleteFunc(slices.Clone(newest), func(a Alert) bool {
		for _, id := range a.Closes {
			closed[id] = true
		}
		kind, found := alerts.SystemKindOf(a.Key, a.Step)
		return !found || a.Status != alerts.Firing || closed[a.ID] || !kind.IsOpenedByState()
	})
}

// RemedyOf returns the address of the section about causes and remedies of an alert of a node about itself, on each node. It is
// empty for alerts of other rules.
func RemedyOf(a Alert) string {
	kind, found := alerts.SystemKindOf(a.Key, a.Step)
	if !found || a.Rule != alerts.SystemRule {
		return ""
	}
	return kind.Page()
}
