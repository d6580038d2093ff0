package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/web"
)

func TestJobs(t *testing.T) {
	s := newFixture(t)
	for i := range 5 {
		s.createJob(fmt.Sprintf("k%d", i), time.Duration(i+1)*time.Hour, `{"n": 1}`)
	}
	s.alert("k3", "k3 is late", 30*time.Minute)

	all := get[web.Page[web.Job]](t, s.Server, "/api/v1/jobs")
	if got := keys(all.Items); got != "[k3 k0 k1 k2 k4]" || all.Next != "" {
		t.Errorf("jobs by what is next: %s, next %q", got, all.Next)
	}
	if j := all.Items[0]; j.Status != web.Open || len(j.Alerts) != 1 || j.Step != 1 || j.CheckSecondsTotal != 0.0015 || j.Event != nil {
		t.Errorf("a job with an alert: %+v", j)
	}
	if j := all.Items[1]; j.Status != web.Waiting || j.Alerts == nil || !j.NextCheckAt.Equal(s.now.Add(time.Hour)) || j.RuleVersion != 1 {
		t.Errorf("a job: %+v", j)
	}

	var paged []web.Job
	for cursor, pages := "", 0; pages < 10; pages++ {
		p := get[web.Page[web.Job]](t, s.Server, "/api/v1/jobs?limit=2&cursor="+url.QueryEscape(cursor))
		paged = append(paged, p.Items...)
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if keys(paged) != keys(all.Items) {
		t.Errorf("page by page: %s", keys(paged))
	}

	window := fmt.Sprintf("?due_after=%s&due_before=%s", s.now.Add(2*time.Hour).Format(time.RFC3339), s.now.Add(3*time.Hour).Format(time.RFC3339))
	for query, want := range map[string]string{
		"?key=k2": "[k2]", "?key=other": "[]", "?rule=order-unshipped&entity=order&key=k1": "[k1]", "?rule=other": "[]", window: "[k1]",
		"?rule": "[k3 k0 k1 k2 k4]", "?rule&key=k2": "[k2]",
	} {
		if got := keys(get[web.Page[web.Job]](t, s.Server, "/api/v1/jobs"+query).Items); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if a := requestPath(t, s.Server, "GET", "/api/v1/jobs?key=other", ""); strings.TrimSpace(a.body) != `{"items":[]}` {
		t.Errorf("an empty list: %s", a.body)
	}
	if a := requestPath(t, s.Server, "GET", "/api/v1/jobs?cursor=bogus", ""); a.StatusCode != 400 || !strings.Contains(a.problem(t).Detail, "cursor") {
		t.Errorf("a cursor of no list: %s", a.body)
	}
}

// TestOddKeys checks that a job is reachable with any key.
func TestOddKeys(t *testing.T) {
	s := newFixture(t)
	for i, key := range []string{
		"plain", "a/b", "/", "//", "a b", "50%", "%2F", "a%2Fb", "a+b", "ä/ö?x=1#y", "..", "./.", "a\nb", "\x1b[31m", `"quoted"`, "?key=x", strings.Repeat("ü", 256),
	} {
		s.createJob(key, time.Duration(i+1)*time.Hour, `{}`)
		paths := []string{"/api/v1/jobs/order-unshipped?key=" + url.QueryEscape(key)}
		if key != ".." {
			paths = append(paths, "/api/v1/jobs/order-unshipped/"+url.PathEscape(key))
		}
		for _, path := range paths {
			if got := get[web.Job](t, s.Server, path); got.Key != key {
				t.Errorf("%s gives %q, want %q", path, got.Key, key)
			}
		}
		if a := requestPath(t, s.Server, "DELETE", paths[len(paths)-1], ""); a.StatusCode != 204 || a.body != "" {
			t.Errorf("cancelling %q: %d %s", key, a.StatusCode, a.body)
		}
	}
	if left := get[web.Page[web.Job]](t, s.Server, "/api/v1/jobs"); len(left.Items) != 0 {
		t.Errorf("left over: %s", keys(left.Items))
	}
}

func TestOneJob(t *testing.T) {
	s := newFixture(t)
	s.createJob("1234", time.Hour, `{"id": "1234", "total": 12.50}`)
	got := get[web.Job](t, s.Server, "/api/v1/jobs/order-unshipped/1234")
	var event map[string]any
	if err := json.Unmarshal(got.Event, &event); err != nil || event["id"] != "1234" {
		t.Errorf("its event is %s", got.Event)
	}
	for _, path := range []string{"/api/v1/jobs/order-unshipped/4321", "/api/v1/jobs/other/1234"} {
		for _, method := range []string{"GET", "DELETE"} {
			a := requestPath(t, s.Server, method, path, "")
			if p := a.problem(t); a.StatusCode != 404 || !strings.Contains(p.Detail, "history") {
				t.Errorf("%s %s: %s", method, path, a.body)
			}
		}
	}
}

func TestAlertStatus(t *testing.T) {
	now := time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC)
	later, alertIDs := now.Add(time.Microsecond), []alerts.ID{{1}}
	for want, jobs := range map[web.Status][]futurejobs.Job{
		web.Waiting:      {{NextCheckAt: later}},
		web.Due:          {{NextCheckAt: now}, {NextCheckAt: now.Add(-time.Hour), Alerts: alertIDs, UndeterminedChecks: 1}},
		web.Undetermined: {{NextCheckAt: later, UndeterminedChecks: 1}, {NextCheckAt: later, UndeterminedChecks: 1, Alerts: alertIDs}},
		web.Open:         {{NextCheckAt: later, Alerts: alertIDs}},
	} {
		for _, j := range jobs {
			if got := web.StatusOf(j, now); got != want {
				t.Errorf("%+v is %s, want %s", j, got, want)
			}
		}
	}
}

func TestHistoryAndCancel(t *testing.T) {
	s := newFixture(t)
	for _, key := range []string{"shipped", "cancelled"} {
		s.createJob(key, time.Hour, `{}`)
	}
	s.alert("cancelled", "is late", time.Hour)
	s.resolve("shipped")
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/jobs/order-unshipped/cancelled", ""); a.StatusCode != 204 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	page := get[web.Page[web.EndedJob]](t, s.Server, "/api/v1/history")
	if len(page.Items) != 2 {
		t.Fatalf("%+v", page.Items)
	}
	newest, oldest := page.Items[0], page.Items[1]
	if newest.Key != "cancelled" || newest.Outcome != "cancelled" || len(newest.Alerts) != 2 || newest.Status != "" || newest.EndedAt.IsZero() || newest.CheckAttempts != 1 {
		t.Errorf("%+v", newest)
	}
	if oldest.Key != "shipped" || oldest.Outcome != "resolved" || len(oldest.Alerts) != 0 {
		t.Errorf("%+v", oldest)
	}
	if got := get[web.Page[web.EndedJob]](t, s.Server, "/api/v1/history?key=shipped&limit=1"); len(got.Items) != 1 || got.Items[0].Key != "shipped" {
		t.Errorf("%+v", got)
	}
	raised := get[web.Page[web.Alert]](t, s.Server, "/api/v1/alerts?key=cancelled")
	if len(raised.Items) != 2 || raised.Items[0].Record().Status != alerts.Resolved || len(raised.Items[0].Record().Closes) != 1 || raised.Items[0].Published {
		t.Errorf("the alert that closes is %+v", raised.Items)
	}
}

// TestAlert checks that the API returns an alert as consumers of the stream get it, and whether it was published.
func TestAlert(t *testing.T) {
	s := newFixture(t)
	s.createJob("1", time.Second, `{"id": "1"}`)
	alert := s.alert("1", "1 is <b>late</b>", time.Hour)

	var want, got map[string]any
	raw, err := json.Marshal(alert)
	failOn(t, err)
	failOn(t, json.Unmarshal(raw, &want))
	if link := requestPath(t, s.Server, "GET", "/alerts/"+alert.ID.String(), ""); link.StatusCode != http.StatusOK && link.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("the link of an alert leads to %d %s", link.StatusCode, link.body)
	}
	a := requestPath(t, s.Server, "GET", "/api/v1/alerts/"+alert.ID.String(), "")
	failOn(t, json.Unmarshal([]byte(a.body), &got))
	if got["published"] != true {
		t.Errorf("it is not published: %s", a.body)
	}
	delete(got, "published")
	for name, value := range want {
		if fmt.Sprint(got[name]) != fmt.Sprint(value) {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("it has %d fields, want %d: %s", len(got), len(want), a.body)
	}
	list := get[web.Page[web.Alert]](t, s.Server, "/api/v1/alerts")
	if len(list.Items) != 1 || list.Items[0].Record().ID != alert.ID || list.Items[0].SchemaVersion != alerts.SchemaVersion {
		t.Errorf("%+v", list)
	}
	if a := requestPath(t, s.Server, "GET", "/api/v1/alerts/00000000-0000-8000-8000-000000000000", ""); a.StatusCode != 404 {
		t.Errorf("an alert that does not exist: %d %s", a.StatusCode, a.body)
	}
}

func TestDeadLetters(t *testing.T) {
	s := newFixture(t)
	revision, err := s.store.Revision(t.Context())
	failOn(t, err)
	for i, body := range []string{"not JSON", "\xff\xfe"} {
		_, err := s.store.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: revision, DeadLetters: []futurejobs.DeadLetter{{
			Event: futurejobs.Event{Stream: "ORDERS", Subject: "orders.created", Seq: uint64(i + 1), At: s.now, Header: map[string][]string{"ce-id": {"7"}}, Data: []byte(body)},
			Rule:  "order-unshipped", Reason: "the body is not JSON", At: s.now,
		}}})
		failOn(t, err)
	}
	page := get[web.Page[web.DeadLetter]](t, s.Server, "/api/v1/dead-letters?rule=order-unshipped")
	if len(page.Items) != 2 {
		t.Fatalf("%+v", page)
	}
	binary, text := page.Items[0], page.Items[1]
	if text.Body != "not JSON" || text.Seq != 1 || text.Subject != "orders.created" || text.Stream != "ORDERS" || text.Header["ce-id"][0] != "7" || text.Reason == "" {
		t.Errorf("%+v", text)
	}
	if string(binary.BodyBase64) != "\xff\xfe" || binary.Body != "" {
		t.Errorf("%+v", binary)
	}
	if got := get[web.DeadLetter](t, s.Server, fmt.Sprintf("/api/v1/dead-letters/%d", text.ID)); got.Reason != text.Reason || got.Body != text.Body {
		t.Errorf("one of them: %+v", got)
	}
	if a := requestPath(t, s.Server, "GET", "/api/v1/dead-letters/999", ""); a.StatusCode != 404 {
		t.Errorf("one that is not there: %d %s", a.StatusCode, a.body)
	}
}

func TestNodes(t *testing.T) {
	var ahead atomic.Int64
	s := newFixture(t, func(o *web.Options, _ *fixture) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	s.createJob("1", time.Second, `{}`)
	s.alert("1", "late", time.Hour) // takes the shard of its job
	got := get[web.Nodes](t, s.Server, "/api/v1/nodes")
	shard := s.jobRef("1").Shard
	if len(got.Items) != 1 || fmt.Sprint(got.Items[0].Shards) != fmt.Sprint([]int16{shard}) || got.Items[0].Name != "host/1" || len(got.FreeShards) != 3 {
		t.Errorf("%+v", got)
	}
	if leases := got.Items[0].Leases; len(leases) != 1 || leases[0].Shard != shard || !leases[0].ExpiresAt.After(s.now) || leases[0].Epoch == 0 || got.Items[0].Lag != 0 {
		t.Errorf("by which it holds it: %+v, lag %v", leases, got.Items[0].Lag)
	}
	ahead.Store(int64(3 * time.Hour))
	if lag := get[web.Nodes](t, s.Server, "/api/v1/nodes").Items[0].Lag; lag < 3600 || lag > 3*3600 {
		t.Errorf("with a job that is overdue, the lag is %v s", lag)
	}
	failOn(t, s.store.Leave(t.Context(), "node-1"))
	if got := get[web.Nodes](t, s.Server, "/api/v1/nodes"); len(got.Items) != 0 || len(got.FreeShards) != 4 {
		t.Errorf("the shard of a node that left: %+v", got)
	}
}
