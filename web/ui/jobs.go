package ui

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadman/web"
)

// job is a pending job on a page.
type job struct {
	web.Job
	ID string // id in forms, see jobID
}

// raisesNothing reports whether no check of the job is next that may raise an alert: it waits for an event, or the next check
// only ends it.
func (j job) raisesNothing() bool {
	if j.NextCheckAt.IsZero() {
		return true
	}
	return j.NextAlert != nil && j.NextAlert.Status == "none" && j.NextAlert.JobEnds
}

// OpenAlert returns the id of the alert that can be acknowledged; empty: none.
func (j job) OpenAlert() string {
	if len(j.Alerts) == 0 || j.Acknowledged != nil {
		return ""
	}
	return j.Alerts[len(j.Alerts)-1].String()
}

func jobsOf(items []web.Job) []job {
	all := make([]job, len(items))
	for i, j := range items {
		all[i] = job{Job: j, ID: jobID(j.Rule, j.Key)}
	}
	return all
}

// nextJobs reads the first page of a list of pending jobs.
func (c client) nextJobs(query url.Values) ([]job, error) {
	var page web.Page[web.Job]
	err := c.get("/jobs", query, &page)
	return jobsOf(page.Items), err
}

// jobsView is the list of pending jobs, next due first.
type jobsView struct {
	listing
	permissions
	Jobs        []job
	Total       int64 // pending checks, of the rule of the filter or of all; 0: unknown
	AtLeast     bool  // some rules are not in Total
	Tabs        []dueTab
	Searched    string      // how much was searched in the bodies of jobs; empty: nothing
	FilterError string      // error of the filter
	Result      *bulkResult // result of the last action; nil: none
	Done        *bulkResult // result of the last action on alerts; nil: none
}

// dueTab is a tab of the list: the jobs that are due by a time.
type dueTab struct {
	Name, At string
	Here     bool
}

// dueTabs returns the tabs of a list of jobs, with its other filters.
func dueTabs(l listing) (tabs []dueTab) {
	for _, due := range [][2]string{{"", "All"}, {"now", "Due"}, {"hour", "Within 1 hour"}, {"day", "Within 1 day"}} {
		at := listing{At: l.At, Filter: maps.Clone(l.Filter)}
		if at.Filter["due"] = due[0]; due[0] != "" {
			at.Filter["from"], at.Filter["to"] = "", ""
		}
		tabs = append(tabs, dueTab{due[1], at.page(""), due[0] == l.Filter["due"]})
	}
	return tabs
}

// jobFilter names the filters of the list of jobs.
var jobFilter = []string{"rule", "entity", "key", "due", "from", "to", "where"}

// jobQuery returns the API query of a list of jobs. A key that ends in * is a prefix.
func jobQuery(l listing, now time.Time) (url.Values, error) {
	query := l.query()
	for _, name := range []string{"due", "from", "to"} {
		query.Del(name)
	}
	if prefix, is := strings.CutSuffix(l.Filter["key"], "*"); is {
		query.Del("key")
		query.Set("key_prefix", prefix)
	}
	if l.Filter["due"] != "" && l.Filter["from"]+l.Filter["to"] != "" {
		return query, errors.New("use either Due or From and To, not both")
	}
	before := func(t time.Time) { query.Set("due_before", t.UTC().Format(time.RFC3339)) }
	switch l.Filter["due"] {
	case "now":
		query.Set("due", "true")
	case "hour":
		before(now.Add(time.Hour))
	case "day":
		before(now.Add(24 * time.Hour))
	}
	for name, parameter := range map[string]string{"from": "due_after", "to": "due_before"} {
		if l.Filter[name] == "" {
			continue
		}
		t, err := time.Parse("2006-01-02T15:04", l.Filter[name])
		if err != nil {
			return query, fmt.Errorf("%s is not a UTC time such as 2026-01-31T15:04", escapeControls(l.Filter[name]))
		}
		query.Set(parameter, t.Format(time.RFC3339))
	}
	return query, nil
}

// jobPages serves the list of jobs, and its actions.
type jobPages struct{ *UI }

func (u jobPages) jobs(c client, r *http.Request) (view, error) {
	v := jobsView{listing: listingOf(r, jobFilter...), Result: jobsDone(r.URL.Query()), Done: flashOf(r.URL.Query(), "alert", acknowledged)}
	v.Tabs = dueTabs(v.listing)
	var err error
	if v.permissions, err = c.may(); err != nil {
		return view{}, err
	}
	query, err := jobQuery(v.listing, u.Now())
	if err != nil {
		v.FilterError = err.Error()
		return view{Title: "Pending checks", Body: v}, nil //nolint:nilerr // shown beside the filter
	}
	var page web.JobPage
	err = c.get("/jobs", query, &page)
	if p := asProblem(err); p != nil && p.Status == http.StatusBadRequest && v.Filter["where"] != "" {
		v.FilterError = problemText(err)
		return view{Title: "Pending checks", Body: v, Still: true}, nil
	}
	if err != nil {
		return view{}, err
	}
	if page.Searched != nil {
		v.Searched = page.Searched.Text(number)
	}
	v.Jobs = jobsOf(page.Items)
	v.goesOn(page.Next)
	if err := v.total(c); err != nil {
		return view{}, err
	}
	err = v.findRule(c, len(page.Items))
	return view{Title: "Pending checks", Body: v, Still: v.Filter["where"] != ""}, err // a search runs once
}

// total adds the number of pending checks, which the counts of the rules have: of all rules, or of the rule that is the only
// filter.
func (v *jobsView) total(c client) error {
	query := make(url.Values)
	for name, value := range v.Filter {
		switch {
		case value == "":
		case name != "rule":
			return nil
		default:
			query.Set("name", value)
		}
	}
	all, more, err := c.allRules(query)
	v.AtLeast = more
	for _, r := range all {
		if r.Jobs != nil {
			v.Total += r.Jobs.Pending
		}
	}
	return err
}

// jobVerbs maps actions on jobs to their past participles.
var jobVerbs = map[string]string{"cancel": "cancelled", "check": "checked", "snooze": "snoozed", "close": "closed"}

// jobsDone returns the result of a job action from a page's address, or nil.
func jobsDone(query url.Values) *bulkResult {
	d := flashOf(query, "job", slices.Collect(maps.Values(jobVerbs))...)
	if d == nil || d.None { // handleJobAction reports an empty choice itself
		return nil
	}
	d.Ended, d.Idle = partOf(query, "ended", d, "check"), partOf(query, "idle", d, "snooze")
	return d
}

// partOf returns a number of jobs from a page's address, if the action of the result has such a number.
func partOf(query url.Values, name string, d *bulkResult, action string) int {
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || d.Verb != jobVerbs[action] {
		return 0
	}
	return min(max(n, 0), d.Done)
}

// confirmView asks for confirmation before jobs are cancelled.
type confirmView struct {
	Jobs []string
	Back string
}

// cancelFilter names the filters whose jobs can be cancelled together.
var cancelFilter = []string{"rule", "entity", "key"}

// CancelsAll reports whether the jobs of the list's filters can be cancelled together.
func (v jobsView) CancelsAll() bool {
	is := false
	for name, value := range v.Filter {
		if value == "" {
			continue
		}
		if is = slices.Contains(cancelFilter, name); !is {
			return false
		}
	}
	return is
}

// cancelMatch returns the jobs that a form's filters select, and the filters in words, to follow a number of jobs. A key
// that ends in * is a prefix.
func cancelMatch(form url.Values) (m web.JobMatch, words string) {
	var parts []string
	for _, name := range cancelFilter {
		if value := form.Get(name); value != "" {
			parts = append(parts, name+" "+escapeControls(value))
		}
	}
	m.Rule, m.Entity, m.Key = web.Identifier(form.Get("rule")), web.Identifier(form.Get("entity")), web.Identifier(form.Get("key"))
	if prefix, is := strings.CutSuffix(form.Get("key"), "*"); is {
		m.Key, m.KeyPrefix = "", web.Identifier(prefix)
	}
	return m, " of " + strings.Join(parts, ", ")
}

// handleCancelAll cancels all pending jobs that match the filters of a form, after a confirmation with their number. If the
// time of the request does not suffice, it asks whether to continue.
func (u jobPages) handleCancelAll(w http.ResponseWriter, r *http.Request, back string) {
	err := decodeForm(r.PostForm, cancelFilter...)
	match, words := cancelMatch(r.PostForm)
	isSure := r.PostForm.Get("sure") != ""
	var did web.CancelAllResult
	if err == nil {
		err = client{u.api, r}.do(http.MethodPost, "/jobs/cancel", nil, web.CancelAllRequest{Match: match, DryRun: !isSure, Reason: r.PostForm.Get("reason")}, &did)
	}
	if err == nil && did.Matched == 0 {
		err = invalidAction("No pending jobs match the filters.")
	}
	switch {
	case err != nil:
		u.fail(w, r, err)
		return
	case !isSure || did.More:
		q := cancelQuestion(did, words)
		q.Back = back
		for _, name := range cancelFilter {
			q.Form = append(q.Form, field{name, encodeFormText(r.PostForm.Get(name))})
		}
		q.Reason = r.PostForm.Get("reason")
		u.confirm(w, r, q)
		return
	}
	d := bulkResult{Noun: "job", Verb: jobVerbs["cancel"], Done: int(did.Cancelled), Back: back}
	if did.Ended > 0 {
		d.Left = append(d.Left, skipped{Why: "they ended or changed meanwhile", Number: int(did.Ended)})
	}
	u.report(w, r, d)
}

// cancelQuestion asks before jobs are cancelled, and before the rest of them is.
func cancelQuestion(did web.CancelAllResult, words string) confirmation {
	q := confirmation{At: "/jobs", Form: []field{{"do", cancelAll}}, Dangerous: true, WithReason: true}
	if did.Cancelled > 0 {
		q.Title, q.Do, q.Keep = "More jobs"+words+" remain. Continue?", "Continue", "Stop here"
		q.Text = count(int(did.Cancelled), "job") + " cancelled in the time of one request."
		return q
	}
	many := count(int(did.Matched), "job")
	if did.More {
		many = "more than " + many
	}
	q.Title, q.Do, q.Keep = "Cancel "+many+words+"?", "Cancel "+many, "Keep jobs"
	q.Text = "The jobs end as cancelled, including matching jobs that start in the meantime. Open alerts are resolved, and the history is kept."
	return q
}

// cancelAll is the action that cancels all jobs of the list's filters.
const cancelAll = "cancel-all"

// handleJobAction applies an action to each of the chosen jobs, or cancels all jobs of a filter.
func (u jobPages) handleJobAction(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	what, chosen, back := r.PostForm.Get("do"), r.PostForm["job"], returnPath(r.PostForm.Get("back")).String()
	switch {
	case what == cancelAll:
		u.handleCancelAll(w, r, back)
		return
	case jobVerbs[what] == "":
		u.fail(w, r, invalidAction("The form has no action."))
		return
	case len(chosen) == 0:
		u.fail(w, r, invalidAction("No jobs selected."))
		return
	case what == "cancel" && r.PostForm.Get("sure") == "":
		u.render(w, r, http.StatusOK, "job_cancel", view{Title: "Cancel jobs?", Body: confirmView{Jobs: chosen, Back: back}}, "")
		return
	}
	c, d := client{u.api, r}, bulkResult{Noun: "job", Verb: jobVerbs[what], Back: back}
	d.each(r, chosen, func(id string) error {
		return c.applyToJob(what, id, r.PostForm, &d)
	})
	for _, l := range d.Left {
		for i, id := range l.Names {
			l.Names[i] = displayedJobID(id)
		}
	}
	u.report(w, r, d)
}

// returnPath returns the page of a form. Addresses outside this node become the list of jobs.
func returnPath(from string) *url.URL {
	at, err := url.Parse(from)
	if err != nil || at.Host != "" || at.Scheme != "" || !strings.HasPrefix(at.Path, "/") || strings.HasPrefix(at.Path, "//") {
		return &url.URL{Path: "/jobs"}
	}
	return &url.URL{Path: at.Path, RawQuery: at.RawQuery}
}

// errEnded means that the job has ended. Its text is the same for every job, so that results group by it.
var errEnded = errors.New("the job has ended; see the history")

// applyToJob applies an action to one job, and counts a job that ended and a snooze without effect. An undetermined
// check is an error.
func (c client) applyToJob(what, id string, form url.Values, d *bulkResult) error {
	rule, key, err := jobNamed(id)
	if err != nil {
		return err
	}
	path, query := "/jobs/"+url.PathEscape(rule), url.Values{"key": {key}}
	switch what {
	case "cancel", "close":
		if reason := form.Get("reason"); reason != "" {
			query.Set("reason", reason)
		}
		err = c.do(http.MethodDelete, path, query, nil, nil)
	case "check":
		var saw web.CheckResult
		if err = c.do(http.MethodPost, path+"/check", query, nil, &saw); err == nil && saw.Undetermined {
			return errors.New(saw.Reason)
		}
		if saw.Ended {
			d.Ended++
		}
	case "snooze":
		var j web.Job
		err = c.do(http.MethodPost, path+"/snooze", query, web.SnoozeRequest{For: form.Get("for")}, &j)
		if j.SnoozeIneffective {
			d.Idle++
		}
	}
	if p := asProblem(err); p != nil && p.Status == http.StatusNotFound {
		return errEnded
	}
	return err
}
