package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

// whereQuery returns the address of a search in the bodies of jobs.
func whereQuery(where, more string) string {
	return "/api/v1/jobs?" + url.Values{"where": {where}}.Encode() + more
}

// A list of jobs is searched by fields of events and states, also of events that lists leave out. Pages continue where
// the one before ended.
func TestJobsByFields(t *testing.T) {
	s := newFixture(t)
	s.createJob("1", time.Hour, `{"customer": "acme", "total": 1.50, "paid": false, "address": {"city": "Ulm"}}`)
	s.createJob("2", 2*time.Hour, `{"customer": "acme", "total": 2, "paid": true, "note": "`+strings.Repeat("x", 20<<10)+`"}`)
	s.createJob("3", 3*time.Hour, `{"customer": "other", "address": {"city": "Bonn"}}`)
	s.createJob("4", 4*time.Hour, ``)
	for where, want := range map[string]string{
		`event.customer = "acme"`:                     "[1 2]",
		`event.customer == "acme"`:                    "[1 2]",
		`event.customer = "acme" and event.paid=true`: "[2]",
		`event.customer != "acme"`:                    "[3 4]",
		`event.total = 1.5`:                           "[1]",
		`event.total = "1.5"`:                         "[]",
		`event.address.city = "Bonn"`:                 "[3]",
		`event.address = "Bonn"`:                      "[]",
		`state.paid = false`:                          "[1]",
		`event.paid = null`:                           "[3 4]",
	} {
		page := get[web.JobPage](t, s.Server, whereQuery(where, ""))
		if got := keys(page.Items); got != want || page.Searched == nil || page.Searched.Jobs != 4 || !page.Searched.Complete || page.Next != "" {
			t.Errorf("%s: %s, want %s; %+v", where, got, want, page.Searched)
		}
	}
	first := get[web.JobPage](t, s.Server, whereQuery(`event.paid = null`, "&limit=1"))
	second := get[web.JobPage](t, s.Server, whereQuery(`event.paid = null`, "&limit=1&cursor="+first.Next))
	if keys(first.Items) != "[3]" || first.Searched.Jobs != 3 || first.Searched.Complete || keys(second.Items) != "[4]" || second.Searched.Jobs != 1 {
		t.Errorf("%+v, then %+v", first, second)
	}
	if page := get[web.JobPage](t, s.Server, "/api/v1/jobs"); page.Searched != nil {
		t.Errorf("without where %+v", page.Searched)
	}
	for where, part := range map[string]string{
		`customer = "acme"`: "is not a field of event or state", `event = 1`: "is not a field", `event.x`: "no = or !=", `event.x = acme`: "a text in quotes",
		`event.x = 1 or event.y = 2`: "follows a comparison", `event.x ! 1`: "! without =", strings.Repeat(`event.x = 1 and `, 8) + `event.x = 1`: "more than 8",
		`event.x = "` + strings.Repeat("x", 512) + `"`: "the most is 512",
	} {
		checkProblem(t, requestPath(t, s.Server, "GET", whereQuery(where, ""), ""), 400, web.BadRequest, part)
	}
	if a := requestPath(t, s.Server, "GET", "/jobs?"+url.Values{"where": {`event.customer = "acme"`}}.Encode(), ""); !strings.Contains(a.body, "searched 4") || strings.Count(a.body, `id="job-`) != 2 {
		t.Errorf("the page: %s", a.body)
	}
	if a := requestPath(t, s.Server, "GET", "/jobs?where=acme", ""); a.StatusCode != 200 || !strings.Contains(a.body, "no = or !=") {
		t.Errorf("the page: %d %s", a.StatusCode, a.body)
	}
}

// changingLists lists jobs, and changes them after a read.
type changingLists struct {
	web.Reader
	afterJobs, afterJob func()
}

func (l *changingLists) Jobs(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.ListedJob], error) {
	page, err := l.Reader.Jobs(ctx, f)
	l.afterJobs()
	return page, err
}

func (l *changingLists) Job(ctx context.Context, rule, key string) (futurejobs.ListedJob, error) {
	l.afterJob()
	return l.Reader.Job(ctx, rule, key)
}

// A search goes on after the last job that it searched, although jobs before it ended, and the job itself was moved, while
// it was searched.
func TestSearchSkipsNoJobWhileJobsMove(t *testing.T) {
	lists := &changingLists{afterJobs: func() {}, afterJob: func() {}}
	s := newFixture(t, func(o *web.Options, s *fixture) {
		lists.Reader, o.Lists = s.store, lists
	})
	s.createJob("1", time.Hour, `{"of": "other"}`)
	s.createJob("2", 2*time.Hour, `{"of": "acme", "note": "`+strings.Repeat("x", 20<<10)+`"}`) // lists leave the event out
	s.createJob("3", 3*time.Hour, `{"of": "acme"}`)
	s.createJob("4", 4*time.Hour, `{"of": "acme"}`)
	s.createJob("5", 5*time.Hour, `{"of": "other"}`)
	lists.afterJobs = func() {
		lists.afterJobs = func() {}
		s.resolve("1")
	}
	lists.afterJob = func() {
		lists.afterJob = func() {}
		s.alert("2", "waits", 3*time.Hour+30*time.Minute)
	}
	var found []string
	for cursor := ""; ; {
		page := get[web.JobPage](t, s.Server, whereQuery(`event.of = "acme"`, "&limit=1"+cursor))
		found = append(found, keys(page.Items))
		if cursor = "&cursor=" + page.Next; page.Next == "" || len(found) == 9 {
			break
		}
	}
	if got := strings.Join(found, ""); got != "[2][3][2][4][]" { // 2 was moved behind 3
		t.Errorf("found %s", got)
	}
}

// A search ends after 20,000 jobs or 2 s, says how many it searched and goes on at its cursor.
func TestSearchOfManyJobs(t *testing.T) {
	s := newFixture(t)
	const jobs = 21_000
	at := s.rule.Grid.Up(s.now.Add(time.Hour))
	for begin := 0; begin < jobs; begin += 1000 {
		var effects []futurejobs.Effect
		for i := begin; i < begin+1000; i++ {
			effects = append(effects, futurejobs.Effect{Rule: s.rule, Ref: s.jobRef(fmt.Sprintf("%05d", i)), Action: futurejobs.Start{Job: futurejobs.Job{
				Version: s.rule.Version, Since: s.now, FirstCheckAt: at.Add(time.Duration(i) * time.Second), Event: json.RawMessage(fmt.Sprintf(`{"n": %d}`, i)),
			}}})
		}
		s.apply(effects...)
	}
	searched, found, cursor := 0, "", ""
	for range 100 {
		page := get[web.JobPage](t, s.Server, whereQuery("event.n = 20999", cursor))
		if page.Searched.Jobs > 20_000 || page.Searched.Complete != (page.Next == "") {
			t.Errorf("%+v", page.Searched)
		}
		searched += page.Searched.Jobs
		found += keys(page.Items)
		if cursor = "&cursor=" + page.Next; page.Next == "" {
			break
		}
	}
	if searched != jobs || strings.ReplaceAll(found, "[]", "") != "[20999]" || cursor != "&cursor=" {
		t.Errorf("%d jobs searched, found %s", searched, found)
	}
}
