package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/badges"
	"deadman/rules"
	"deadman/web"
)

func decode[T any](t *testing.T, body string) (v T) {
	t.Helper()
	failOn(t, json.Unmarshal([]byte(body), &v))
	return v
}

const beatRule = "name: beat\nentity: host\ntrigger: {heartbeat: {every: 1h, grace: 5m, keys: [late, new]}}\nescalate: [{after: 0s, step: missing}]\n"

// newHeartbeatFixture returns a fixture with a rule that expects the keys late and new, of which late has an alert, and which
// key ok reported to. A second rule never got a report.
func newHeartbeatFixture(t *testing.T, changes ...func(*web.Options, *fixture)) (s *fixture, raised alerts.Alert) {
	t.Helper()
	s = newFixture(t, changes...)
	s.saveRule(beatRule)
	s.saveRule("name: quiet\nentity: host\ntrigger: {heartbeat: {every: 1h}}\nescalate: [{after: 0s, step: missing}]\n")
	newest, err := s.rules.Catalog.Newest("beat")
	failOn(t, err)
	s.rule = newest.Engine()
	s.createJob("ok", time.Hour, `{}`)
	raised = s.alert("late", "host late is silent", time.Hour)
	return s, raised
}

// counted waits for the first count.
func counted(t *testing.T, s *fixture, path string) (page web.HeartbeatPage) {
	t.Helper()
	for range 100 {
		if page = get[web.HeartbeatPage](t, s.Server, path); page.Counts != nil && len(page.NeverReported) > 0 && (len(page.Items) == 0 || len(page.Items[0].Months) > 0) {
			return page
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("not counted: %+v", page)
	return page
}

// TestHeartbeats checks the list of keys: states, times, uptime, counts and filters.
func TestHeartbeats(t *testing.T) {
	s, raised := newHeartbeatFixture(t)
	page := counted(t, s, "/api/v1/heartbeats")
	if c := page.Counts; c.Up != 1 || c.Late != 1 || c.NeverReported != 1 || c.Paused+c.Unknown != 0 || c.CountedAt.IsZero() {
		t.Errorf("counts %+v", c)
	}
	if strings.Join(page.NeverReported, " ") != "quiet" {
		t.Errorf("never reported: %q", page.NeverReported)
	}
	of := make(map[string]web.Heartbeat)
	for _, h := range page.Items {
		of[h.Key] = h
		if h.Rule != "beat" || h.Entity != "host" || len(h.Months) != 2 || (h.Months[0].Share == nil) != (h.State == "never_reported") || h.Months[0].From.Day() != 1 || !h.Months[1].From.Before(h.Months[0].From) {
			t.Errorf("%+v", h)
		}
	}
	if h := of["late"]; h.State != "late" || !h.LateSince.Equal(alerts.TimeOf(raised.ID)) || !h.DueAt.IsZero() {
		t.Errorf("%+v", h)
	}
	if h := of["new"]; h.State != "never_reported" || !h.ReportedAt.IsZero() || h.DueAt.Sub(s.now).Round(time.Minute) != 65*time.Minute {
		t.Errorf("%+v, created at %s", h, s.now)
	}
	if h := of["ok"]; h.State != "up" || !h.ReportedAt.Equal(s.now) || !h.DueAt.Equal(s.now.Add(65*time.Minute)) || *h.Months[0].Share != 1 {
		t.Errorf("%+v", h)
	}
	for query, want := range map[string]string{
		"?state=late": "late", "?state=up": "ok", "?state=never_reported": "new", "?state=unknown": "", "?key=ok": "ok", "?key_prefix=n": "new",
		"?rule=beat": "late new ok", "?rule=quiet": "", "?entity=host&limit=2": "late new", "?rule=order-unshipped": "",
	} {
		var keys []string
		for _, h := range get[web.HeartbeatPage](t, s.Server, "/api/v1/heartbeats"+query).Items {
			keys = append(keys, h.Key)
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if a := requestPath(t, s.Server, "GET", "/api/v1/heartbeats?state=down", ""); a.StatusCode != 400 || !strings.Contains(a.body, "never_reported") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// TestCountsOfPageAgreeWithRows checks that a page with all keys has the counts of its keys, although the node caches counts.
func TestCountsOfPageAgreeWithRows(t *testing.T) {
	s, _ := newHeartbeatFixture(t)
	counted(t, s, "/api/v1/heartbeats")
	s.createJob("more", time.Hour, `{}`)
	for range 3 { // the cached count is newer than the job by now, or not
		page := get[web.HeartbeatPage](t, s.Server, "/api/v1/heartbeats")
		if c := page.Counts; len(page.Items) != 4 || c.Up != 2 || c.Late != 1 || c.NeverReported != 1 {
			t.Fatalf("%d keys, counts %+v", len(page.Items), c)
		}
	}
	cached := get[web.HeartbeatPage](t, s.Server, "/api/v1/heartbeats?limit=2").Counts
	if sum := cached.Up + cached.Late + cached.NeverReported; sum < 3 {
		t.Errorf("the counts of a part are those of its rows: %+v", cached)
	}
}

// TestExcusedHeartbeat checks that a key whose missing report a monitoring gap excused is unknown, in the list, the filters,
// the counts and the badge, with the time until which it is excused.
func TestExcusedHeartbeat(t *testing.T) {
	s, _ := newHeartbeatFixture(t)
	s.now = s.now.Add(-2 * time.Hour)
	s.createJob("excused", 3*time.Hour, `{}`)
	listed, err := s.store.Job(t.Context(), "beat", "excused")
	failOn(t, err)
	checked := listed.Job
	checked.CheckCount++ // a check at the end of the interval that raised no alert
	s.settle(futurejobs.Decision{Job: checked})

	page := counted(t, s, "/api/v1/heartbeats?state=unknown")
	if c := page.Counts; c.Up != 1 || c.Unknown != 1 || c.Late != 1 {
		t.Errorf("counts %+v", c)
	}
	if len(page.Items) != 1 {
		t.Fatalf("unknown: %+v", page.Items)
	}
	if h := page.Items[0]; h.Key != "excused" || h.State != "unknown" || !h.ExcusedTo.Equal(checked.NextCheckAt) || !h.DueAt.Equal(h.ExcusedTo) || !h.OverdueAt.Equal(s.now.Add(65*time.Minute)) {
		t.Errorf("%+v, want excused until %s", h, checked.NextCheckAt)
	}
	if up := get[web.HeartbeatPage](t, s.Server, "/api/v1/heartbeats?state=up").Items; len(up) != 1 || up[0].Key != "ok" || !up[0].ExcusedTo.IsZero() {
		t.Errorf("up: %+v", up)
	}
	address := decode[web.Badge](t, requestPath(t, s.Server, "POST", "/api/v1/rules/beat/badges", `{"key": "excused"}`).body).URL
	if a := requestPath(t, s.Server, "GET", address, ""); !strings.Contains(a.body, "excused: unknown") {
		t.Errorf("the badge is %s", a.body)
	}
	if a := requestPath(t, s.Server, "GET", "/heartbeats?state=unknown", ""); !strings.Contains(a.body, "excused until") {
		t.Errorf("the page is %s", a.body)
	}
}

// report applies reports of a key to the rule of newHeartbeatFixture, at the time of the fixture.
func (s *fixture) report(key string, kinds ...rules.Signal) {
	s.t.Helper()
	rule, err := s.rules.Catalog.Newest("beat")
	failOn(s.t, err)
	for _, kind := range kinds {
		effect, err := rule.HeartbeatEffect(rules.ReceivedHeartbeat{Key: key, At: s.now, Kind: kind, Body: "no space"}, s.store.Shards())
		failOn(s.t, err)
		s.apply(effect)
	}
}

// heartbeatOf returns a key of the list.
func (s *fixture) heartbeatOf(key string) web.Heartbeat {
	s.t.Helper()
	page := counted(s.t, s, "/api/v1/heartbeats?key="+key)
	if len(page.Items) != 1 {
		s.t.Fatalf("key %s: %+v", key, page.Items)
	}
	return page.Items[0]
}

// TestFailedHeartbeat checks that a failed run is not up: the key is unknown until the check that raises the alert, and its
// uptime is unknown until its first alert or success. A failure does not end a late time, and is the last report.
func TestFailedHeartbeat(t *testing.T) {
	var ahead atomic.Int64
	s, _ := newHeartbeatFixture(t, func(o *web.Options, _ *fixture) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	s.now = s.now.Add(10 * time.Second)
	s.report("bad", rules.Failure)
	bad := s.heartbeatOf("bad")
	if bad.State != "unknown" || !bad.ReportedAt.Equal(s.now) || !bad.FailedAt.Equal(s.now) || bad.DueAt.Before(s.now) || bad.Months[0].Share != nil || !bad.ExcusedTo.IsZero() {
		t.Errorf("a key that only failed: %+v", bad)
	}
	failed := s.now
	s.now = s.now.Add(10 * time.Second)
	s.report("bad", rules.Begun)
	if again := s.heartbeatOf("bad"); again.State != "unknown" || !again.ReportedAt.Equal(s.now) || !again.FailedAt.Equal(failed) {
		t.Errorf("a run after the failure: %+v", again)
	}
	if a := requestPath(t, s.Server, "GET", "/heartbeats?key=bad", ""); !strings.Contains(a.body, "failed, check") {
		t.Errorf("the page is %s", a.body)
	}
	s.report("bad", rules.Success)
	if good := s.heartbeatOf("bad"); good.State != "up" || !good.FailedAt.IsZero() || good.Months[0].Share == nil {
		t.Errorf("a success before the check: %+v", good)
	}

	s.now = s.now.Add(30 * time.Minute)
	s.alert("new", "host new is silent", time.Hour)
	ahead.Store(int64(time.Hour))
	if h := s.heartbeatOf("new"); h.State != "late" || h.Months[0].Share == nil || *h.Months[0].Share != 0 {
		t.Errorf("never reported, and late: %+v", h)
	}
	s.now = s.now.Add(10 * time.Minute)
	s.report("new", rules.Failure)
	if h := s.heartbeatOf("new"); h.State != "late" || *h.Months[0].Share != 0 || !h.FailedAt.Equal(s.now) || !h.ReportedAt.Equal(s.now) {
		t.Errorf("a failure while an alert is open: %+v", h)
	}
}

// TestHeartbeatsOfPrefix checks that a token with a prefix gets the keys, counts and names of its rules only.
func TestHeartbeatsOfPrefix(t *testing.T) {
	s, _ := newHeartbeatFixture(t, closedNode)
	header := s.newToken("theirs", "qui*", access.Read)
	page := decode[web.HeartbeatPage](t, requestPath(t, s.Server, "GET", "/api/v1/heartbeats", "", header...).body)
	if len(page.Items) != 0 || page.Counts != nil && page.Counts.Up+page.Counts.Late+page.Counts.NeverReported != 0 {
		t.Errorf("%+v", page)
	}
}

// TestBadges checks that a badge shows the state of a key or a rule to any client with its address, until it is revoked, and
// that a wrong address shows nothing.
func TestBadges(t *testing.T) {
	s, _ := newHeartbeatFixture(t, closedNode)
	header := s.newToken("author", "", access.Rules, access.Read)
	const path = "/api/v1/rules/beat/badges"
	badge := func(body string) string {
		t.Helper()
		a := requestPath(t, s.Server, "POST", path, body, header...)
		if a.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		return decode[web.Badge](t, a.body).URL
	}
	counted := func() bool {
		a := requestPath(t, s.Server, "GET", "/api/v1/heartbeats", "", header...)
		return decode[web.HeartbeatPage](t, a.body).Counts != nil
	}
	for range 100 {
		if counted() {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	for body, want := range map[string][]string{
		`{}`:                       {"beat: 1 of 3 late", badges.Red},
		`{"key": "late"}`:          {"late: late", badges.Red},
		`{"key": "ok"}`:            {"ok: up", badges.Green},
		`{"key": "new"}`:           {"new: never reported", badges.Grey},
		`{"key": "<script>&none"}`: {"&lt;script&gt;&amp;none: never reported", badges.Grey},
	} {
		address := badge(body)
		if again := badge(body); again != address {
			t.Errorf("%s has two addresses, %s and %s", body, address, again)
		}
		a := requestPath(t, s.Server, "GET", address, "")
		for _, text := range want {
			if a.StatusCode != 200 || !strings.Contains(a.body, text) {
				t.Errorf("%s: %d %s", body, a.StatusCode, a.body)
			}
		}
		h := a.Header
		if h.Get("Content-Type") != "image/svg+xml; charset=utf-8" || h.Get("Cache-Control") != "public, max-age=60" || h.Get("Content-Security-Policy") != "default-src 'none'" || strings.Contains(a.body, "<script") {
			t.Errorf("%s: %v %s", body, h, a.body)
		}
		if b := requestPath(t, s.Server, "GET", address, "", "If-None-Match", h.Get("ETag")); b.StatusCode != 304 || b.body != "" {
			t.Errorf("unchanged: %d %s", b.StatusCode, b.body)
		}
	}
	address := badge(`{"key": "ok"}`)
	for what, wrong := range map[string]string{
		"changed": strings.Replace(address, "A", "B", 1), "without suffix": strings.TrimSuffix(address, ".svg"), "short": badges.Prefix + "AAAA.svg", "of no rule": badges.Sign(badges.NewKey(), badges.Target{RuleID: 999}),
	} {
		if a := requestPath(t, s.Server, "GET", wrong, ""); a.StatusCode != 404 || strings.Contains(a.body, "up") || strings.Contains(a.body, "beat") {
			t.Errorf("%s: %d %s", what, a.StatusCode, a.body)
		}
	}
	for method, want := range map[string]int{"POST": 403, "DELETE": 403} {
		if a := requestPath(t, s.Server, method, path, "{}", s.newToken("reader"+method, "", access.Read)...); a.StatusCode != want {
			t.Errorf("%s by a reader: %d %s", method, a.StatusCode, a.body)
		}
	}
	if a := requestPath(t, s.Server, "DELETE", path, "", header...); a.StatusCode != 204 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s.Server, "GET", address, ""); a.StatusCode != 404 {
		t.Errorf("revoked: %d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s.Server, "DELETE", path, "", header...); a.StatusCode != 404 || !strings.Contains(a.body, "has no badges") {
		t.Errorf("revoked again: %d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s.Server, "POST", "/api/v1/rules/order-unshipped/badges", "{}", header...); a.StatusCode != 409 || !strings.Contains(a.body, "no heartbeat") {
		t.Errorf("of a rule without a heartbeat: %d %s", a.StatusCode, a.body)
	}
	fresh := badge(`{"key": "ok"}`)
	if fresh == address {
		t.Error("the address after the revocation is the same")
	}
}

// TestBadgesAreBounded checks that requests for a badge, and wrong addresses of a client, are bounded.
func TestBadgesAreBounded(t *testing.T) {
	s, _ := newHeartbeatFixture(t)
	address := decode[web.Badge](t, requestPath(t, s.Server, "POST", "/api/v1/rules/beat/badges", `{"key": "ok"}`).body).URL
	limited := func(path func(i int) string) (at int) {
		for at = range 100 {
			if a := requestPath(t, s.Server, "GET", path(at), ""); a.StatusCode == 429 {
				return at
			}
		}
		return at
	}
	if at := limited(func(int) string { return address }); at < 10 || at > 60 {
		t.Errorf("a badge is limited after %d requests, want about 10", at)
	}
	if at := limited(func(i int) string { return badges.Sign(badges.NewKey(), badges.Target{RuleID: int32(i)}) }); at != 20 {
		t.Errorf("wrong addresses are limited after %d requests, want 20", at)
	}
	other := decode[web.Badge](t, requestPath(t, s.Server, "POST", "/api/v1/rules/beat/badges", `{}`).body).URL
	for path, want := range map[string]int{strings.TrimSuffix(other, badges.Suffix): http.StatusNotFound, other: http.StatusOK} {
		if a := requestPath(t, s.Server, "GET", path, ""); a.StatusCode != want {
			t.Errorf("%s after wrong addresses: status %d, want %d", path, a.StatusCode, want)
		}
	}
}
