package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadman/rules/document"

	"github.com/go-chi/chi/v5"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// alertView is the page of one alert with the story of its job.
type alertView struct {
	web.Alert
	permissions
	Event, State string // indented JSON; empty if the alert has none
	Story        []alertEntry
	Ahead        []stepView        // steps that the job is still to raise
	Suppressed   *web.Acknowledged // suppresses further steps; nil: none are left, or none does
	NextAt       time.Time         // the job's next check; zero: none
	Ends         bool              // the next check ends the job
	Pending      bool              // the job is still pending
	MuteAt       string            // address that mutes alerts of the rule
	description  string            // of the rule; empty: none, or the job has ended

	Notes   ruleNotes
	Actions *actionRow   // nil: none are possible
	Reaches stepChannels // channels of the further steps
	Loss    bool         // the alert is about lost data and is not closed

	Outage *web.Outage // open outage of the alert; nil: none, or hidden from the visitor
}

// alertEntry is one event in the story of a job.
type alertEntry struct {
	At    time.Time
	Kind  string // style of the entry
	Word  string
	Text  string
	Alert *web.Alert // nil: the entry is no alert
	Here  bool       // the alert of this page
	Until time.Time  // end of an acknowledgement; zero: none
	Note  string
	Step  string // the suppressed step; empty: the entry is of another kind
}

// Bounds of a job's story.
const (
	storyAlerts  = "50"
	storyActions = 10 // objects of the audit log to read
)

func (u *UI) alert(c client, r *http.Request) (view, error) {
	var a web.Alert
	if err := c.get(alertAt(chi.URLParam(r, "id")), nil, &a); err != nil {
		return view{}, err
	}
	v := alertView{Alert: a, Event: indented(a.Event), State: indented(a.State)}
	if a.Rule != "" {
		v.MuteAt = muteOf("rule", a.Rule)
	}
	var err error
	if v.permissions, err = c.may(); err != nil {
		return view{}, err
	}
	switch of := outageOf(a); {
	case of != "":
		err = v.outage(c, of)
	case ofWait(a):
		err = v.fillStory(c)
	}
	if err == nil {
		err = v.fillActionRow(c)
	}
	if err != nil {
		return view{}, err
	}
	slices.SortStableFunc(v.Story, func(a, b alertEntry) int { return cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()) })
	return view{Title: a.Text, Body: v}, nil
}

// OfNode reports whether the alert is about the node itself, not of a rule.
func (v alertView) OfNode() bool { return v.Rule == alerts.SystemRule }

// fillActionRow adds the notes of the rule, and the actions that the visitor may do.
func (v *alertView) fillActionRow(c client) error {
	if !v.Pending && v.RuleVersion > 0 {
		var d document.Document
		if _, err := exists(c.get(fmt.Sprintf("%s/versions/%d", rulePath(v.Rule), v.RuleVersion), nil, &d)); err != nil {
			return err
		}
		v.description = d.Description
	}
	v.Notes = notesOf(v.description, v.Labels)
	row := actionRow{permissions: v.permissions, Alert: v.ID.String(), Back: alertAt(v.ID.String()), Acknowledged: v.Acknowledged != nil}
	if v.OfNode() {
		open, err := alertClient{c}.open(url.Values{"rule": {v.Rule}, "key": {v.Key}}, 500)
		if err != nil {
			return err
		}
		v.Loss = slices.ContainsFunc(open, func(a openAlert) bool { return a.ID == v.ID })
		if v.Loss && v.Change {
			v.Actions = &row
		}
		return nil
	}
	if v.Pending && (v.Answer || v.Change) {
		row.Job, row.MuteAt = jobID(v.Rule, v.Key), v.MuteAt
		v.Actions = &row
	}
	return nil
}

// fillStory adds the past of the alert's job to the story, and its future steps.
func (v *alertView) fillStory(c client) error {
	v.Story = []alertEntry{{At: v.Since, Kind: "waiting", Word: "job started"}}
	if err := v.load(c); err != nil {
		return err
	}
	if err := v.goesOn(c); err != nil {
		return err
	}
	if v.Admin && !v.Some {
		return v.fillActions(c)
	}
	return nil
}

// of returns the filter for lists of the alert's key.
func (v *alertView) of() url.Values {
	return url.Values{"rule": {v.Rule}, "entity": {v.Entity}, "key": {v.Key}}
}

// newAlertEntry returns the story entry of an alert. here is the alert of the page.
func newAlertEntry(a web.Alert, here alerts.ID) alertEntry {
	return alertEntry{At: a.DecidedAt, Kind: alertStyle(a), Word: alertStyle(a), Text: a.Text, Alert: &a, Here: a.ID == here}
}

// load adds the alerts of the same job.
func (v *alertView) load(c client) error {
	of := v.of()
	of.Set("limit", storyAlerts)
	var page web.Page[web.Alert]
	if err := c.get(alertsAt, of, &page); err != nil {
		return err
	}
	for _, a := range page.Items {
		if a.Since.Equal(v.Since) {
			v.Story = append(v.Story, newAlertEntry(a, v.ID))
		}
	}
	return nil
}

// goesOn adds the outcome of an ended job, or the further steps of a pending one.
func (v *alertView) goesOn(c client) error {
	of := v.of()
	var jobs web.Page[web.Job]
	if err := c.get("/jobs", of, &jobs); err != nil {
		return err
	}
	for _, j := range jobs.Items {
		if slices.Contains(j.Alerts, v.ID) {
			if err := v.suppressedOf(c, j); err != nil {
				return err
			}
			v.Pending, v.NextAt = true, j.NextCheckAt
			v.Ends = j.NextAlert.Status == "none" && j.NextAlert.JobEnds
			return v.ahead(c, j)
		}
	}
	var past web.Page[web.EndedJob]
	if err := c.get("/history", of, &past); err != nil {
		return err
	}
	for _, e := range past.Items {
		if slices.Contains(e.Alerts, v.ID) {
			v.Story = append(v.Story, alertEntry{At: e.EndedAt, Kind: outcome(e.Outcome), Word: string(e.Outcome), Text: cmp.Or(e.Reason, "job ended")})
			return v.suppressedOfEnded(c)
		}
	}
	return nil
}

// ahead adds the steps that a job is still to raise, by its next alert: an acknowledgement suppresses steps, and the step
// after a snooze replaces earlier ones. A repeated step counts once per repetition.
func (v *alertView) ahead(c client, j web.Job) error {
	var d document.Document
	if err := c.get("/rules/"+url.PathEscape(j.Rule)+"/versions/"+strconv.Itoa(int(j.RuleVersion)), nil, &d); err != nil {
		return err
	}
	v.description = d.Description
	var err error
	if v.Reaches, err = c.channelsOf(j.Rule, v.ID.String()); err != nil {
		return err
	}
	taken := j.Step
	for _, r := range escalationSteps(d) {
		if times := max(1, r.Times); taken >= times && r.Until == "" {
			taken -= times
			continue
		}
		taken = 0
		v.Ahead = append(v.Ahead, r)
	}
	if len(v.Ahead) > 0 {
		v.Suppressed = j.Acknowledged
	}
	switch next := j.NextAlert; {
	case v.Suppressed != nil && v.Suppressed.Until.IsZero(), next.Status == "none":
		v.Ahead = nil
	case next.Status == "step":
		first := slices.IndexFunc(v.Ahead, func(s stepView) bool { return s.isNamed(next.Step) })
		if first >= 0 {
			v.Ahead = v.Ahead[first:]
			v.Ahead[0].At = next.At
			timeSteps(v.Ahead, j.Since, futurejobs.Grid(d.Slot))
		}
	}
	return nil
}

// actionWords maps actions of the audit log to words for people.
var actionWords = map[string]string{
	"alert.ack": "acknowledged", "alert.unack": "unacknowledged", "job.snooze": "snoozed", "job.check": "checked", "job.cancel": "cancelled",
	"alert.republish": "republished", "alert.close": "closed",
}

// fillActions adds the audited actions on the alerts of the job and on the job itself, since its start.
func (v *alertView) fillActions(c client) error {
	objects := []string{"job/" + v.Rule + "/" + v.Key}
	for _, s := range v.Story {
		if s.Alert != nil && len(objects) <= storyActions {
			objects = append(objects, "alert/"+s.Alert.ID.String())
		}
	}
	until := v.Since
	for _, s := range v.Story {
		if s.At.After(until) {
			until = s.At
		}
	}
	for _, object := range objects {
		query := url.Values{"object": {object}, "after": {v.Since.UTC().Format(time.RFC3339Nano)}}
		if !v.Pending { // a later job may have the same key
			query.Set("before", until.Add(time.Second).UTC().Format(time.RFC3339Nano))
		}
		var page web.Page[web.AuditEntry]
		if is, err := exists(c.get("/audit", query, &page)); !is {
			return err // nil: the node keeps no audit log
		}
		for _, e := range page.Items {
			if word := actionWords[e.Action]; word != "" {
				v.Story = append(v.Story, auditedEntry(word, e))
			}
		}
	}
	return nil
}

// auditedEntry returns the story entry of an audited action. The detail of a snooze has its end. The detail of an
// acknowledgement has the rule and the key, the end and the note; that of its removal has the rule and the key.
func auditedEntry(word string, e web.AuditEntry) alertEntry {
	entry := alertEntry{At: e.At, Kind: "info", Word: word, Text: "by " + e.Actor}
	switch e.Action {
	case "alert.ack":
	case "alert.unack":
		return entry
	case "job.snooze":
		entry.Until, _ = time.Parse(time.RFC3339, strings.TrimPrefix(e.Detail, "until ")) // an earlier version wrote no end
		return entry
	default:
		entry.Note = e.Detail
		return entry
	}
	parts := strings.SplitN(e.Detail, "; ", 3)
	if len(parts) < 2 {
		return entry
	}
	if until, err := time.Parse(time.RFC3339, strings.TrimPrefix(parts[1], "until ")); err == nil {
		entry.Until = until
	} else {
		entry.Text += ", until resolved"
	}
	if len(parts) == 3 {
		entry.Note = parts[2]
	}
	return entry
}
