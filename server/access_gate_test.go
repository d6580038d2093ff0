package server_test

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// tokenRecorder collects the first tokens of nodes. It is safe for concurrent use.
type tokenRecorder struct {
	mu      sync.Mutex
	secrets []string
}

func (h *tokenRecorder) record(secret, _ string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.secrets = append(h.secrets, secret)
}

func (h *tokenRecorder) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.secrets)
}

// bearer returns the header of a token.
func bearer(secret string) []string { return []string{"Authorization", "Bearer " + secret} }

// A node on loopback with a public URL requires tokens from its first start: only the URL reveals the proxy in front
// of it.
func TestNodeWithPublicURLIsClosed(t *testing.T) {
	t.Parallel()
	for url, open := range map[string]bool{
		"": true, "http://localhost:8080": true, "http://127.0.0.1": true, "http://[::1]:8080/x": true,
		"https://deadman.example.org": false, "http://localhost.example.org": false, "http://localhost@example.org": false, "http://10.0.0.1:8080": false,
	} {
		var first tokenRecorder
		n := startReadyNode(t, server.Config{PublicURL: url, FirstToken: first.record})
		if n.Open != open || len(first.all()) == 1 == open {
			t.Errorf("%q: open %t, with %d first tokens", url, n.Open, len(first.all()))
		}
		if !open {
			n.callExpecting(http.StatusUnauthorized, http.MethodGet, "/api/v1/tokens", "")
			n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/tokens", "", bearer(first.all()[0])...)
		}
		n.shutDown()
	}
}

// A proxied request is rejected by an open node, and accepted with a token.
func TestOpenNodeBehindProxy(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{})
	for _, header := range [][]string{
		{"Via", "1.1 nginx"},
		{"X-Forwarded-For", "203.0.113.7"},
		{"X-Forwarded-Proto", "https"},
		{"X-Forwarded-Anything", ""},
		{"Forwarded", "for=203.0.113.7"},
		{"X-Real-Ip", "203.0.113.7"},
		{"x-forwarded-host", "a"},
		{"CF-Connecting-IP", "203.0.113.7"},
		{"True-Client-IP", "203.0.113.7"},
		{"X-Cluster-Client-IP", "203.0.113.7"},
		{"Fly-Client-IP", "203.0.113.7"},
		{"CDN-Loop", "cloudflare"},
		{"X-Original-Host", "deadman.example.org"},
		{"X-Envoy-External-Address", "203.0.113.7"},
		{"Tailscale-User-Login", "ann@example.org"},
		{"X-Appengine-User-Ip", "203.0.113.7"},
		{"Fastly-Client-IP", "203.0.113.7"},
		{"Vendor-Client-IP", "203.0.113.7"},
		{"Vendor-Connecting-IP", "203.0.113.7"},
		{"Client-IP", "203.0.113.7"},
		{"Remote-User", "ann"},
		{"Remote-Groups", "sre"},
		{"X-Remote-Addr", "203.0.113.7"},
		{"X-Auth-Request-Email", "ann@example.org"},
		{"X-Amzn-Trace-Id", "Root=1"},
		{"X-Amz-Cf-Id", "a"},
		{"CloudFront-Viewer-Country", "DE"},
		{"X-Azure-SocketIP", "203.0.113.7"},
		{"X-Ms-Client-Principal-Name", "ann"},
		{"X-Original-URI", "/"},
		{"X-ProxyUser-Ip", "203.0.113.7"},
		{"Proxy-Connection", "keep-alive"},
		{"Fly-Region", "fra"},
		{"CDN-RequestId", "1"},
		{"X-Vercel-Id", "1"},
		{"X-Pomerium-Jwt-Assertion", "e30"},
		{"X-Client-Cert", "MII"},
		{"SSL-Client-Verify", "SUCCESS"},
	} {
		for _, of := range [][3]string{
			{http.MethodGet, "/api/v1/tokens", ""},
			{http.MethodGet, "/", ""},
			{http.MethodGet, "/metrics", ""},
			{http.MethodPost, "/api/v1/tokens", `{"name":"pwned","scopes":["admin"]}`},
			{http.MethodPost, "/api/v1/events/a.b", `{}`},
		} {
			got := n.callExpecting(http.StatusForbidden, of[0], of[1], of[2], header...)
			var why struct{ Detail string }
			got.decode(t, &why)
			if !strings.Contains(strings.ToLower(why.Detail), strings.ToLower(header[0])) || !strings.Contains(why.Detail, "deadman token create") {
				t.Errorf("%v: %s", header, why.Detail)
			}
		}
		n.callExpecting(http.StatusOK, http.MethodGet, "/healthz", "", header...)
	}
	for _, header := range []string{
		"Accept-Language", "Origin-Agent-Cluster", "Sec-Fetch-User", "Dnt", "Referer", "Traceparent", "X-B3-Traceid", "Baggage", "X-Request-Id", "X-Correlation-Id",
		"X-Requested-With", "X-Hub-Signature-256", "Stripe-Signature", "Ce-Id", "Nats-Msg-Id", "Idempotency-Key", "Priority", "Client", "Remote", "X-Client-Version",
	} {
		n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/tokens", "", header, "1")
	}
	if got := n.sendRaw(t, "GET /api/v1/tokens HTTP/1.0\r\nHost: 127.0.0.1:8080\r\nConnection: close\r\n\r\n"); !strings.Contains(got, " 403 ") || !strings.Contains(got, "its version, HTTP/1.0") {
		t.Errorf("request of nginx: %s", got)
	}
	var made struct{ Secret string }
	n.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/tokens", `{"name":"me","scopes":["admin"]}`).decode(t, &made)
	n.callExpecting(http.StatusUnauthorized, http.MethodGet, "/api/v1/tokens", "", "Via", "1.1 nginx")
	n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/tokens", "", append(bearer(made.Secret), "Via", "1.1 nginx")...)
	n.shutDown()

	n = startReadyNode(t, server.Config{Insecure: true})
	n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/tokens", "", "Via", "1.1 nginx")
}

// sendRaw returns the node's raw response to a raw request.
func (n *node) sendRaw(t *testing.T, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(n.HTTP, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// startNodeWithCluster starts a node and its database server, so that the test can stop the server.
func startNodeWithCluster(t *testing.T) (*node, *storetest.Cluster) {
	t.Helper()
	cluster, err := storetest.StartCluster(storetest.Settings{Durable: true}) // a crash loses no token
	if err != nil {
		t.Fatal(err)
	}
	n := startReadyNode(t, server.Config{NATSURL: startNATS(t), DatabaseURL: cluster.DSN})
	t.Cleanup(func() {
		n.stop()
		if err := <-n.ended; err != nil { // the node closes the database first
			t.Errorf("serve: %v", err)
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return n, cluster
}

// TestRemediesWithoutDatabase checks that the address of the remedies in /readyz answers while the database is away: a
// token cannot be verified then, so the documentation needs none. The node shows nothing else, and asks for a token again
// afterwards.
func TestRemediesWithoutDatabase(t *testing.T) {
	t.Parallel()
	n, cluster := startNodeWithCluster(t)
	var made struct{ Secret string }
	n.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/tokens", `{"name":"boss","scopes":["admin"]}`).decode(t, &made)
	visitors := map[string][]string{"a stranger": nil, "a wrong token": bearer("dm_wrong"), "a session": {"Cookie", "deadman_session=ds_x"}, "a browser": {"Accept", "text/html"}}
	const remedies, search, picture = "/docs/operations/troubleshooting", "/docs?q=database", "/docs/pictures/editor.png"
	for who, header := range visitors {
		for _, at := range []string{"/docs", remedies, search, picture} {
			if got := n.callRaw(http.MethodGet, at, "", header...); strings.Contains(string(got.body), "condition-database") {
				t.Errorf("%s reads %s while the database answers: %d", who, at, got.status)
			}
		}
	}
	n.callExpecting(http.StatusUnauthorized, http.MethodGet, remedies, "")

	if err := cluster.Crash(); err != nil {
		t.Fatal(err)
	}
	n.eventually("the node reports its database", func() bool {
		got := n.callRaw(http.MethodGet, "/readyz", "")
		return strings.Contains(string(got.body), `"runbook":"`+remedies+`#condition-database"`)
	})
	visitors["the token"] = bearer(made.Secret)
	for who, header := range visitors {
		for at, text := range map[string]string{remedies: `id="condition-database"`, search: "troubleshooting", "/docs": "Getting started", picture: "PNG"} {
			var got reply
			n.eventually(who+" reads "+at, func() bool {
				got = n.callRaw(http.MethodGet, at, "", header...)
				return got.status == http.StatusOK
			})
			shown := string(got.body)
			if !strings.Contains(shown, text) {
				t.Errorf("%s at %s lacks %q", who, at, text)
			}
			if who != "the token" && (strings.Contains(shown, "<nav") || strings.Contains(shown, "<footer")) {
				t.Errorf("%s at %s sees the navigation", who, at)
			}
		}
		if who == "the token" { // its verification may be remembered
			continue
		}
		n.callExpecting(http.StatusNotFound, http.MethodGet, "/docs/none", "", header...)
		for _, at := range []string{"/", "/docs/api", "/docs?live=1", "/rules", "/openapi.json", "/metrics", "/api/v1/jobs"} {
			if got := n.callRaw(http.MethodGet, at, "", header...); got.status != http.StatusUnauthorized && got.status != http.StatusServiceUnavailable && got.status != http.StatusSeeOther {
				t.Errorf("%s at %s: %d", who, at, got.status)
			}
		}
	}
	if err := cluster.Restart(); err != nil {
		t.Fatal(err)
	}
	n.eventually("the documentation needs a token again", func() bool {
		return n.callRaw(http.MethodGet, remedies, "").status == http.StatusUnauthorized && n.callRaw(http.MethodGet, remedies, "", bearer(made.Secret)...).status == http.StatusOK
	})
}

// A node without tokens does not know whether it still is one while its database is away: it says so. A token
// would not help.
func TestOpenNodeWithoutDatabase(t *testing.T) {
	t.Parallel()
	n, cluster := startNodeWithCluster(t)
	const path = "/api/v1/tokens/self" // it reads no database
	n.callExpecting(http.StatusOK, http.MethodGet, path, "")
	if err := cluster.Crash(); err != nil {
		t.Fatal(err)
	}
	var got reply
	n.eventually("the node does not know whether there are tokens", func() bool {
		got = n.callRaw(http.MethodGet, path, "")
		return got.status != http.StatusOK
	})
	for at, page := range map[string]string{path: "", "/": "text/html", "/login": "text/html"} {
		got = n.callExpecting(http.StatusServiceUnavailable, http.MethodGet, at, "", "Accept", page)
		if text := string(got.body); !strings.Contains(text, "database does not answer") || !strings.Contains(text, "/readyz") {
			t.Errorf("%s: %s", at, text)
		}
	}
	n.callExpecting(http.StatusServiceUnavailable, http.MethodPost, "/login", "token=x", "Content-Type", "application/x-www-form-urlencoded")
	if err := cluster.Restart(); err != nil {
		t.Fatal(err)
	}
	n.eventually("the node answers again", func() bool { return n.callRaw(http.MethodGet, path, "").status == http.StatusOK })
}

// TestLostTokenIsReplaced checks the recovery of docs/operations/access.md: a node with --insecure, on loopback and with the
// same database, creates another token, which the nodes accept afterwards.
func TestLostTokenIsReplaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]server.Config{
		"embedded": {DataDir: bustest.Dir(t)},
		"postgres": {DatabaseURL: storetest.Postgres(t), NATSURL: startNATS(t)},
	} {
		t.Run(name, func(t *testing.T) {
			var lost tokenRecorder
			c.FirstToken, c.PublicURL = lost.record, "https://deadman.example.org"
			n := startReadyNode(t, c)
			if len(lost.all()) != 1 {
				t.Fatalf("%d first tokens", len(lost.all()))
			}
			if c.DatabaseURL == "" { // one process opens the data folder at a time
				n.shutDown()
			}
			rescue := c
			rescue.Insecure = true
			r := startReadyNode(t, rescue)
			var made struct{ Secret string }
			r.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/tokens", `{"name":"rescue","scopes":["admin"]}`).decode(t, &made)
			r.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/tokens/first", "")
			r.shutDown()
			if c.DatabaseURL == "" {
				n = startReadyNode(t, c)
			}
			n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/tokens", "", bearer(made.Secret)...)
			n.eventually("the lost token ends", func() bool {
				return n.callRaw(http.MethodGet, "/api/v1/tokens", "", bearer(lost.all()[0])...).status == http.StatusUnauthorized
			})
			n.shutDown()
			if len(lost.all()) != 1 {
				t.Errorf("%d first tokens", len(lost.all()))
			}
		})
	}
}

// Once a token existed, neither its end nor a restart opens the node: a node without a usable token creates another
// first token.
func TestClosedNodeStaysClosed(t *testing.T) {
	t.Parallel()
	var first tokenRecorder
	c := server.Config{DataDir: bustest.Dir(t), FirstToken: first.record}
	n := startReadyNode(t, c)
	n.callExpecting(http.StatusUnprocessableEntity, http.MethodPost, "/api/v1/tokens", `{"name":"ci","scopes":["events"]}`)
	n.callExpecting(http.StatusUnprocessableEntity, http.MethodPost, "/api/v1/tokens", `{"name":"ci","scopes":["admin"],"prefix":"a-*"}`)
	n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/tokens", "")
	var made struct{ Secret string }
	n.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/tokens", `{"name":"first","scopes":["admin"]}`).decode(t, &made)
	var narrow struct{ Secret string }
	n.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/tokens", `{"name":"first-2","scopes":["read"]}`, bearer(made.Secret)...).decode(t, &narrow)
	n.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/tokens/first", "", bearer(made.Secret)...)
	n.callExpecting(http.StatusUnauthorized, http.MethodGet, "/api/v1/tokens", "")
	n.shutDown()

	for i := range 2 { // the second start finds the token of the first
		n = startReadyNode(t, c)
		if n.Open || len(first.all()) != 1 {
			t.Fatalf("start %d: open %t, with %d first tokens", i, n.Open, len(first.all()))
		}
		n.callExpecting(http.StatusUnauthorized, http.MethodGet, "/api/v1/tokens", "")
		n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/tokens", "", bearer(first.all()[0])...)
		n.shutDown()
	}
	// A live token with the name and fewer scopes does not prevent a new first token.
	n = startReadyNode(t, c)
	n.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/tokens", `{"name":"boss","scopes":["admin"]}`, bearer(first.all()[0])...).decode(t, &made)
	n.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/tokens/first", "", bearer(made.Secret)...)
	n.callExpecting(http.StatusCreated, http.MethodPost, "/api/v1/tokens", `{"name":"first","scopes":["read"]}`, bearer(made.Secret)...)
	n.callExpecting(http.StatusNoContent, http.MethodDelete, "/api/v1/tokens/boss", "", bearer(made.Secret)...)
	n.shutDown()
	n = startReadyNode(t, c)
	if n.Open || len(first.all()) != 2 {
		t.Fatalf("open %t, with %d first tokens", n.Open, len(first.all()))
	}
	n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/tokens", "", bearer(first.all()[1])...)
}

// Of several nodes on one database that start at the same moment, one creates the first token.
func TestConcurrentNodesCreateOneFirstToken(t *testing.T) {
	t.Parallel()
	database, natsURL := storetest.Postgres(t), startNATS(t)
	var first tokenRecorder
	var nodes []*node
	var all []<-chan server.Endpoints
	for range 3 {
		n, ready := startNode(t, server.Config{DatabaseURL: database, NATSURL: natsURL, PublicURL: "https://deadman.example.org", FirstToken: first.record, Shards: 4})
		nodes, all = append(nodes, n), append(all, ready)
	}
	for i, ready := range all {
		select {
		case nodes[i].Endpoints = <-ready:
		case err := <-nodes[i].ended:
			t.Fatalf("serve: %v", err)
		}
	}
	if len(first.all()) != 1 {
		t.Fatalf("%d first tokens", len(first.all()))
	}
	for _, n := range nodes {
		n.callExpecting(http.StatusUnauthorized, http.MethodGet, "/api/v1/tokens", "")
		n.callExpecting(http.StatusOK, http.MethodGet, "/api/v1/tokens", "", bearer(first.all()[0])...)
	}
}
