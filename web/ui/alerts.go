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

// inboxView is what goes on: open alerts, in groups as they are told, and below them those that
// somebody acknowledged.
type inboxView struct {
	listing
	permissions
	Severities []string
	Ways       []string // what may be grouped by
	By         string   // what is grouped by
	Open       int
	Groups     []group
	Known      []openAlert // acknowledged
	Unshown    int         // more of these
	More       bool        // there are more, older ones
	Seen       alerts.ID   // the newest that is shown
	Done       *bulkResult // what was just done; nil: nothing
}

// openAlert is an alert that goes on.
type openAlert struct {
	web.Alert
	Mute *web.Mute // that keeps it from people; nil: none does
}

// group is open alerts that have something in common.
type group struct {
	Name     string // what they have in common; empty: that they have nothing there
	Loudest  string // as alerts are shown
	Oldest   time.Time
	Alerts   []openAlert // those that are shown
	Count    int
	At       string // the inbox with this group alone; empty: it can't be narrowed so
	MuteAt   string // where it is muted
	Muted    int    // how many are muted
	Answered bool   // some can be acknowledged
}

// The inbox shows so many open alerts, and so many of a group; the others are counted.
const (
	inboxMost = "500"
	groupRows = 15
	knownRows = 50
)

// inboxFilter is what the inbox is narrowed by.
var inboxFilter = []string{"rule", "entity", "key", "severity"}

// alerts is the inbox; where a status or a time is asked for, as in messages to people, what was
// said.
func (u *UI) alerts() http.HandlerFunc {
	inbox := u.page("alerts", u.inbox)
	return func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.Query()
		for _, name := range []string{"status", "decided_after", "decided_before"} {
			if asked.Get(name) != "" {
				http.Redirect(w, r, saidAt+"?"+asked.Encode(), http.StatusSeeOther)
				return
			}
		}
		inbox(w, r)
	}
}

func (u *UI) inbox(c client, r *http.Request) (view, error) {
	v := inboxView{
		listing: listingOf(r, append([]string{"by"}, inboxFilter...)...), Severities: severities,
		Done: flashOf(r.URL.Query(), "alert", acknowledged, takenBack),
	}
	v.By = cmp.Or(v.Asked["by"], "rule")
	var err error
	if v.permissions, err = c.may(); err != nil {
		return view{}, err
	}
	open, more, err := c.open(v.query())
	if err != nil {
		return view{}, err
	}
	v.More = more
	v.sort(open)
	return view{Title: "Alerts", Body: v}, nil
}

// severities are those of alerts, least first.
var severities = []string{string(alerts.Info), string(alerts.Warning), string(alerts.Error), string(alerts.Critical)}

// open asks for open alerts, newest first, and marks those that are muted.
func (c client) open(query url.Values) (open []openAlert, more bool, err error) {
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
		if i := slices.IndexFunc(mutes, func(m web.Mute) bool { return alerts.Match(m.Match).Matches(a.Said()) }); i >= 0 {
			o.Mute = &mutes[i]
		}
		open = append(open, o)
	}
	return open, page.Next != "", nil
}

// liveMutes asks for the mutes that go on; whoever sees some rules alone is shown none.
func (c client) liveMutes() ([]web.Mute, error) {
	var page web.Page[web.Mute]
	err := c.get(mutesAt, url.Values{"limit": {"500"}}, &page)
	if refused := asProblem(err); refused != nil && refused.Status == http.StatusForbidden {
		return nil, nil
	}
	return slices.DeleteFunc(page.Items, func(m web.Mute) bool { return !m.Live }), err
}

// sort puts each open alert into its group, or below where it was acknowledged; the loudest group
// first, and in it the loudest alert.
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
		name := a.Said().Field(v.By)
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

// sorted is the group as it is shown: the loudest first, and of those the newest.
func (g *group) sorted() group {
	slices.SortStableFunc(g.Alerts, func(a, b openAlert) int { return cmp.Compare(rank(b.Alert), rank(a.Alert)) })
	g.Loudest = severityRank(g.Alerts[0].Alert)
	g.Alerts = g.Alerts[:min(len(g.Alerts), groupRows)]
	return *g
}

// Others is how many alerts of the group are not shown.
func (g group) Others() int { return g.Count - len(g.Alerts) }

// rank is the order of alerts by severity and by what kind of news they are.
func rank(a web.Alert) int {
	states := []alerts.Status{alerts.Resolved, alerts.Firing, alerts.Undetermined, alerts.Expired, alerts.GaveUp}
	return slices.Index(severities, string(a.Severity))*len(states) + slices.Index(states, a.Status)
}

// Answerable reports whether the alert can be acknowledged: it is about a job.
func (a openAlert) Answerable() bool { return ofWait(a.Alert) }

// Answered reports whether some of what is open can be acknowledged.
func (v inboxView) Answered() bool {
	return slices.ContainsFunc(v.Groups, func(g group) bool { return g.Answered })
}

// at is the inbox with the alerts of one group alone; empty: it can't be narrowed so.
func (v inboxView) at(name string) string {
	if !slices.Contains(inboxFilter, v.By) || name == "" || v.Asked[v.By] != "" {
		return ""
	}
	l := listing{At: alertsAt, Asked: maps.Clone(v.Asked)}
	l.Asked[v.By] = name
	return l.page("")
}

// Says is the inbox in a sentence.
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
