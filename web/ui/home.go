package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"deadman/alerts"
	"deadman/rules/document"
	"deadman/web"
)

// Rows of each list on the overview.
const (
	nowAlerts = 8
	nowRead   = 50 // open alerts read to find the most severe
	nowRules  = 15
	nowJobs   = "12"
)

// gapShown is the time for which the overview shows a monitoring gap that ended.
const gapShown = 24 * time.Hour

// homeView is the overview: health, open alerts, rules and next jobs.
type homeView struct {
	Fine      bool
	Sentence  string
	Broken    []web.Condition
	LastEvent time.Time // zero: none, or hidden from the visitor
	Behind    uint64    // unread events
	Reading   string    // state of ingest in words; empty: it is up to date
	Due       dueJobs
	Refused   web.DeadLetterReasons // dead letters; empty if hidden from the visitor
	Open      web.OpenAlertCounts
	Lost      string      // sentence about lost data; empty: no alert about it is open
	Alerts    []alertLine // the most severe of the open alerts
	Rules     []ruleLine
	RuleCount int
	MoreRules bool              // more than were read
	loudest   map[string]string // highest severity of the unacknowledged open alerts, by rule
	Paused    []string          // names of the paused rules
	System    int               // open alerts of deadman about itself
	Unwatched []string          // names of the enabled rules that nothing ever reported to
	Mutes     []web.Mute        // in effect; empty if hidden from the visitor
	Gap       *gapView          // the last monitoring gap: open, or ended within gapShown; nil: none
	Waiting   int64
	Counted   bool // the jobs of rules are counted
	Jobs      []job
	MoreJobs  bool
	Resting   int         // pending jobs without a next check, such as late heartbeats, among the first ones
	Try       *sampleSend // without pending checks: what creates one; nil: none was found
	NoSample  bool        // the rules accept none of the made-up events
	Blind     string      // error of reading the lists; empty: none
}

// ruleLine is the line of a rule.
type ruleLine struct {
	web.Rule
	Refused  int64  // its dead letters
	Severity string // the highest severity of its unacknowledged open alerts; empty: there are none
}

// HasProblem reports whether the rule needs attention.
func (r ruleLine) HasProblem() bool {
	return r.Problem != "" || r.NeverReported || r.Refused > 0 || r.Jobs != nil && (r.Jobs.OpenAlerts > 0 || r.Jobs.Undetermined > 0 || r.Jobs.GaveUp > 0)
}

// alerting returns the number of the rule's jobs with an alert.
func (r ruleLine) alerting() int64 {
	if r.Jobs == nil {
		return 0
	}
	return r.Jobs.OpenAlerts
}

// now serves the overview. It shows lists that can't be read as errors, because people open it during incidents.
func (u *UI) now(c client, _ *http.Request) (view, error) {
	state, err := homeClient{c}.readiness()
	if err != nil {
		return view{}, err
	}
	v := homeView{Fine: state.Healthy}
	for _, condition := range state.Conditions {
		if !condition.OK {
			v.Broken = append(v.Broken, condition)
		}
	}
	if err := v.load(c, u.Now()); err != nil {
		v.Fine, v.Blind = false, problemText(err)
	}
	v.Sentence = v.sentence()
	title := v.Sentence
	if v.Fine {
		title = cmp.Or(summaryOf(v.Open), title)
	}
	return view{Title: title, Tone: v.Tone(), Body: v, Health: healthStyle(v.Fine)}, nil
}

// Summary counts the open alerts; empty: there are none.
func (v homeView) Summary() string { return summaryOf(v.Open) }

// MoreOpen reports whether more alerts are open than the page shows.
func (v homeView) MoreOpen() bool {
	left := v.Open.Unacknowledged + v.Open.Acknowledged
	for _, line := range v.Alerts {
		left -= line.count()
	}
	return left > 0
}

// Tone is the style of the headline: ill if a condition failed, else the highest severity of unacknowledged alerts, else
// a warning if something is not watched, else fine.
func (v homeView) Tone() string {
	switch highest := highestOf(v.Open); {
	case !v.Fine:
		return "ill"
	case highest != "":
		return highest
	case v.System+len(v.Paused)+len(v.Unwatched)+len(v.Mutes) > 0 || v.Gap != nil:
		return string(alerts.Warning)
	}
	return "fine"
}

// load reads the lists of the page concurrently. Each part writes its own fields.
func (v *homeView) load(c client, now time.Time) error {
	parts := []func() error{
		func() error { return v.gap(c, now) },
		func() error { return v.streams(c) },
		func() error { return v.letters(c) },
		func() error { return v.open(c) },
		func() error { return v.rules(c) },
		func() error { return v.jobs(c, now) },
		func() error { all, err := c.openSystemAlerts(); v.System = len(all); return err },
	}
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		all.Go(func() { errs[i] = part() })
	}
	all.Wait()
	v.order()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return v.try(c, now)
}

// sampleSend is an event that creates a job of a rule.
type sampleSend struct{ Rule, Subject, Event string }

// maxTriedRules bounds the rules for which the overview searches for a trigger event.
const maxTriedRules = 3

// try finds an event to try on a page without pending checks: of the first rule that accepts a made-up one.
func (v *homeView) try(c client, now time.Time) error {
	if len(v.Jobs) > 0 {
		return nil
	}
	tried := 0
	for _, r := range v.Rules {
		if tried == maxTriedRules {
			break
		}
		if !r.Enabled || !r.PausedAt.IsZero() || len(r.Subjects) == 0 || r.Problem != "" {
			continue
		}
		var d document.Document
		if err := c.get(rulePath(r.Name), nil, &d); err != nil {
			return err
		}
		subject := d.Trigger.Subject()
		if subject == "" {
			continue
		}
		tried++
		event, err := c.startingEvent(d, now)
		if err != nil {
			return err
		}
		if event != "" {
			v.Try = &sampleSend{r.Name, withoutWildcards(subject), strings.Join(strings.Fields(event), " ")}
			return nil
		}
	}
	v.NoSample = tried > 0
	return nil
}

// ingestConditions are the conditions without which events are not read.
var ingestConditions = []string{"nats", "ingest", "streams"}

// streams finds the time of the last event and the state of ingest. A visitor limited to some rules does not get them.
func (v *homeView) streams(c client) error {
	var streams web.Page[web.Stream]
	err := c.get("/streams", url.Values{"limit": {"500"}}, &streams)
	if isForbidden(err) {
		return nil
	}
	for _, s := range streams.Items {
		v.LastEvent = latest(v.LastEvent, s.LastAt)
		if s.LagMessages != nil {
			v.Behind += *s.LagMessages
		} else if s.State == web.StreamUpToDate {
			v.Reading = "Ingest lag unknown"
		}
		if s.State != web.StreamUpToDate && s.State != web.StreamBehind {
			v.Reading = "Stream " + stream{s}.Title() + " is " + s.State
		}
	}
	for _, broken := range v.Broken {
		if slices.Contains(ingestConditions, broken.Name) {
			v.Reading = "Ingest is failing"
		}
	}
	return err
}

// letters counts the dead letters. A visitor limited to some rules does not get them.
func (v *homeView) letters(c client) error {
	err := c.get(lettersAt+"/reasons", nil, &v.Refused)
	if isForbidden(err) {
		return nil
	}
	return err
}

// isForbidden reports whether the API denied the visitor access.
func isForbidden(err error) bool {
	p := asProblem(err)
	return p != nil && p.Status == http.StatusForbidden
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// open counts the open alerts and reads the most important ones: unacknowledged before acknowledged, then by severity,
// then newest.
func (v *homeView) open(c client) error {
	of := alertClient{c}
	groups, err := of.groups("rule", url.Values{})
	if err != nil {
		return err
	}
	if v.Mutes, err = (muteClient{c}).active(); err != nil {
		return err
	}
	v.Open, v.loudest = groups.Total, loudestOf(groups)
	if v.Lost, err = c.lossSentence(v.Open); err != nil {
		return err
	}
	read, err := of.mostSevere(v.Open, url.Values{}, nowRead)
	if err != nil {
		return err
	}
	slices.SortStableFunc(read, func(a, b openAlert) int { return cmp.Compare(rank(b.Alert), rank(a.Alert)) })
	markMuted(read, v.Mutes)
	if v.Alerts = alertLines(groups.Items, read, false); len(v.Alerts) < nowAlerts {
		known, err := of.known(v.Open, url.Values{})
		if err != nil {
			return err
		}
		markMuted(known, v.Mutes)
		v.Alerts = append(v.Alerts, alertLines(groups.Items, known, true)...)
	}
	v.Alerts = v.Alerts[:min(len(v.Alerts), nowAlerts)]
	return v.texts(of)
}

// texts finds the rows of which all alerts are muted, and reads an alert for each row of a rule with few alerts of which none
// was read.
func (v *homeView) texts(of alertClient) error {
	for i, l := range v.Alerts {
		v.Alerts[i].AllMuted = l.Of != nil && mutesRule(v.Mutes, l.Of.Value)
		if l.Of == nil || l.count() > maxAlike || l.Text != "" {
			continue
		}
		read, err := of.mostSevereOf(l)
		if err != nil {
			return err
		}
		if len(read) > 0 {
			v.Alerts[i].openAlert = read[0]
		}
	}
	return nil
}

// PausedAt returns the address of the paused rule, or of the list of paused rules.
func (v homeView) PausedAt() string {
	return rulesInState(v.Paused, "paused")
}

// UnwatchedAt returns the address of the rule that nothing ever reported to, or of the list of such rules.
func (v homeView) UnwatchedAt() string { return rulesInState(v.Unwatched, "never_reported") }

// rulesInState returns the address of the only rule in a state, or of the list of all rules in it.
func rulesInState(names []string, state string) string {
	if len(names) == 1 {
		return rulePath(names[0])
	}
	return "/rules?state=" + state
}

// gap finds the last monitoring gap. A visitor limited to some rules does not get it.
func (v *homeView) gap(c client, now time.Time) error {
	gaps, err := healthClient{c}.monitoringGaps(now)
	for _, g := range gaps {
		if !g.Lost && (g.Open || now.Sub(g.Until) < gapShown) {
			v.Gap = &g
			break
		}
	}
	return err
}

// homeClient reads what the front page shows.
type homeClient struct{ client }

// rules reads the rules with their job counts.
func (v *homeView) rules(c client) error {
	all, more, err := c.allRules(url.Values{})
	if err != nil {
		return err
	}
	v.MoreRules = more
	for _, r := range all {
		v.Rules = append(v.Rules, ruleLine{Rule: r})
		if !r.PausedAt.IsZero() {
			v.Paused = append(v.Paused, r.Name)
		} else if r.Enabled && r.NeverReported {
			v.Unwatched = append(v.Unwatched, r.Name)
		}
		if r.Jobs != nil {
			v.Counted = true
			v.Waiting += r.Jobs.Pending
		}
	}
	v.RuleCount = len(v.Rules)
	return nil
}

// order sorts the rules by urgency and keeps the first rows.
func (v *homeView) order() {
	refused := make(map[string]int64)
	for _, r := range v.Refused.Items {
		refused[r.Rule] += r.Count
	}
	for i, r := range v.Rules {
		v.Rules[i].Refused, v.Rules[i].Severity = refused[r.Name], v.loudest[r.Name]
	}
	slices.SortStableFunc(v.Rules, func(a, b ruleLine) int {
		return cmp.Or(v.worstFirst(b)-v.worstFirst(a), cmp.Compare(b.alerting(), a.alerting()))
	})
	v.Rules = v.Rules[:min(len(v.Rules), nowRules)]
}

// worstFirst returns the urgency of a rule. An unreadable rule ranks above any alert, alerts rank by severity, and
// other errors rank lowest.
func (v *homeView) worstFirst(r ruleLine) int {
	switch {
	case r.Problem != "":
		return len(severities) + 2
	case r.alerting() > 0 || r.Severity != "":
		return 2 + max(slices.Index(severities, r.Severity), 0)
	case r.HasProblem():
		return 1
	}
	return 0
}

// sentence summarizes the state in one sentence. The template appends the time of the last event.
func (v *homeView) sentence() string {
	var names []string
	for _, condition := range v.Broken {
		names = append(names, strings.ReplaceAll(condition.Name, "_", " "))
	}
	switch {
	case v.Blind != "":
		return "Lists cannot be read"
	case !v.Fine:
		return "Conditions failed: " + strings.Join(names, ", ")
	case v.Lost != "":
		return v.Lost
	case len(v.Rules) == 0:
		return "All systems of deadman operational, no rules yet"
	case len(v.Jobs)+v.Resting == 0:
		return "All systems of deadman operational, no pending checks"
	}
	return "All systems of deadman operational"
}

// readiness reads the node's readiness.
func (c homeClient) readiness() (state web.Readiness, err error) {
	r, err := c.request(http.MethodGet, "/readyz", nil)
	if err != nil {
		return state, err
	}
	var a answer
	c.api.ServeHTTP(&a, r)
	if err := json.Unmarshal(a.body.Bytes(), &state); err != nil { // a 503 has the conditions as well
		return state, fmt.Errorf("readiness: %w", err)
	}
	return state, nil
}
