package ui

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"deadman/alerts"
	"deadman/web"
)

// openAlert is an open alert in the inbox.
type openAlert struct {
	web.Alert
	Mute *web.Mute // mute that matches the alert; nil: none
}

// markMuted sets the mutes of alerts, and counts the muted ones.
func markMuted(all []openAlert, mutes []web.Mute) (muted int) {
	for i := range all {
		if m := slices.IndexFunc(mutes, func(m web.Mute) bool { return alerts.Match(m.Match).Matches(all[i].Record()) }); m >= 0 {
			all[i].Mute = &mutes[m]
			muted++
		}
	}
	return muted
}

// severities lists the severities of alerts, lowest first.
var severities = []string{string(alerts.Info), string(alerts.Warning), string(alerts.Error), string(alerts.Critical)}

// alertClient reads open alerts and live mutes.
type alertClient struct{ client }

// open reads a page of open alerts, newest first.
func (c alertClient) open(query url.Values, limit int, more ...string) ([]openAlert, error) {
	query = maps.Clone(query)
	query.Set("open", "true")
	query.Set("limit", strconv.Itoa(limit))
	for i := 0; i < len(more); i += 2 {
		query.Set(more[i], more[i+1])
	}
	var page web.Page[web.Alert]
	err := c.get(alertsAt, query, &page)
	open := make([]openAlert, len(page.Items))
	for i, a := range page.Items {
		open[i] = openAlert{Alert: a}
	}
	return open, err
}

// newestOpen returns the id of the newest open alert; zero: none.
func (c alertClient) newestOpen(query url.Values) (id alerts.ID, err error) {
	newest, err := c.open(query, 1)
	if len(newest) > 0 {
		id = newest[0].ID
	}
	return id, err
}

// groups counts the open alerts by the values of a field.
func (c alertClient) groups(by string, query url.Values) (groups web.AlertGroups, err error) {
	query = maps.Clone(query)
	query.Set("by", by)
	err = c.get(alertsAt+"/groups", query, &groups)
	return groups, err
}

// mostSevere reads unacknowledged alerts: those of the highest severity first, and newest first within a severity.
func (c alertClient) mostSevere(total web.OpenAlertCounts, query url.Values, limit int) (all []openAlert, err error) {
	for _, severity := range slices.Backward(severities) {
		if total.Severities[severity] == 0 || len(all) >= limit {
			continue
		}
		some, err := c.open(query, limit-len(all), "acknowledged", "false", "severity", severity)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// known reads acknowledged alerts: those of the highest severity first, and newest first within a severity.
func (c alertClient) known(total web.OpenAlertCounts, query url.Values) (all []openAlert, err error) {
	for _, severity := range slices.Backward(severities) {
		wanted := min(knownRows, total.Acknowledged) - int64(len(all))
		if only := query.Get("severity"); wanted <= 0 || only != "" && only != severity {
			continue
		}
		some, err := c.open(query, int(wanted), "acknowledged", "true", "severity", severity)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// mostSevereOf reads one alert of a row, one of the most severe.
func (c alertClient) mostSevereOf(l alertLine) ([]openAlert, error) {
	query := url.Values{"rule": {l.Of.Value}}
	if l.Known {
		return c.known(l.Of.OpenAlertCounts, query)
	}
	return c.mostSevere(l.Of.OpenAlertCounts, query, 1)
}

// liveMutes reads the active mutes. A visitor limited to some rules gets none.
func (c alertClient) liveMutes() ([]web.Mute, error) {
	var page web.Page[web.Mute]
	err := c.get(mutesAt, url.Values{"limit": {"500"}}, &page)
	if isForbidden(err) {
		return nil, nil
	}
	return slices.DeleteFunc(page.Items, func(m web.Mute) bool { return !m.Active }), err
}

// highestOf returns the highest severity of unacknowledged alerts; empty: there are none.
func highestOf(n web.OpenAlertCounts) string {
	for _, severity := range slices.Backward(severities) {
		if n.Severities[severity] > 0 {
			return severity
		}
	}
	return ""
}

// severitiesOf returns the numbers of unacknowledged alerts by severity, the highest first.
func severitiesOf(n web.OpenAlertCounts) string {
	var parts []string
	for _, severity := range slices.Backward(severities) {
		if n := n.Severities[severity]; n > 0 {
			parts = append(parts, number(n)+" "+severityNoun(severity, n))
		}
	}
	return strings.Join(parts, ", ")
}

// severityNoun returns a severity for a number of alerts: 4 critical, 2 warnings.
func severityNoun(severity string, n int64) string {
	if n != 1 && (severity == string(alerts.Warning) || severity == string(alerts.Error)) {
		return severity + "s"
	}
	return severity
}

// rank orders alerts by severity, then by status.
func rank(a web.Alert) int {
	states := []alerts.Status{alerts.Resolved, alerts.Firing, alerts.Undetermined, alerts.Expired, alerts.GaveUp}
	return slices.Index(severities, string(a.Severity))*len(states) + slices.Index(states, a.Status)
}

// Answerable reports whether the alert can be acknowledged: it must belong to a job.
func (a openAlert) Answerable() bool { return ofWait(a.Alert) }

// summaryOf counts open alerts; empty: there are none.
func summaryOf(n web.OpenAlertCounts) string {
	open := number(n.Unacknowledged+n.Acknowledged) + " open"
	switch {
	case n.Unacknowledged+n.Acknowledged == 0:
		return ""
	case n.Acknowledged == 0:
		return open + ": " + severitiesOf(n)
	case n.Unacknowledged == 0:
		return open + ": all acknowledged"
	}
	return open + ": " + severitiesOf(n) + ", " + number(n.Acknowledged) + " acknowledged"
}
