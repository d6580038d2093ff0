package ui

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"deadman/alerts"
	"deadman/web"
)

// alertsAt is the path of the inbox.
const alertsAt = "/alerts"

// inboxView is the inbox: open alerts in groups, then the acknowledged ones. Its counts cover all open alerts; it shows
// some of each group.
type inboxView struct {
	listing
	permissions
	Severities []string
	Ways       []string // fields to group by
	By         string   // the selected field
	Total      web.OpenAlertCounts
	Groups     []group
	Omitted    omittedGroups
	Known      []openAlert // acknowledged
	System     []web.Alert // open alerts of deadman about itself; empty on a page with filters of others
	Seen       alerts.ID   // the newest open alert when the page was read
	Done       *bulkResult // result of the last action; nil: none
}

// group is the unacknowledged alerts with the same value of a field.
type group struct {
	web.AlertGroup
	Alerts []openAlert // the alerts shown, most severe first
	At     string      // the inbox narrowed to this group; empty: not possible
	MuteAt string      // address that mutes the group
	Muted  int         // number of muted alerts among those shown; the others are not counted
}

// omittedGroups counts the groups beyond those shown, and their alerts.
type omittedGroups struct {
	Groups int
	Alerts int64
}

// Bounds of the inbox: groups shown, rows of a group and of all groups, acknowledged alerts shown, alerts read by
// severity, and groups whose alerts are read on their own.
const (
	inboxGroups = 50
	groupRows   = 15 // with few groups
	leastRows   = 5  // with many
	inboxRows   = 75
	knownRows   = 50
	inboxRead   = 500
	groupsRead  = 20
)

// inboxFilter names the filters of the inbox.
var inboxFilter = []string{"rule", "entity", "key", "severity"}

// alertPages serves the list of open alerts.
type alertPages struct{ *UI }

// alerts serves the inbox. It redirects links with a status or a time, as in notifications, to the alert log.
func (u alertPages) alerts() http.HandlerFunc {
	inbox := u.page("alerts", u.inbox)
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		for _, name := range []string{"status", "decided_after", "decided_before"} {
			if query.Get(name) != "" {
				http.Redirect(w, r, alertLogAt+"?"+query.Encode(), http.StatusSeeOther)
				return
			}
		}
		inbox(w, r)
	}
}

func (u alertPages) inbox(c client, r *http.Request) (view, error) {
	v := inboxView{
		listing: listingOf(r, append([]string{"by"}, inboxFilter...)...), Severities: severities,
		Done: cmp.Or(flashOf(r.URL.Query(), "alert", acknowledged, takenBack), jobsDone(r.URL.Query())),
	}
	v.By = cmp.Or(v.Filter["by"], "rule")
	var err error
	if v.permissions, err = c.may(); err != nil {
		return view{}, err
	}
	if err := v.load(alertClient{c}); err != nil {
		return view{}, err
	}
	if v.showsSystem() {
		if v.System, err = c.openSystemAlerts(); err != nil {
			return view{}, err
		}
	}
	err = v.findRule(c, int(v.Total.Unacknowledged+v.Total.Acknowledged))
	return view{Title: cmp.Or(v.Summary(), "Alerts"), Tone: highestOf(v.Total), Body: v}, err
}

// showsSystem reports whether no filter leaves the system alerts out.
func (v *inboxView) showsSystem() bool {
	for name, value := range v.Filter {
		if value != "" && name != "by" && (name != "rule" || value != alerts.SystemRule) {
			return false
		}
	}
	return true
}

// openSystemAlerts returns the open alerts of deadman about itself. A visitor limited to some rules gets none.
func (c client) openSystemAlerts() ([]web.Alert, error) {
	var page web.Page[web.Alert]
	err := c.get(alertsAt, web.SystemAlerts(), &page)
	if isForbidden(err) {
		return nil, nil
	}
	return web.OpenSystemAlerts(page.Items), err
}

// load reads the counts, then the alerts to show.
func (v *inboxView) load(c alertClient) error {
	seen, err := c.newestOpen(v.narrowing())
	if err != nil {
		return err
	}
	query := v.narrowing()
	query.Del("cursor")
	if v.Seen = seen; seen != (alerts.ID{}) {
		query.Set("through", seen.String())
	}
	groups, err := c.groups(v.By, query)
	if err != nil {
		return err
	}
	mutes, err := c.liveMutes()
	if err != nil {
		return err
	}
	v.Total = groups.Total
	v.group(groups)
	rows, err := c.mostSevere(v.Total, query, inboxRead)
	if err != nil {
		return err
	}
	if err := v.fill(c, query, rows); err != nil {
		return err
	}
	if v.Known, err = c.known(v.Total, query); err != nil {
		return err
	}
	v.mark(mutes)
	v.Ways = v.ways(rows)
	return nil
}

// narrowing returns the filters of the page as a query for open alerts.
func (v *inboxView) narrowing() url.Values {
	query := v.query()
	query.Del("by")
	query.Del("limit")
	return query
}

// group adds the groups with unacknowledged alerts, in the order of the API: the highest severity first.
func (v *inboxView) group(groups web.AlertGroups) {
	shown := groups.Total.Unacknowledged
	for _, g := range groups.Items {
		if g.Unacknowledged == 0 {
			continue
		}
		if len(v.Groups) == inboxGroups {
			v.Omitted.Groups++
			continue
		}
		v.Groups = append(v.Groups, group{AlertGroup: g, At: v.at(g.Value), MuteAt: v.muteOf(g.Value)})
		shown -= g.Unacknowledged
	}
	v.Omitted.Groups += groups.Omitted
	v.Omitted.Alerts = shown
}

// muteOf returns the address of a mute of a group, within the filters of the page.
func (v *inboxView) muteOf(value string) string {
	query := v.narrowing()
	query.Del("cursor")
	return muteWithin(query, v.By, value)
}

// fill distributes alerts to their groups. It reads the alerts of the first groups that got too few.
func (v *inboxView) fill(c alertClient, query url.Values, read []openAlert) error {
	of := make(map[string][]openAlert)
	for _, a := range read {
		value := a.Record().Field(v.By)
		of[value] = append(of[value], a)
	}
	queries, rows := 0, min(groupRows, max(leastRows, inboxRows/max(len(v.Groups), 1)))
	for i := range v.Groups {
		g := &v.Groups[i]
		g.Alerts = of[g.Value]
		if wanted := min(int(g.Unacknowledged), rows); len(g.Alerts) < wanted && queries < groupsRead {
			queries++
			var err error
			if g.Alerts, err = c.mostSevere(g.OpenAlertCounts, v.narrowedTo(query, g.Value), rows); err != nil {
				return err
			}
		}
		slices.SortStableFunc(g.Alerts, func(a, b openAlert) int { return cmp.Compare(rank(b.Alert), rank(a.Alert)) })
		g.Alerts = g.Alerts[:min(len(g.Alerts), rows)]
	}
	return nil
}

// narrowedTo narrows a query to the alerts of a group.
func (v *inboxView) narrowedTo(query url.Values, value string) url.Values {
	query = maps.Clone(query)
	query.Set(narrowed(v.By, value))
	return query
}

// narrowed returns the parameter that selects the alerts with a value of a field or label, and its value.
func narrowed(by, value string) (parameter, wanted string) {
	if slices.Contains(alerts.Fields, by) && by != "step" {
		return by, value
	}
	return "label", by + "=" + value
}

// mark sets the mutes of the alerts shown.
func (v *inboxView) mark(mutes []web.Mute) {
	for i := range v.Groups {
		v.Groups[i].Muted = markMuted(v.Groups[i].Alerts, mutes)
	}
	markMuted(v.Known, mutes)
}

// ways returns the fields to group by: those of all alerts, and the labels of the given ones.
func (v *inboxView) ways(rows []openAlert) []string {
	labels := make(map[string]bool)
	for _, a := range slices.Concat(rows, v.Known) {
		for name := range a.Labels {
			labels[name] = true
		}
	}
	ways := append([]string{"rule", "severity", "entity"}, slices.Sorted(maps.Keys(labels))...)
	if !slices.Contains(ways, v.By) {
		ways = append(ways, v.By)
	}
	return ways
}

// Loudest returns the style of the group.
func (g group) Loudest() string {
	if len(g.Alerts) > 0 {
		return alertStyle(g.Alerts[0].Alert)
	}
	return highestOf(g.OpenAlertCounts)
}

// Others counts the alerts of the group that are not shown.
func (g group) Others() int64 { return g.Unacknowledged - int64(len(g.Alerts)) }

// Answerable returns the number of alerts of the group that can be acknowledged.
func (g group) Answerable() int64 { return g.Unacknowledged - g.Outages - g.Losses }

// Severe returns the numbers of alerts by severity, such as "4 critical, 2 warnings"; empty if they have the same
// severity.
func (g group) Severe() string {
	if len(g.Severities) < 2 {
		return ""
	}
	return severitiesOf(g.OpenAlertCounts)
}

// Answered reports whether the inbox has an alert that can be acknowledged.
func (v inboxView) Answered() bool { return v.Total.Unacknowledged > v.Total.Outages+v.Total.Losses }

// Unshown counts the acknowledged alerts that are not shown.
func (v inboxView) Unshown() int64 { return v.Total.Acknowledged - int64(len(v.Known)) }

// at returns the address of the inbox narrowed to one group. It is empty if the inbox has no such filter.
func (v inboxView) at(name string) string {
	if !slices.Contains(inboxFilter, v.By) || name == "" || v.Filter[v.By] != "" {
		return ""
	}
	l := listing{At: alertsAt, Filter: maps.Clone(v.Filter)}
	l.Filter[v.By] = name
	return l.page("")
}

// Summary counts all open alerts, such as "23 open: 4 critical, 19 warnings, 12 acknowledged".
func (v inboxView) Summary() string {
	return summaryOf(v.Total)
}
