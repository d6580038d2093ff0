package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/access"
	"deadman/web"
)

// closedNode makes a fixture that requires tokens.
func closedNode(o *web.Options, s *fixture) {
	o.Open, o.Keeper = nil, access.NewTokens(s.store, time.Now)
	s.keeper = o.Keeper
}

// newToken makes a token and returns the header that sends it.
func (s *fixture) newToken(name, prefix string, scopes ...access.Scope) []string {
	s.t.Helper()
	request := access.TokenRequest{Name: name, Prefix: prefix, Scopes: scopes}
	if prefix != "" {
		request.Bounds.Subjects = []string{"orders.>"}
	}
	_, secret, err := s.keeper.Create(s.t.Context(), request)
	failOn(s.t, err)
	return []string{"Authorization", "Bearer " + secret}
}

func TestClosedNodeAnswersNothingButHealth(t *testing.T) {
	s := newFixture(t, closedNode)
	for _, path := range []string{"/healthz", "/readyz", "/login"} {
		if a := requestPath(t, s.Server, "GET", path, ""); a.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	paths := []string{"/", "/docs", "/docs/concepts", "/docs/pictures/editor.png", "/docs/api", "/openapi.json", "/metrics", "/debug/pprof/heap", "/alerts/x", "/api/v1", "/nowhere", "/login/x", "/healthz/x"}
	for _, r := range get[web.Index](t, newFixture(t).Server, "/api/v1").Routes {
		paths = append(paths, r.Method+" "+r.Path)
	}
	for i, path := range paths {
		method := "GET"
		if m, p, ok := strings.Cut(path, " "); ok {
			method, path = m, p
		}
		for _, header := range [][]string{nil, {"Authorization", "Bearer dm_unknown"}, {"Authorization", "Basic eDp5"}, {"Cookie", "deadman_session=ds_unknown"}, {"Authorization", "Bearer"}} {
			a := s.requestFrom(fmt.Sprintf("192.0.2.%d", i%250), method, path, "{}", header...)
			checkProblem(t, a, 401, web.Unauthorized, "token")
			if !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer") || strings.Contains(a.body, "dm_unknown") {
				t.Errorf("%s %s: %v %s", method, path, a.Header, a.body)
			}
		}
	}
	if a := requestPath(t, s.Server, "GET", "/", "", "Accept", "text/html,*/*"); a.StatusCode != 303 || a.Header.Get("Location") != "/login" {
		t.Errorf("a browser is led to %d %s", a.StatusCode, a.Header.Get("Location"))
	}
	// The configuration names no way to authenticate.
	if a := requestPath(t, newClosedNode(t), "GET", "/api/v1/jobs", "", "Authorization", "Bearer dm_x"); a.StatusCode != 401 {
		t.Errorf("a node that is not open and has no tokens accepts a request: %d", a.StatusCode)
	}
}

func TestScopes(t *testing.T) {
	s := newFixture(t, closedNode)
	of := map[access.Scope][]string{}
	for _, scope := range access.Scopes {
		of[scope] = s.newToken(string(scope), "", scope)
	}
	const job = `{"rule": "order-unshipped", "key": "1"}`
	for _, c := range []struct {
		method, path, body string
		may                string // the permitted scopes
	}{
		{"GET", "/", "", "read oncall rules admin"},
		{"GET", "/docs", "", "read oncall rules admin"},
		{"GET", "/docs/api", "", "read oncall rules admin"},
		{"GET", "/openapi.json", "", "read oncall rules admin"},
		{"GET", "/metrics", "", "read oncall rules admin"},
		{"GET", "/debug/pprof/heap", "", "admin"},
		{"GET", "/api/v1/jobs", "", "read oncall rules admin"},
		{"GET", "/api/v1/rules/order-unshipped", "", "read oncall rules admin"},
		{"GET", "/api/v1/dead-letters", "", "read oncall rules admin"},
		{"GET", "/api/v1/nodes", "", "read oncall rules admin"},
		{"GET", "/api/v1/streams", "", "read oncall rules admin"},
		{"GET", "/api/v1/tokens/self", "", "read oncall rules admin"},
		{"GET", "/api/v1/sessions", "", "read oncall rules admin"},
		{"DELETE", "/api/v1/sessions/x", "", "read oncall rules admin"},
		{"GET", "/api/v1/dead-letters/reasons", "", "read oncall rules admin"},
		{"GET", "/api/v1/outages", "", "read oncall rules admin"},
		{"POST", "/api/v1/rules/lint", unshippedRule, "read oncall rules admin"},
		{"POST", "/api/v1/rules/order-unshipped/preview", `{"event": {"data": {"id": "1"}}}`, "read oncall rules admin"},
		{"POST", "/api/v1/events/orders.created", `{"id": "1"}`, "events admin"},
		{"PUT", "/api/v1/rules/order-unshipped", unshippedRule, "rules admin"},
		{"POST", "/api/v1/rules/order-unshipped/pause", "", "rules admin"},
		{"GET", "/api/v1/rules/order-unshipped/pings", "", "rules admin"},
		{"POST", "/api/v1/rules/order-unshipped/pings", "{}", "rules admin"},
		{"DELETE", "/api/v1/rules/order-unshipped/pings", "", "rules admin"},
		{"GET", "/api/v1/rules/order-unshipped/pings/log", "", "read oncall rules admin"},
		{"POST", "/api/v1/jobs?", job, "rules admin"},
		{"POST", "/api/v1/jobs/order-unshipped/1/check", "", "rules admin"},
		{"POST", "/api/v1/jobs/order-unshipped/1/snooze", `{"for": "1h"}`, "oncall rules admin"},
		{"DELETE", "/api/v1/jobs/order-unshipped/1", "", "rules admin"},
		{"DELETE", "/api/v1/entities/order/1/jobs", "", "rules admin"},
		{"GET", "/api/v1/channels", "", "read oncall rules admin"},
		{"GET", "/api/v1/schemas/rule", "", "read oncall rules admin"},
		{"GET", "/api/v1/handlers", "", "read oncall rules admin"},
		{"POST", "/api/v1/handlers/shipping/test", "{}", "rules admin"},
		{"POST", "/api/v1/channels/hook/test", "", "admin"},
		{"GET", "/api/v1/mutes", "", "read oncall rules admin"},
		{"POST", "/api/v1/mutes", `{"match": {"rule": "x"}, "reason": "r", "for": "1h"}`, "oncall rules admin"},
		{"POST", "/api/v1/mutes/preview", `{"match": {"rule": "x"}}`, "read oncall rules admin"},
		{"DELETE", "/api/v1/mutes/7", "", "oncall rules admin"},
		{"POST", "/api/v1/alerts/019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d/ack", "", "oncall rules admin"},
		{"DELETE", "/api/v1/alerts/019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d/ack", "", "oncall rules admin"},
		{"GET", "/api/v1/tokens", "", "admin"},
		{"POST", "/api/v1/tokens", `{"name": "x", "scopes": ["read"]}`, "admin"},
		{"DELETE", "/api/v1/tokens/x", "", "admin"},
		{"GET", "/api/v1/audit", "", "admin"},
	} {
		for scope, header := range of {
			a := requestPath(t, s.Server, c.method, c.path, c.body, header...)
			if may := strings.Contains(" "+c.may+" ", " "+string(scope)+" "); may == (a.StatusCode == 403) {
				t.Errorf("%s may %s %s: %d %s", scope, c.method, c.path, a.StatusCode, a.body)
			}
			if a.StatusCode == 403 {
				checkProblem(t, a, 403, web.Forbidden, "scope")
			}
			if a.StatusCode == 401 || a.StatusCode >= 500 || a.StatusCode == 422 {
				t.Errorf("%s %s as %s: %d %s", c.method, c.path, scope, a.StatusCode, a.body)
			}
		}
	}
}

// TestPrefix checks that a token with a prefix reads and changes only its own rules.
func TestPrefix(t *testing.T) {
	s := newFixture(t, closedNode)
	s.saveRule(strings.Replace(unshippedRule, "order-unshipped", "acme-late", 1))
	ours := s.newToken("acme", "acme-*", access.Rules, access.Events)
	all := s.newToken("all", "", access.Admin)
	for _, rule := range []string{"acme-late", "order-unshipped"} {
		if a := requestPath(t, s.Server, "POST", "/api/v1/jobs", fmt.Sprintf(`{"rule": %q, "key": "1"}`, rule), all...); a.StatusCode != 201 {
			t.Fatal(a.body)
		}
	}
	others := s.alert("1", "late", time.Hour) // of order-unshipped
	failOn(t, s.Cancel(t.Context(), "order-unshipped", "1", ""))
	s.createJob("2", time.Hour, `{}`)

	list := func(path string, header []string) []map[string]any {
		t.Helper()
		var page web.Page[map[string]any]
		a := requestPath(t, s.Server, "GET", path, "", header...)
		failOn(t, json.Unmarshal([]byte(a.body), &page))
		return page.Items
	}
	for path, want := range map[string][2]int{ // own, all
		"/api/v1/rules": {1, 2}, "/api/v1/jobs": {1, 2}, "/api/v1/history": {0, 1}, "/api/v1/alerts": {0, 2},
		"/api/v1/jobs?rule=order-unshipped": {0, 1}, "/api/v1/jobs?key=2": {0, 1}, "/api/v1/alerts?key=1": {0, 2}, "/api/v1/history?key=1": {0, 1},
	} {
		if a, b := len(list(path, ours)), len(list(path, all)); a != want[0] || b != want[1] {
			t.Errorf("%s shows %d and %d, want %v", path, a, b, want)
		}
	}
	var e web.Entity
	failOn(t, json.Unmarshal([]byte(requestPath(t, s.Server, "GET", "/api/v1/entities/order/1", "", ours...).body), &e))
	if len(e.Jobs.Items) != 1 || e.Jobs.Items[0].Rule != "acme-late" || len(e.History.Items)+len(e.Alerts.Items) != 0 {
		t.Errorf("of an entity it sees %+v", e)
	}
	if a := requestPath(t, s.Server, "GET", "/", "", ours...); a.StatusCode != 200 || strings.Contains(a.body, "order-unshipped") || !strings.Contains(a.body, "acme-late") {
		t.Errorf("on the page it sees %s", a.body)
	}
	checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/alerts/"+others.ID.String(), "", ours...), 404, web.NotFound)
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/alerts/"+others.ID.String()+"/ack", "", ours...), 404, web.NotFound)

	const job = "/api/v1/jobs/order-unshipped/2"
	foreign := strings.Replace(paidRule, "paid", "zenith", 1)
	for _, c := range [][3]string{
		{"GET", "/api/v1/rules/order-unshipped"},
		{"GET", "/api/v1/rules/order-unshipped/versions"},
		{"GET", "/api/v1/rules/order-unshipped/diff"},
		{"PUT", "/api/v1/rules/order-unshipped", unshippedRule},
		{"PUT", "/api/v1/rules/zenith", foreign},
		{"POST", "/api/v1/rules", foreign},
		{"POST", "/api/v1/rules/lint", foreign},
		{"DELETE", "/api/v1/rules/order-unshipped"},
		{"POST", "/api/v1/rules/order-unshipped/pause"},
		{"POST", "/api/v1/rules/order-unshipped/preview", `{"event": {}}`},
		{"POST", "/api/v1/jobs", `{"rule": "order-unshipped", "key": "3"}`},
		{"GET", job},
		{"DELETE", job},
		{"DELETE", "/api/v1/jobs/order-unshipped?key=2"},
		{"POST", job + "/check"},
		{"POST", job + "/snooze", `{"for": "2h"}`},
		{"DELETE", "/api/v1/entities/order/2/jobs"},
		{"POST", "/api/v1/events/orders.created", `{"id": "1"}`},
		{"GET", "/api/v1/dead-letters"},
		{"GET", "/api/v1/dead-letters/1"},
		{"GET", "/api/v1/nodes"},
		{"GET", "/api/v1/streams"},
		{"GET", "/api/v1/outages"},
		{"GET", "/api/v1/handlers"},
		{"POST", "/api/v1/handlers/shipping/test", "{}"},
		{"GET", "/metrics"},
	} {
		checkProblem(t, requestPath(t, s.Server, c[0], c[1], c[2], ours...), 403, web.Forbidden, "acme-*")
	}
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/events/orders.created", `{"id": "1"}`, ours...), 403, web.Forbidden, "no subject to publish to (bound publish)", "--publish")
	for _, c := range [][3]string{
		{"GET", "/api/v1/rules/acme-late"},
		{"POST", "/api/v1/rules", strings.Replace(paidRule, "paid", "acme-paid", 1)},
		{"POST", "/api/v1/rules/acme-late/pause"},
		{"POST", "/api/v1/jobs/acme-late/1/check"},
		{"DELETE", "/api/v1/jobs/acme-late/1"},
	} {
		if a := requestPath(t, s.Server, c[0], c[1], c[2], ours...); a.StatusCode >= 300 {
			t.Errorf("its own: %v: %d %s", c, a.StatusCode, a.body)
		}
	}
	if left := list("/api/v1/jobs", all); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

func TestPrefixOfStream(t *testing.T) {
	s := newFixture(t, closedNode)
	s.saveRule(strings.Replace(unshippedRule, "order-unshipped", "acme-late", 1))
	ours := s.newToken("acme", "acme-*", access.Read)
	s.createJob("1", time.Hour, `{}`)
	s.alert("1", "of another rule", time.Hour)
	f := followAlerts(t, s.URL, "?backlog=10", ours...)
	acme := alerts.Alert{ID: alerts.ID{7}, Rule: "acme-late", Key: "2", Detail: alerts.Detail{Draft: alerts.Draft{Severity: alerts.Info, Text: "ours"}}}
	_, err := s.bus.AlertPublisher.Publish(t.Context(), []alerts.Alert{acme})
	failOn(t, err)
	if _, a := f.next(t); a.Rule != "acme-late" {
		t.Errorf("the stream shows %s", a.Rule)
	}
}

func TestTokensAndAudit(t *testing.T) {
	s := newFixture(t, closedNode)
	admin := s.newToken("root", "", access.Admin)
	a := requestPath(t, s.Server, "POST", "/api/v1/tokens", `{"name": "ci", "scopes": ["events"], "expires": "90d"}`, admin...)
	var made web.NewToken
	failOn(t, json.Unmarshal([]byte(a.body), &made))
	if a.StatusCode != 201 || !strings.HasPrefix(made.Secret, "dm_") || made.CreatedBy != "root" || made.Status != "active" || made.ExpiresAt.Sub(made.CreatedAt) != 90*24*time.Hour {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/tokens", `{"name": "ci", "scopes": ["events"]}`, admin...), 409, web.Conflict, "in use")
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/tokens", `{"name": "-", "scopes": ["evnts"]}`, admin...), 422, web.Invalid, "body.name", "body.scopes[0]", "did you mean events?")
	for _, expires := range []string{"soon", "0s", "-1h"} {
		checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/tokens", fmt.Sprintf(`{"name": "b", "scopes": ["read"], "expires": %q}`, expires), admin...), 422, web.Invalid, "body.expires")
	}
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/tokens", `{"name": "b", "scopes": ["read"]}`, append([]string{"Idempotency-Key", "k"}, admin...)...), 400, web.BadRequest, "Idempotency-Key")

	mine := []string{"Authorization", "bearer " + made.Secret}
	if a := requestPath(t, s.Server, "POST", "/api/v1/events/orders.created", `{"id": "1"}`, mine...); a.StatusCode != 202 {
		t.Errorf("the new token: %d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/tokens/ci", "", admin...); a.StatusCode != 204 {
		t.Errorf("revoked: %d %s", a.StatusCode, a.body)
	}
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/events/orders.created", `{}`, mine...), 401, web.Unauthorized, "revoked")
	checkProblem(t, requestPath(t, s.Server, "DELETE", "/api/v1/tokens/ci", "", admin...), 404, web.NotFound, "token")

	list := func(path string) (page web.Page[map[string]any]) {
		t.Helper()
		a := requestPath(t, s.Server, "GET", path, "", admin...)
		failOn(t, json.Unmarshal([]byte(a.body), &page))
		if strings.Contains(a.body, made.Secret) {
			t.Errorf("%s shows a secret", path)
		}
		return page
	}
	first := list("/api/v1/tokens?limit=1")
	rest := list("/api/v1/tokens?limit=1&cursor=" + first.Next)
	if len(first.Items) != 1 || first.Items[0]["name"] != "ci" || first.Items[0]["status"] != "revoked" || len(rest.Items) != 1 || rest.Items[0]["name"] != "root" || rest.Next != "" {
		t.Errorf("tokens: %+v %+v", first, rest)
	}
	if a := requestPath(t, s.Server, "PUT", "/api/v1/rules/paid", paidRule, admin...); a.StatusCode != 201 {
		t.Fatal(a.body)
	}
	saves := list("/api/v1/audit?actor=root&action=rule.*&object=" + url.QueryEscape("rule/paid"))
	if len(saves.Items) != 1 || saves.Items[0]["actor"] != "root" || saves.Items[0]["addr"] != "127.0.0.1" || saves.Items[0]["token_id"] == nil {
		t.Errorf("the audit has %+v", saves)
	}
	longest := "job/" + strings.Repeat("r", 63) + "/" + strings.Repeat("k", 512)
	if page := list("/api/v1/audit?object=" + longest); len(page.Items) != 0 {
		t.Errorf("of the longest name of a job, to which nothing was done: %+v", page)
	}
	checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/audit?object="+longest+"k", "", admin...), 400, web.BadRequest, "the limit is 580")
	if page := list("/api/v1/audit?limit=1"); len(page.Items) != 1 || page.Next == "" {
		t.Errorf("a page of the audit: %+v", page)
	}
	checkProblem(t, requestPath(t, newFixture(t).Server, "GET", "/api/v1/tokens", ""), 404, web.NotFound, "no tokens")
}

func TestLogin(t *testing.T) {
	s := newFixture(t, closedNode)
	secret := strings.TrimPrefix(s.newToken("me", "", access.Read)[1], "Bearer ")
	cookie := func(a answer) *http.Cookie {
		t.Helper()
		if a.StatusCode != 303 || a.Header.Get("Location") != "/" || len(a.Cookies()) != 1 {
			t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.body)
		}
		return a.Cookies()[0]
	}
	c := cookie(requestPath(t, s.Server, "POST", "/login", "token="+secret, formOf...))
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.Secure || c.Expires.Before(s.now.Add(29*24*time.Hour)) {
		t.Errorf("the cookie is %v", c)
	}
	if a := requestPath(t, s.Server, "GET", "/", "", "Cookie", c.Name+"="+c.Value); a.StatusCode != 200 || !strings.Contains(a.body, "All systems of deadman operational") {
		t.Errorf("with it: %d", a.StatusCode)
	}
	a := requestPath(t, s.Server, "POST", "/login", "token=dm_x", formOf...)
	if a.StatusCode != 401 || !strings.Contains(a.body, "unknown, expired or revoked") || strings.Contains(a.body, "dm_x") || len(a.Cookies()) > 0 {
		t.Errorf("a wrong token: %d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s.Server, "POST", "/login", "token="+secret, "Content-Type", formOf[1], "Sec-Fetch-Site", "cross-site"); a.StatusCode != 403 {
		t.Errorf("a page of another site logs in: %d", a.StatusCode)
	}
	page := requestPath(t, s.Server, "GET", "/login", "")
	if p := page.Header.Get("Content-Security-Policy"); !strings.Contains(p, "form-action 'self'") || strings.Contains(p, "unsafe") {
		t.Errorf("its policy is %s", p)
	}
	secure := newFixture(t, closedNode, func(o *web.Options, _ *fixture) { o.PublicURL = "https://deadman.example.org" })
	secret = strings.TrimPrefix(secure.newToken("me", "", access.Read)[1], "Bearer ")
	if c := cookie(requestPath(t, secure.Server, "POST", "/login", "token="+secret, formOf...)); !c.Secure || !strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("behind https the cookie is %v", c)
	}
	_, short, err := s.keeper.Create(t.Context(), access.TokenRequest{Name: "short", Scopes: []access.Scope{access.Read}, Expires: time.Hour})
	failOn(t, err)
	if c := cookie(requestPath(t, s.Server, "POST", "/login", "token="+short, formOf...)); c.Expires.After(s.now.Add(2 * time.Hour)) {
		t.Errorf("the session outlives its token: %v", c)
	}
	if a := requestPath(t, newFixture(t).Server, "GET", "/login", ""); a.StatusCode != 303 {
		t.Errorf("an open node asks for a token: %d", a.StatusCode)
	}
}

// TestOpenNodeActsAsLoopback checks that an open node records loopback as the actor.
func TestOpenNodeActsAsLoopback(t *testing.T) {
	s := newFixture(t)
	decodeChange(t, requestPath(t, s.Server, "PUT", "/api/v1/rules/paid", paidRule), 201)
	entries, _, err := s.store.Audit(context.WithoutCancel(t.Context()), access.AuditFilter{Object: "rule/paid"})
	if err != nil || len(entries) != 1 || entries[0].Actor.Name != access.Loopback {
		t.Errorf("%+v %v", entries, err)
	}
}

// TestOnCallScope tries all operations of the API with a token of the scope oncall: it changes acknowledgements, snoozes
// and mutes, and nothing else. Lints, previews and replays of saved rules change nothing, and a session is its own.
func TestOnCallScope(t *testing.T) {
	s := newFixture(t, closedNode)
	header := s.newToken("oncall", "", access.OnCall)
	allowed := map[string]bool{
		"POST /api/v1/alerts/ack": true, "POST /api/v1/alerts/unack": true, "POST /api/v1/alerts/snooze": true, "POST /api/v1/alerts/{id}/ack": true, "DELETE /api/v1/alerts/{id}/ack": true,
		"POST /api/v1/jobs/{rule}/{key}/snooze": true, "POST /api/v1/jobs/{rule}/snooze": true,
		"POST /api/v1/mutes": true, "POST /api/v1/mutes/preview": true, "DELETE /api/v1/mutes/{id}": true,
		"POST /api/v1/rules/lint": true, "POST /api/v1/rules/preview": true, "POST /api/v1/rules/{name}/preview": true,
		"POST /api/v1/rules/{name}/replays": true, "DELETE /api/v1/replays/{id}": true,
		"DELETE /api/v1/sessions/{id}": true,
	}
	part, tried := regexp.MustCompile(`\{[a-z]+\}`), 0
	for _, route := range get[web.Index](t, newFixture(t).Server, "/api/v1").Routes {
		if route.Method == "GET" {
			continue
		}
		tried++
		name := route.Method + " " + route.Path
		a := requestPath(t, s.Server, route.Method, part.ReplaceAllString(route.Path, "x"), "{}", header...)
		if refused := a.StatusCode == 403; refused == allowed[name] {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
		delete(allowed, name)
	}
	if len(allowed) > 0 || tried < 30 {
		t.Errorf("%d operations were tried, not %v", tried, allowed)
	}
}
