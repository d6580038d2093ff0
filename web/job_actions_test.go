package web_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/web"
)

func decodeJob(t *testing.T, a answer, status int) web.Job {
	t.Helper()
	var j web.Job
	if err := json.Unmarshal([]byte(a.body), &j); a.StatusCode != status || err != nil {
		t.Fatalf("%d, want %d: %s", a.StatusCode, status, a.body)
	}
	return j
}

func TestJobsByHand(t *testing.T) {
	s := newFixture(t)
	const path = "/api/v1/jobs"
	j := decodeJob(t, requestPath(t, s.Server, "POST", path, `{"rule": "order-unshipped", "key": "a/b", "event": {"id": "a/b", "total": 12.50}}`), 201)
	if j.Key != "a/b" || j.Status != web.Waiting || !strings.Contains(string(j.Event), "12.50") || j.NextCheckAt.Sub(j.Since) < 3*time.Hour {
		t.Errorf("created: %+v", j)
	}
	checkProblem(t, requestPath(t, s.Server, "POST", path, `{"rule": "order-unshipped", "key": "a/b"}`), 409, web.Conflict, "a/b")
	checkProblem(t, requestPath(t, s.Server, "POST", path, `{"rule": "absent", "key": "1"}`), 404, web.NotFound, "absent")
	checkProblem(t, requestPath(t, s.Server, "POST", path, `{"rule": "order-unshipped", "kye": "1"}`), 422, web.UnknownField, "body.kye", "did you mean key?", "key")
	checkProblem(t, requestPath(t, s.Server, "POST", path, `{"rule": "order-unshipped", "key": 1}`), 422, web.Invalid, "body.key")
	checkProblem(t, requestPath(t, s.Server, "POST", path, `{"rule": "order-unshipped", "key": ""}`), 422, web.Invalid, "body.key")
	checkProblem(t, requestPath(t, s.Server, "POST", path, `{"rule": "order-unshipped", "key": "`+strings.Repeat("k", 513)+`"}`), 422, web.Invalid, "body.key", "513")
	checkProblem(t, requestPath(t, s.Server, "POST", path, `{"rule": "order-unshipped", "key": "far", "since": "2999-01-01T00:00:00Z"}`), 422, web.Invalid, "horizon")
	checkProblem(t, requestPath(t, s.Server, "POST", path, `rule=x`, "Content-Type", "application/x-www-form-urlencoded"), 415, web.UnsupportedType, "application/json")
	checkProblem(t, requestPath(t, s.Server, "POST", path, `{"rule": "`+strings.Repeat(" ", 256<<10)+`"}`), 413, web.TooLarge, "262144")

	// Each operation works with the key in the path and in the query, even if the key is the name of an operation.
	decodeJob(t, requestPath(t, s.Server, "POST", path, `{"rule": "order-unshipped", "key": "check"}`), 201)
	if got := get[web.Job](t, s.Server, path+"/order-unshipped/check"); got.Key != "check" {
		t.Errorf("the key check: %+v", got)
	}
	for _, at := range []string{"/order-unshipped/a%2Fb/%s", "/order-unshipped/%s?key=a%2Fb"} {
		verb := func(name string) string { return path + strings.Replace(at, "%s", name, 1) }
		if a := requestPath(t, s.Server, "POST", verb("check"), ""); a.StatusCode != 200 || !strings.Contains(a.body, `"ended":false`) || !strings.Contains(a.body, `"next_check_at":"`) {
			t.Errorf("a check: %d %s", a.StatusCode, a.body)
		}
		if got := decodeJob(t, requestPath(t, s.Server, "POST", verb("snooze"), `{"for": "2d"}`), 200); got.NextCheckAt.Sub(s.now) < 47*time.Hour {
			t.Errorf("snoozed until %s", got.NextCheckAt)
		}
		until := s.now.Add(5 * time.Hour)
		if got := decodeJob(t, requestPath(t, s.Server, "POST", verb("snooze"), fmt.Sprintf(`{"until": %q}`, until.Format(time.RFC3339))), 200); !got.NextCheckAt.Equal(until) || !got.SnoozedUntil.Equal(until) {
			t.Errorf("snoozed until %s, want %s", got.NextCheckAt, until)
		}
		for body, part := range map[string]string{
			`{}`: "no end is set", `{"for": "2d", "until": "2999-01-01T00:00:00Z"}`: "one of them", `{"for": "soon"}`: "90s",
			`{"until": "2020-01-01T00:00:00Z"}`: "is in the past", `{"til": "2d"}`: "until",
		} {
			if a := requestPath(t, s.Server, "POST", verb("snooze"), body); a.StatusCode != 422 || !strings.Contains(a.problem(t).Detail, part) {
				t.Errorf("%s: %d %s", body, a.StatusCode, a.body)
			}
		}
	}
	for _, verb := range []string{"check", "snooze"} {
		checkProblem(t, requestPath(t, s.Server, "POST", path+"/order-unshipped/absent/"+verb, `{"for": "1h"}`), 404, web.NotFound, "history")
	}
}

func TestOverdue(t *testing.T) {
	s := newFixture(t)
	s.createJob("later", time.Hour, `{}`)
	s.apply(futurejobs.Effect{Rule: s.rule, Ref: s.jobRef("now"), Action: futurejobs.Start{Job: futurejobs.Job{
		Version: 1, Since: s.now.Add(-time.Hour), FirstCheckAt: s.now.Add(-time.Hour),
	}}})
	late := newBareNode(t, web.Options{Lists: s.store, Catalog: s.rules.Catalog, Now: func() time.Time { return s.now.Add(time.Minute) }})
	if got := keys(get[web.Page[web.Job]](t, late, "/api/v1/jobs?due=true").Items); got != "[now]" {
		t.Errorf("overdue are %s", got)
	}
	if got := keys(get[web.Page[web.Job]](t, late, "/api/v1/jobs?due=false").Items); got != "[now later]" {
		t.Errorf("all are %s", got)
	}
}

func TestPausedJob(t *testing.T) {
	s := newFixture(t)
	s.createJob("1", time.Hour, `{}`)
	s.apply(futurejobs.Effect{Rule: s.rule, Ref: s.jobRef("1"), Action: futurejobs.Pause{}})
	a := requestPath(t, s.Server, "GET", "/api/v1/jobs/order-unshipped/1", "")
	if j := decodeJob(t, a, 200); j.Status != web.Paused || j.PausedAt.IsZero() || strings.Contains(a.body, "next_check_at") {
		t.Errorf("%s", a.body)
	}
	if a := requestPath(t, s.Server, "GET", "/", ""); !strings.Contains(a.body, ">paused</span>") || strings.Contains(a.body, "9999") {
		t.Errorf("the page shows it so: %s", a.body)
	}
}

func TestEntity(t *testing.T) {
	s := newFixture(t)
	other := strings.NewReplacer("order-unshipped", "order-unpaid").Replace(unshippedRule)
	s.saveRule(other)
	for _, rule := range []string{"order-unshipped", "order-unpaid"} {
		for _, key := range []string{"a/b", "other"} {
			decodeJob(t, requestPath(t, s.Server, "POST", "/api/v1/jobs", fmt.Sprintf(`{"rule": %q, "key": %q}`, rule, key)), 201)
		}
	}
	s.alert("a/b", "late", time.Hour)
	for _, path := range []string{"/api/v1/entities/order/a%2Fb", "/api/v1/entities/order?key=" + url.QueryEscape("a/b")} {
		e := get[web.Entity](t, s.Server, path)
		if len(e.Jobs.Items) != 2 || len(e.Alerts.Items) != 1 || len(e.History.Items) != 0 || e.Key != "a/b" {
			t.Errorf("%s: %+v", path, e)
		}
	}
	for _, want := range []string{`{"cancelled":2}`, `{"cancelled":0}`} {
		if a := requestPath(t, s.Server, "DELETE", "/api/v1/entities/order/a%2Fb/jobs", ""); a.StatusCode != 200 || strings.TrimSpace(a.body) != want {
			t.Errorf("%d %s, want %s", a.StatusCode, a.body, want)
		}
	}
	e := get[web.Entity](t, s.Server, "/api/v1/entities/order/a%2Fb")
	if len(e.Jobs.Items) != 0 || len(e.History.Items) != 2 || len(e.Alerts.Items) != 2 {
		t.Errorf("%+v", e)
	}
	if left := get[web.Page[web.Job]](t, s.Server, "/api/v1/jobs"); keys(left.Items) != "[other other]" {
		t.Errorf("left are %s", keys(left.Items))
	}
}

func TestHistoryAndAlertsAreNarrowed(t *testing.T) {
	s := newFixture(t)
	for _, key := range []string{"1", "2"} {
		s.createJob(key, time.Hour, `{}`)
		s.alert(key, "late", time.Hour)
	}
	s.resolve("1")
	failOn(t, s.Cancel(t.Context(), "order-unshipped", "2", ""))
	hour := func(d int) string {
		return url.QueryEscape(s.now.Add(time.Duration(d) * time.Hour).Format(time.RFC3339))
	}
	for query, want := range map[string]int{
		"history?outcome=resolved": 1, "history?outcome=cancelled": 1, "history?outcome=cleared": 0,
		"history?ended_after=" + hour(-1): 2, "history?ended_after=" + hour(1): 0, "history?ended_before=" + hour(-1): 0,
		"alerts?status=firing": 2, "alerts?status=resolved": 1, "alerts?severity=critical": 0, "alerts?severity=warning&status=firing": 2,
		"alerts?decided_after=" + hour(1): 0, "alerts?decided_before=" + hour(1): 3,
	} {
		if page := get[web.Page[map[string]any]](t, s.Server, "/api/v1/"+query); len(page.Items) != want {
			t.Errorf("%s has %d, want %d: %v", query, len(page.Items), want, page.Items)
		}
	}
}

// A pending job names the alert that it raises next and the events that prevent it, in lists, by itself and on the pages.
// Jobs that ended have none.
func TestNextAlertOfJob(t *testing.T) {
	s := newFixture(t)
	s.createJob("1", 3*time.Hour, `{}`)
	want := web.NextAlert{Status: "step", Step: "primary", Severity: "warning", At: s.rule.Grid.Up(s.now.Add(3 * time.Hour)), Unless: []string{"orders.shipped"}}
	all := get[web.Page[web.Job]](t, s.Server, "/api/v1/jobs").Items
	all = append(all, get[web.Entity](t, s.Server, "/api/v1/entities/order/1").Jobs.Items...)
	all = append(all, decodeJob(t, requestPath(t, s.Server, "GET", "/api/v1/jobs/order-unshipped/1", ""), 200))
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	for _, j := range all {
		if diff := cmp.Diff(&want, j.NextAlert); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for path, part := range map[string]string{
		"/": ">primary</b>, <bdi class=\"faint\">unless orders.shipped</bdi>", "/jobs": ">primary</b>, <bdi class=\"faint\">unless orders.shipped</bdi>",
		"/rules/order-unshipped": ">primary</b>, <bdi class=\"faint\">unless orders.shipped</bdi>", "/entities/order?key=1": "<bdi>unless orders.shipped</bdi>",
	} {
		if a := requestPath(t, s.Server, "GET", path, ""); !strings.Contains(a.body, part) {
			t.Errorf("%s lacks %s: %s", path, part, a.body)
		}
	}
	s.alert("1", "first", 8*time.Hour)
	s.alert("1", "second", 8*time.Hour+7*24*time.Hour)
	last := decodeJob(t, requestPath(t, s.Server, "GET", "/api/v1/jobs/order-unshipped/1", ""), 200).NextAlert
	if diff := cmp.Diff(&web.NextAlert{Status: "none", JobEnds: true}, last); diff != "" || last.Text() != "none; the job ends then" {
		t.Errorf("%s (-want +got):\n%s", last.Text(), diff)
	}
	for path, part := range map[string]string{"/": ">the job ends<", "/jobs": ">the job ends<", "/entities/order?key=1": "the job ends <time "} {
		if a := requestPath(t, s.Server, "GET", path, ""); !strings.Contains(a.body, part) {
			t.Errorf("%s lacks %s: %s", path, part, a.body)
		}
	}
	s.resolve("1")
	if a := requestPath(t, s.Server, "GET", "/api/v1/history", ""); !strings.Contains(a.body, `"outcome":"resolved"`) || strings.Contains(a.body, "next_alert") {
		t.Errorf("%s", a.body)
	}
}
