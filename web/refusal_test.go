package web_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"deadman/web"
)

// newBareNode makes a node without dependencies. A request that is not refused before they are used gets a 500.
func newBareNode(t *testing.T, o web.Options) *httptest.Server {
	t.Helper()
	if o.Health == nil {
		o.Health = func(context.Context) []web.Condition { return nil }
	}
	o.Log, o.Open = discardLog, allowAll
	s := httptest.NewServer(web.New(o))
	t.Cleanup(s.Close)
	return s
}

// newClosedNode makes a node that is not open and has no tokens.
func newClosedNode(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(web.New(web.Options{Log: discardLog}))
	t.Cleanup(s.Close)
	return s
}

// answer is a response with its body.
type answer struct {
	*http.Response
	body string
}

func (a answer) problem(t *testing.T) web.Problem {
	t.Helper()
	var p web.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%s is no problem: %v", a.body, err)
	}
	if kind := a.Header.Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("a problem comes as %s", kind)
	}
	if p.Status != a.StatusCode || p.Title == "" || p.Type == "" {
		t.Errorf("the problem %+v came with status %d", p, a.StatusCode)
	}
	return p
}

func requestPath(t *testing.T, s *httptest.Server, method, path, body string, header ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	got, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{got, string(text)}
}

func TestRefused(t *testing.T) {
	s := newBareNode(t, web.Options{})
	long := strings.Repeat("k", 513)
	for _, c := range []struct {
		method, path string
		status       int
		want         []string // all of them are in the detail
	}{
		{"GET", "/api/v1/jobs?limit=501", 400, []string{"query.limit", "500"}},
		{"GET", "/api/v1/jobs?limit=0", 400, []string{"query.limit", "from 1 to 500"}},
		{"GET", "/api/v1/jobs?limit=-1", 400, []string{"query.limit"}},
		{"GET", "/api/v1/jobs?limit=ten", 400, []string{"query.limit", `"ten"`}},
		{"GET", "/api/v1/jobs?limit=99999999999999999999", 400, []string{"query.limit"}},
		{"GET", "/api/v1/jobs?limt=5", 400, []string{"query.limt", "did you mean limit?"}},
		{"GET", "/api/v1/jobs?wobble=5", 400, []string{"query.wobble", "there are rule, entity, key"}},
		{"GET", "/api/v1/jobs?rule=a&rule=b", 400, []string{"query.rule", "2 times"}},
		{"GET", "/api/v1/jobs?key=a%00b", 400, []string{"query.key", "NUL"}},
		{"GET", "/api/v1/jobs?key=%ff", 400, []string{"query.key", "UTF-8"}},
		{"GET", "/api/v1/jobs?key=%zz", 400, []string{"query", "%zz"}},
		{"GET", "/api/v1/jobs?key=" + long, 400, []string{"query.key", "513", "512"}},
		{"GET", "/api/v1/jobs?due_after=yesterday", 400, []string{"query.due_after", "2026-01-31T15:04:05Z"}},
		{"GET", "/api/v1/jobs?limit=x&due_before=y", 400, []string{"query.limit", "query.due_before"}},
		{"GET", "/api/v1/history?due_after=2026-01-31T15:04:05Z", 400, []string{"query.due_after"}},
		{"GET", "/api/v1/dead-letters?entity=x", 400, []string{"query.entity"}},
		{"GET", "/api/v1/nodes?limit=5", 400, []string{"query.limit", "none"}},
		{"GET", "/api/v1/jobs/some-rule", 400, []string{"query.key", "missing"}},
		{"DELETE", "/api/v1/jobs/some-rule", 400, []string{"query.key", "missing"}},
		{"POST", "/api/v1/jobs/some-rule/check", 400, []string{"query.key", "missing"}},
		{"GET", "/api/v1/entities/order", 400, []string{"query.key", "missing"}},
		{"GET", "/api/v1/alerts/7", 400, []string{"path.id", `"7"`}},
		{"GET", "/api/v1/alerts?severity=warnin", 400, []string{"query.severity", `"warnin" is not one of info, warning, error, critical; did you mean warning?`}},
		{"GET", "/api/v1/alerts?status=open", 400, []string{"query.status", "firing"}},
		{"GET", "/api/v1/alerts?backlog=5", 400, []string{"query.backlog", "text/event-stream"}},
		{"GET", "/api/v1/jobs?due=maybe", 400, []string{"query.due", "neither true nor false"}},
		{"GET", "/api/v1/jobs?due", 400, []string{"query.due", "no value"}},
		{"GET", "/api/v1/jobs?limit=", 400, []string{"query.limit", "no value"}},
		{"GET", "/api/v1/jobs?limt=1&wobble=2", 400, []string{"query.limt", "query.wobble"}},
		{"GET", "/api/v1/history?ended_after=noon", 400, []string{"query.ended_after", `"noon" is not a time`}},
		{"GET", "/api/v1/history?outcome=%00", 400, []string{"query.outcome", "NUL"}},
		{"GET", "/api/v1/rules?cursor=bogus", 400, []string{"cursor"}},
		{"GET", "/api/v1/rules?paused=perhaps", 400, []string{"query.paused", "true, false"}},
		{"GET", "/api/v1/rules/r/versions/0", 400, []string{"path.version", "from 1 to"}},
		{"GET", "/api/v1/rules/r/versions/newest", 400, []string{"path.version", `"newest"`}},
		{"GET", "/api/v1/rules/r/diff?from=x", 400, []string{"query.from"}},
		{"GET", "/api/v1/ruls", 404, []string{"nothing exists at /api/v1/ruls; /api/v1 lists"}},
		{"GET", "/api/v1?limit=5", 400, []string{"query.limit", "none"}},
		{"GET", "/nowhere", 404, []string{"/nowhere; the API is under /api/v1"}},
		{"PUT", "/api/v1/jobs", 405, []string{"PUT", "GET, HEAD, POST"}},
		{"PATCH", "/api/v1/rules/r", 405, []string{"PATCH", "GET, HEAD, PUT, DELETE"}},
		{"PUT", "/api/v1/jobs/r/k", 405, []string{"GET, HEAD, DELETE"}},
		{"PUT", "/api/v1/jobs/r/a%2Fb", 405, []string{"GET, HEAD, DELETE"}},
		{"GET", "/api/v1/events/orders.created", 405, []string{"POST"}},
		{"POST", "/healthz", 405, []string{"GET"}},
		{"POST", "/api/v1/events/orders.*", 400, []string{"path.subject", "wildcard"}},
		{"POST", "/api/v1/events/orders.%3E", 400, []string{"path.subject", "wildcard"}},
		{"POST", "/api/v1/events/orders..created", 400, []string{"path.subject", "empty"}},
		{"POST", "/api/v1/events/orders%20created", 400, []string{"path.subject", "space"}},
		{"POST", "/api/v1/events/orders.created%0d%0aPUB", 400, []string{"path.subject", "space or a control character"}},
		{"POST", "/api/v1/events/orders.created?id=7", 400, []string{"query.id"}},
	} {
		t.Run(c.method+" "+c.path[:min(len(c.path), 60)], func(t *testing.T) {
			a := requestPath(t, s, c.method, c.path, "")
			p := a.problem(t)
			if a.StatusCode != c.status {
				t.Fatalf("status %d, want %d: %s", a.StatusCode, c.status, a.body)
			}
			for _, part := range c.want {
				if !strings.Contains(p.Detail, part) {
					t.Errorf("%q does not contain %q", p.Detail, part)
				}
			}
			if c.status == 405 && a.Header.Get("Allow") == "" {
				t.Error("a 405 has no Allow")
			}
			if c.status == 400 && len(p.Errors) == 0 && p.Type != web.BadCursor.URN() {
				t.Error("a 400 does not list what is wrong")
			}
		})
	}
}

func TestRefusedEvents(t *testing.T) {
	s := newBareNode(t, web.Options{})
	const path = "/api/v1/events/orders.created"
	limit := strings.Repeat(" ", web.MaxEventBytes-2) + "{}"

	if a := requestPath(t, s, "POST", path, limit+" "); a.StatusCode != 413 || !strings.Contains(a.problem(t).Detail, "262144") {
		t.Errorf("a byte too many: %d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s, "POST", path, "{", "Content-Type", "application/json; charset=utf-8"); a.StatusCode != 400 {
		t.Errorf("JSON that is none: %d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s, "POST", path, "{}", "Nats-Msg-Id", "1", "Idempotency-Key", "2"); a.StatusCode != 400 {
		t.Errorf("two ids: %d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s, "POST", path, "{}", "Idempotency-Key", strings.Repeat("i", 257)); a.StatusCode != 400 {
		t.Errorf("a long id: %d %s", a.StatusCode, a.body)
	}
}

// TestLoopbackOnly checks that a page that rebinds its name to a loopback address is refused, since it sends that name
// as Host.
func TestLoopbackOnly(t *testing.T) {
	s := newBareNode(t, web.Options{LoopbackOnly: true, PublicURL: "https://deadman.example.org/x"})
	for host, ok := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST.": true, "a.localhost:1": true,
		"127.0.0.1": true, "127.8.9.1:80": true, "[::1]": true, "[::1]:8080": true, "[::ffff:127.0.0.1]:1": true,
		"deadman.example.org": true, "Deadman.Example.org:443": true,
		"evil.example.org": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"10.0.0.1": false, "0.0.0.0": false, "[::2]:1": false, "2130706433": false, "notlocalhost": false,
	} {
		a := requestPath(t, s, "GET", "/healthz", "", "Host", host)
		if (a.StatusCode == 200) != ok {
			t.Errorf("host %s: status %d", host, a.StatusCode)
		}
		if !ok && a.problem(t).Status != 403 {
			t.Errorf("host %s: %s", host, a.body)
		}
	}
	if a := requestPath(t, newBareNode(t, web.Options{}), "GET", "/healthz", "", "Host", "any.example.org"); a.StatusCode != 200 {
		t.Errorf("a node that is not on loopback refuses its name: %s", a.body)
	}
}

func TestOtherSites(t *testing.T) {
	s := newBareNode(t, web.Options{})
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example.org"}, {"Origin", "null"},
	} {
		if a := requestPath(t, s, "POST", "/api/v1/events/a.b", "{}", header...); a.StatusCode != 403 {
			t.Errorf("%v may send events: %d", header, a.StatusCode)
		} else {
			a.problem(t)
		}
		if a := requestPath(t, s, "GET", "/healthz", "", header...); a.StatusCode != 200 {
			t.Errorf("%v may not read: %d", header, a.StatusCode)
		}
	}
}

func TestReadiness(t *testing.T) {
	for _, c := range []struct {
		conditions []web.Condition
		status     int
		all        int // with ?all
	}{
		{[]web.Condition{{Name: "database", OK: true, Vital: true}, {Name: "nats", OK: true}}, 200, 200},
		{[]web.Condition{{Name: "database", OK: true, Vital: true}, {Name: "nats", Detail: "not connected"}}, 200, 503},
		{[]web.Condition{{Name: "database", Vital: true}, {Name: "nats", OK: true}}, 503, 503},
	} {
		s := newBareNode(t, web.Options{Health: func(context.Context) []web.Condition { return c.conditions }})
		a := requestPath(t, s, "GET", "/readyz", "")
		var got web.Readiness
		if err := json.Unmarshal([]byte(a.body), &got); err != nil {
			t.Fatal(err)
		}
		if a.StatusCode != c.status || got.Ready != (c.status == 200) || got.Healthy != (c.all == 200) || len(got.Conditions) != len(c.conditions) {
			t.Errorf("%v: %d %s", c.conditions, a.StatusCode, a.body)
		}
		if a := requestPath(t, s, "GET", "/readyz?all", ""); a.StatusCode != c.all {
			t.Errorf("%v: %d for a request of all", c.conditions, a.StatusCode)
		}
		if a := requestPath(t, s, "GET", "/healthz", ""); a.StatusCode != 200 {
			t.Errorf("the process runs, and /healthz answers %d", a.StatusCode)
		}
	}
}

// TestPanic checks that an internal error is answered without its details.
func TestPanic(t *testing.T) {
	s := newBareNode(t, web.Options{})
	a := requestPath(t, s, "GET", "/api/v1/jobs", "")
	if p := a.problem(t); a.StatusCode != 500 || strings.Contains(a.body, "nil pointer") || strings.Contains(a.body, ".go:") {
		t.Errorf("%d %+v", a.StatusCode, p)
	}
}

// TestEncodingErrorIsProblem checks that an answer that cannot be encoded is a problem from its first byte.
func TestEncodingErrorIsProblem(t *testing.T) {
	s := newFixture(t)
	s.createJob("1", time.Hour, `{"half": `)
	checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/jobs/order-unshipped/1", ""), 500, web.Internal, "see the log of the node")
}
