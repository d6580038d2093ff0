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
	ID string // names it in forms, see jobID
}

func jobsOf(items []web.Job) []job {
	all := make([]job, len(items))
	for i, j := range items {
		all[i] = job{Job: j, ID: jobID(j.Rule, j.Key)}
	}
	return all
}

// jobsView is the list of pending jobs, next due first.
type jobsView struct {
	listing
	permissions
	Jobs  []job
	Dues  []dueChoice
	Wrong string      // what of the filter can't be read
	Said  *bulkResult // what was just done; nil: nothing
}

// dueChoice is a choice of when jobs are due.
type dueChoice struct{ Value, Says string }

// dues are the choices.
var dues = []dueChoice{{"", "whenever"}, {"overdue", "overdue"}, {"hour", "within the hour"}, {"day", "within a day"}}

// jobFilter is what the list of jobs is narrowed by.
var jobFilter = []string{"rule", "entity", "key", "due", "from", "to"}

// jobQuery is what the API is asked for a list of jobs. A key that ends in * is what keys begin with.
func jobQuery(l listing, now time.Time) (url.Values, error) {
	query := l.query()
	for _, name := range []string{"due", "from", "to"} {
		query.Del(name)
	}
	if prefix, is := strings.CutSuffix(l.Asked["key"], "*"); is {
		query.Del("key")
		query.Set("key_prefix", prefix)
	}
	if l.Asked["due"] != "" && l.Asked["from"]+l.Asked["to"] != "" {
		return query, errors.New("choose when jobs are due, or write from when to when; both at once is not looked for")
	}
	before := func(t time.Time) { query.Set("due_before", t.UTC().Format(time.RFC3339)) }
	switch l.Asked["due"] {
	case "overdue":
		query.Set("overdue", "true")
	case "hour":
		before(now.Add(time.Hour))
	case "day":
		before(now.Add(24 * time.Hour))
	}
	for name, parameter := range map[string]string{"from": "due_after", "to": "due_before"} {
		if l.Asked[name] == "" {
			continue
		}
		t, err := time.Parse("2006-01-02T15:04", l.Asked[name])
		if err != nil {
			return query, fmt.Errorf("%s is no time of UTC such as 2026-01-31T15:04", escapeControls(l.Asked[name]))
		}
		query.Set(parameter, t.Format(time.RFC3339))
	}
	return query, nil
}

func (u *UI) jobs(c client, r *http.Request) (view, error) {
	v := jobsView{listing: listingOf(r, jobFilter...), Dues: dues, Said: jobsDone(r.URL.Query())}
	var err error
	if v.permissions, err = c.may(); err != nil {
		return view{}, err
	}
	query, err := jobQuery(v.listing, u.Now())
	if err != nil {
		v.Wrong = err.Error()
		return view{Title: "Jobs", Body: v}, nil //nolint:nilerr // the page says it where it was typed
	}
	var page web.Page[web.Job]
	if err := c.get("/jobs", query, &page); err != nil {
		return view{}, err
	}
	v.Jobs = jobsOf(page.Items)
	v.goesOn(page.Next)
	return view{Title: "Jobs", Body: v}, nil
}

// jobVerbs are what can be done to jobs, and what was done then.
var jobVerbs = map[string]string{"cancel": "cancelled", "check": "looked at", "snooze": "snoozed"}

// jobsDone is what the address of a page says was done to jobs; nil: nothing.
func jobsDone(query url.Values) *bulkResult {
	d := flashOf(query, "job", slices.Collect(maps.Values(jobVerbs))...)
	if d == nil || d.None { // which is said at once, where it was asked for
		return nil
	}
	if n, err := strconv.Atoi(query.Get("ended")); err == nil {
		d.Ended = min(max(n, 0), d.Done)
	}
	return d
}

// confirmView asks before something is done that can't be undone.
type confirmView struct {
	Jobs []string
	Back string
}

// jobDeed does something to the chosen jobs, one after the other.
func (u *UI) jobDeed(w http.ResponseWriter, r *http.Request) {
	if !u.form(w, r) {
		return
	}
	what, chosen, back := r.PostForm.Get("do"), r.PostForm["job"], returnPath(r.PostForm.Get("back")).String()
	switch {
	case jobVerbs[what] == "":
		u.fail(w, r, nothingAsked("The form says not what to do."))
		return
	case len(chosen) == 0:
		u.fail(w, r, nothingAsked("Choose some jobs first."))
		return
	case what == "cancel" && r.PostForm.Get("sure") == "":
		u.render(w, r, http.StatusOK, "confirm", view{Title: "Cancel jobs?", Body: confirmView{Jobs: chosen, Back: back}}, "")
		return
	}
	c, d := client{u.api, r}, bulkResult{Noun: "job", Verb: jobVerbs[what], Back: back}
	d.each(r, chosen, func(id string) error {
		ended, err := c.jobDeed(what, id, r.PostForm.Get("for"))
		if ended {
			d.Ended++
		}
		return err
	})
	for _, l := range d.Left {
		for i, id := range l.Names {
			l.Names[i] = jobSaid(id)
		}
	}
	u.report(w, r, d)
}

// returnPath is the page of this node that a form came from.
func returnPath(from string) *url.URL {
	at, err := url.Parse(from)
	if err != nil || at.Host != "" || at.Scheme != "" || !strings.HasPrefix(at.Path, "/") || strings.HasPrefix(at.Path, "//") {
		return &url.URL{Path: "/jobs"}
	}
	return &url.URL{Path: at.Path, RawQuery: at.RawQuery}
}

// errEnded is why nothing can be done to a job: in words that are the same for all such.
var errEnded = errors.New("no longer waited for; the history has how it ended")

// jobDeed does something to one job; ended is that a look ended it. That a look could not find out is an error.
func (c client) jobDeed(what, id, span string) (ended bool, err error) {
	rule, key, err := jobNamed(id)
	if err != nil {
		return false, err
	}
	path, query := "/jobs/"+url.PathEscape(rule), url.Values{"key": {key}}
	switch what {
	case "cancel":
		err = c.do(http.MethodDelete, path, query, nil, nil)
	case "check":
		var saw web.CheckResult
		if err = c.do(http.MethodPost, path+"/check", query, nil, &saw); err == nil && saw.Unknown {
			return false, errors.New(saw.Reason)
		}
		ended = saw.Ended
	case "snooze":
		err = c.do(http.MethodPost, path+"/snooze", query, web.SnoozeBody{For: span}, nil)
	}
	if p := asProblem(err); p != nil && p.Status == http.StatusNotFound {
		return false, errEnded
	}
	return ended, err
}
