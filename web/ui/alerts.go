package ui

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/web"
)

// alertsAt is the path of the inbox.
const alertsAt = "/alerts"

// inboxView is the inbox: open alerts in groups, then the acknowledged ones.
type inboxView struct {
	listing
	permissions
	Severities []string
	Ways       []string // fields to group by
	By         string   // the selected field
	Open       int
	Groups     []group
	Known      []openAlert // acknowledged
	Unshown    int         // acknowledged alerts that are not shown
	More       bool        // older open alerts exist
	Seen       alerts.ID   // the newest alert shown
	Done       *bulkResult // result of the last action; nil: none
}

// openAlert is an open alert in the inbox.
type openAlert struct {
	web.Alert
	Mute *web.Mute // mute that matches the alert; nil: none
}

// group is a set of open alerts with the same value of a field.
type group struct {
	Name     string // the value; empty: the alerts lack the field
	Loudest  string // the highest severity, as a style
	Oldest   time.Time
	Alerts   []openAlert // the alerts shown
	Count    int
	At       string // the inbox narrowed to this group; empty: not possible
	MuteAt   string // address that mutes the group
	Muted    int    // number of muted alerts
	Answered bool   // some can be acknowledged
}

// Bounds of the inbox: open alerts that are read, rows shown of a group, and acknowledged alerts shown.
const (
	inboxMost = "500"
	groupRows = 15
	knownRows = 50
)

// inboxFilter names the filters of the inbox.
var inboxFilter = []string{"rule", "entity", "key", "severity"}

// alertPages serves the list of open alerts.
type alertPages struct{ *UI }

// alerts serves the inbox. It redirects links with a status or a time, as in notifications, to the alert log.
func (u alertPages) alerts() http.HandlerFunc {
	inbox := u.page("alerts", u.inbox)
	return func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.Query()
		for _, name := range []string{"status", "decided_after", "decided_before"} {
			if asked.Get(name) != "" {
				http.Redirect(w, r, alertLogAt+"?"+asked.Encode(), http.StatusSeeOther)
				return
			}
		}
		inbox(w, r)
	}
}

func (u alertPages) inbox(c client, r *http.Request) (view, error) {
	v := inboxView{
		listing: listingOf(r, append([]string{"by"}, inboxFilter...)...), Severities: severities,
		Done: flashOf(r.URL.Query(), "alert", acknowledged, takenBack),
	}
	v.By = cmp.Or(v.Asked["by"], "rule")
	var err error
	if v.permissions, err = c.may(); err != nil {
		return view{}, err
	}
	open, more, err := alertClient{c}.open(v.query())
	if err != nil {
		return view{}, err
	}
	v.More = more
	v.sort(open)
	return view{Title: "Alerts", Body: v}, nil
}

// severities lists the severities of alerts, lowest first.
var severities = []string{string(alerts.Info), string(alerts.Warning), string(alerts.Error), string(alerts.Critical)}

// alertClient reads open alerts and live mutes.
type alertClient struct{ client }

// open reads the open alerts, newest first, and marks the muted ones.
func (c alertClient) open(query url.Values) (open []openAlert, more bool, err error) {
	query.Del("by")
	query.Set("open", "true")
	query.Set("limit", inboxMost)
	var page web.Page[web.Alert]
	if err := c.get(alertsAt, query, &page); err != nil {
		return nil, false, err
	}
	mutes, err := c.liveMutes()
	if err != nil {
		return nil, false, err
	}
	for _, a := range page.Items {
		o := openAlert{Alert: a}
		if i := slices.IndexFunc(mutes, func(m web.Mute) bool { return alerts.Match(m.Match).Matches(a.Record()) }); i >= 0 {
			o.Mute = &mutes[i]
		}
		open = append(open, o)
	}
	return open, page.Next != "", nil
}

// liveMutes reads the active mutes. A visitor limited to some rules gets none.
func (c alertClient) liveMutes() ([]web.Mute, error) {
	var page web.Page[web.Mute]
	err := c.get(mutesAt, url.Values{"limit": {"500"}}, &page)
	if refused := asProblem(err); refused != nil && refused.Status == http.StatusForbidden {
		return nil, nil
	}
	return slices.DeleteFunc(page.Items, func(m web.Mute) bool { return !m.Active }), err
}

// sort puts open alerts into their groups and acknowledged ones into their own list. The most severe group comes
// first, and within it the most severe alert.
func (v *inboxView) sort(open []openAlert) {
	groups, labels := map[string]*group{}, map[string]bool{}
	for _, a := range open {
		if string(a.ID[:]) > string(v.Seen[:]) {
			v.Seen = a.ID
		}
		for name := range a.Labels {
			labels[name] = true
		}
		if a.Acknowledged != nil {
			v.Known = append(v.Known, a)
			continue
		}
		v.Open++
		name := a.Record().Field(v.By)
		if groups[name] == nil {
			groups[name] = &group{Name: name, At: v.at(name), MuteAt: muteOf(v.By, name)}
		}
		groups[name].add(a)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		v.Groups = append(v.Groups, groups[name].sorted())
	}
	slices.SortStableFunc(v.Groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(rank(b.Alerts[0].Alert), rank(a.Alerts[0].Alert)), cmp.Compare(b.Count, a.Count))
	})
	if n := len(v.Known) - knownRows; n > 0 {
		v.Known, v.Unshown = v.Known[:knownRows], n
	}
	v.Ways = append([]string{"rule", "severity", "entity"}, slices.Sorted(maps.Keys(labels))...)
	if !slices.Contains(v.Ways, v.By) {
		v.Ways = append(v.Ways, v.By)
	}
}

func (g *group) add(a openAlert) {
	g.Alerts = append(g.Alerts, a)
	g.Count++
	if g.Oldest.IsZero() || a.DecidedAt.Before(g.Oldest) {
		g.Oldest = a.DecidedAt
	}
	if a.Mute != nil {
		g.Muted++
	}
	g.Answered = g.Answered || a.Answerable()
}

// sorted returns the group for display: most severe alerts first, then newest.
func (g *group) sorted() group {
	slices.SortStableFunc(g.Alerts, func(a, b openAlert) int { return cmp.Compare(rank(b.Alert), rank(a.Alert)) })
	g.Loudest = severityRank(g.Alerts[0].Alert)
	g.Alerts = g.Alerts[:min(len(g.Alerts), groupRows)]
	return *g
}

// Others counts the alerts of the group that are not shown.
func (g group) Others() int { return g.Count - len(g.Alerts) }

// rank orders alerts by severity, then by status.
func rank(a web.Alert) int {
	states := []alerts.Status{alerts.Resolved, alerts.Firing, alerts.Undetermined, alerts.Expired, alerts.GaveUp}
	return slices.Index(severities, string(a.Severity))*len(states) + slices.Index(states, a.Status)
}

// Answerable reports whether the alert can be acknowledged: it must belong to a job.
func (a openAlert) Answerable() bool { return ofWait(a.Alert) }

// Answered reports whether the inbox has an alert that can be acknowledged.
func (v inboxView) Answered() bool {
	return slices.ContainsFunc(v.Groups, func(g group) bool { return g.Answered })
}

// at returns the address of the inbox narrowed to one group. It is empty if the inbox has no such filter.
func (v inboxView) at(name string) string {
	if !slices.Contains(inboxFilter, v.By) || name == "" || v.Asked[v.By] != "" {
		return ""
	}
	l := listing{At: alertsAt, Asked: maps.Clone(v.Asked)}
	l.Asked[v.By] = name
	return l.page("")
}

// Says summarizes the inbox in a sentence.
func (v inboxView) Says() string {
	var said []string
	if v.Open > 0 {
		said = append(said, count(v.Open, "open alert"))
	}
	if n := len(v.Known) + v.Unshown; n > 0 {
		said = append(said, strconv.Itoa(n)+" acknowledged")
	}
	return strings.Join(said, ", ")
}
