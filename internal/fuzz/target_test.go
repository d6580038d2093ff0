package fuzz_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"deadman/internal/bus/bustest"
	"deadman/server"
)

// target is a node with data of every kind: rules, sources, hooks, channels, jobs, alerts, pings and tokens.
type target struct {
	server.Endpoints
	log    *bustest.Log
	client *http.Client
	spec   spec
	tokens []string // authorization headers of requests; the first has all permissions, the last ones none
	known  []string // existing names and ids
}

// within is the timeout for real operations.
const within = 2 * time.Minute

func newTarget(t *testing.T) *target {
	t.Helper()
	dir := bustest.Dir(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"status": "OPEN"}`) }))
	t.Cleanup(service.Close)
	newShop(t, filepath.Join(dir, "shop.db"))
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("hook.secret", "whsec_"+"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	n := &target{log: &bustest.Log{}}
	ready, ended := make(chan server.Endpoints, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	c := server.Config{
		DataDir: filepath.Join(dir, "data"), HTTPAddr: "127.0.0.1:0", NATSAddr: "127.0.0.1:0", TokenRate: 1_000_000,
		Sources: file("sources.yaml", fmt.Sprintf("sources:\n  shop: {sqlite: {path: shop.db}}\n  web: {http: {url: %q, allow: [127.0.0.0/8]}}\n  bus: {nats: {}}\n", service.URL)),
		Hooks:   file("hooks.yaml", "hooks:\n  - {name: signed, subject: pay.std, scheme: standard, secret_file: hook.secret}\n  - {name: none, subject: shop.created, scheme: none}\n"),
		Notify:  file("notify.yaml", fmt.Sprintf("channels: {hook: {kind: webhook, url: %q}}\nroutes: [{to: [hook]}]\n", service.URL)),
		Ready:   func(e server.Endpoints) { ready <- e },
		Log:     slog.New(slog.NewTextHandler(n.log, nil)),
	}
	go func() { ended <- server.Run(ctx, c) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	n.client = &http.Client{
		Transport: transport, Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the node ended with: %v", err)
		}
		if t.Failed() {
			t.Logf("%.20000s", n.log.String())
		}
	})
	select {
	case n.Endpoints = <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("serve: %v", err)
	case <-time.After(within):
		t.Fatal("it does not serve")
	}
	n.fill(t)
	return n
}

// newShop creates a database that rules query.
func newShop(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE orders (id TEXT, status TEXT); INSERT INTO orders VALUES ('1', 'UNSHIPPED')`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// fill creates data of every kind and reads the node's API description.
func (n *target) fill(t *testing.T) {
	t.Helper()
	var token struct{ Secret string }
	n.known = []string{"order-unshipped", "shop-look", "order", "orders.created", "orders.shipped", "reader", "gone", "1"}
	for _, body := range []string{
		`{"name": "all", "scopes": ["admin"]}`, `{"name": "reader", "scopes": ["read"]}`, `{"name": "acme", "scopes": ["rules"], "prefix": "acme-*"}`,
		`{"name": "ci", "scopes": ["events"]}`, `{"name": "gone", "scopes": ["admin"]}`,
	} {
		n.post(t, "/api/v1/tokens", "application/json", body, &token)
		n.tokens = append(n.tokens, "Bearer "+token.Secret)
	}
	for _, text := range templates {
		n.post(t, "/api/v1/rules", "application/yaml", text, nil)
	}
	for i := range 5 {
		n.post(t, "/api/v1/events/orders.created", "application/json", fmt.Sprintf(`{"id": "%d", "who": "ada"}`, i), nil)
	}
	n.post(t, "/api/v1/events/orders.created", "application/json", `{"who": "a dead letter"}`, nil)
	n.post(t, "/api/v1/mutes", "application/json", `{"match": {"rule": "none"}, "for": "1h", "reason": "none"}`, nil)
	var alerts struct {
		Items []struct{ ID string }
	}
	for deadline := time.Now().Add(within); len(alerts.Items) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no alert to acknowledge")
		}
		n.get(t, "/api/v1/alerts?limit=5", &alerts)
	}
	for _, a := range alerts.Items {
		n.known = append(n.known, a.ID)
	}
	n.get(t, "/openapi.json", &n.spec)
	n.tokens = append(n.tokens, "Bearer dm_wrong", "Basic eDp5", "")
}

func (n *target) get(t *testing.T, path string, out any) {
	t.Helper()
	n.do(t, http.MethodGet, path, "", "", out)
}

func (n *target) post(t *testing.T, path, kind, body string, out any) {
	t.Helper()
	n.do(t, http.MethodPost, path, kind, body, out)
}

func (n *target) do(t *testing.T, method, path, kind, body string, out any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, n.HTTP+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if len(n.tokens) > 0 {
		r.Header.Set("Authorization", n.tokens[0])
	}
	a, err := n.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: %d %s (%v)", method, path, a.StatusCode, text, err)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
}

// residentMemory returns the resident memory of the process in bytes.
func residentMemory(t *testing.T) uint64 {
	t.Helper()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var kib uint64
	_, rest, found := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kib); !found || err != nil {
		t.Fatalf("the memory of the process: %v\n%s", err, status)
	}
	return kib << 10
}
