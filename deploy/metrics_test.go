package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"deadman/internal/longtest"
	"deadman/internal/testwait"
	"deadman/server"
)

// busyRules raise alerts every second. Each order is looked up, which fails for one of them.
const busyRules = `
name: clock
entity: order
trigger: {schedule: "@every 1s", emit: {subject: orders.created, data: {id: "1"}}}
---
name: broken-clock
entity: order
trigger: {schedule: "@every 1s", emit: {subject: orders.created, data: {id: broken}}}
---
name: order-late
entity: order
trigger: {event: orders.created, key: event.id}
lookup: {http: {source: shop, path: "/orders/{{key}}"}}
while: state.status == "OPEN"
escalate: [{after: 1s, step: primary, severity: error}]
slot: 1s
`

// writeFile writes a file of the test and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// busyNode starts a node with rules, a source, a channel and a heartbeat, all of them at work, and returns its URL.
func busyNode(t *testing.T) string {
	t.Helper()
	others := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/broken"):
			http.Error(w, "broken", http.StatusInternalServerError)
		case strings.HasPrefix(r.URL.Path, "/orders/"):
			_, _ = io.WriteString(w, `{"status": "OPEN"}`)
		}
	}))
	t.Cleanup(others.Close)
	ready, ended := make(chan server.Endpoints, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		ended <- server.Run(ctx, server.Config{
			DataDir: t.TempDir(), HTTPAddr: "127.0.0.1:0", NATSAddr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
			Rules:        filepath.Dir(writeFile(t, "rules.yaml", busyRules)),
			Sources:      writeFile(t, "sources.yaml", "sources: {shop: {http: {url: "+others.URL+", allow: [127.0.0.1]}}}\n"),
			Notify:       writeFile(t, "notify.yaml", "channels: {hook: {kind: webhook, url: "+others.URL+"/hook}}\nroutes: [{to: hook, group_wait: 0s}]\n"),
			HeartbeatURL: others.URL + "/heartbeat", Ready: func(e server.Endpoints) { ready <- e },
		})
		close(ended)
	}()
	t.Cleanup(func() {
		stop()
		for err := range ended {
			if err != nil {
				t.Errorf("the node: %v", err)
			}
		}
	})
	select {
	case e := <-ready:
		return e.HTTP
	case err := <-ended:
		t.Fatalf("the node: %v", err)
	}
	return ""
}

// fetch returns the body of an address.
func fetch(t *testing.T, address string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return string(body), err
}

// TestMetricsOfNode checks that a node with rules, a source and a channel has every metric of the reference, and none
// beside them, and that their names follow the conventions of Prometheus.
func TestMetricsOfNode(t *testing.T) {
	t.Parallel()
	node, text := busyNode(t), ""
	var missing []string
	testwait.Until(t, "a node at work has all metrics", func() bool {
		var err error
		if text, err = fetch(t, node+"/metrics"); err != nil {
			t.Fatal(err)
		}
		missing = nil
		for name := range documentedMetrics(t) {
			if !regexp.MustCompile(`(?m)^` + name + `(_bucket)?[{ ]`).MatchString(text) {
				missing = append(missing, name)
			}
		}
		return len(missing) == 0
	})
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (deadman_\w+)`).FindAllStringSubmatch(text, -1) {
		if documentedMetrics(t)[m[1]] == "" {
			t.Errorf("%s is not in the reference", m[1])
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// emptyPanels are the queries without data on a healthy node, with the reason.
var emptyPanels = map[string]string{
	"ingest/Refusals by quotas/1": "it leaves out quotas that refused nothing",
}

// TestDashboardsHaveData checks with Prometheus that every query of the dashboards returns values of a node at work.
func TestDashboardsHaveData(t *testing.T) {
	longtest.Only(t, "it needs prometheus")
	t.Parallel()
	node := busyNode(t)
	address := startPrometheus(t, strings.TrimPrefix(node, "http://"))
	names, queries := expressions(t, "10s")
	left := make([]string, 0, len(names))
	testwait.Until(t, "each query of the dashboards has values", func() bool {
		left = left[:0]
		for i, q := range queries {
			if emptyPanels[names[i]] == "" && !hasValues(t, address, q) {
				left = append(left, names[i])
			}
		}
		t.Logf("%d of %d queries have no values yet: %s", len(left), len(queries), strings.Join(left[:min(len(left), 5)], ", "))
		return len(left) == 0
	})
	text, err := fetch(t, node+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	for name := range emptyPanels {
		if !slices.Contains(names, name) {
			t.Errorf("emptyPanels names %s, which no dashboard has", name)
		}
	}
}

// startPrometheus starts a Prometheus that scrapes a node each second, and returns its URL.
func startPrometheus(t *testing.T, target string) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	config := writeFile(t, "prometheus.yml", "scrape_configs: [{job_name: deadman, scrape_interval: 1s, static_configs: [{targets: ['"+target+"']}]}]\n")
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "prometheus", "--config.file="+config, "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+address, "--log.level=error")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; install it (Debian: apt-get install prometheus)", err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was interrupted
	})
	testwait.Until(t, "Prometheus is ready", func() bool {
		_, err := fetch(t, "http://"+address+"/-/ready")
		return err == nil
	})
	return "http://" + address
}

// hasValues reports whether a query has a value that is a number.
func hasValues(t *testing.T, prometheus, query string) bool {
	t.Helper()
	text, err := fetch(t, prometheus+"/api/v1/query?query="+url.QueryEscape(query))
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var found struct {
		Data struct {
			Result []struct{ Value []any }
		}
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	for _, r := range found.Data.Result {
		if len(r.Value) == 2 && r.Value[1] != "NaN" {
			return true
		}
	}
	return false
}
