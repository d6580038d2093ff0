package web_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"deadman/alerts"
	"deadman/checks/lookup"
	futurejobs "deadman/future_jobs"
	"deadman/web"
)

var rewrite = flag.Bool("rewrite", false, "write the first columns of docs/reference/metrics.md as the code has them")

const (
	apiPage       = "../docs/reference/api.md"
	metricsPage   = "../docs/reference/metrics.md"
	alertingRules = "../deploy/prometheus/rules.yml"
)

// TestProblemsAreDocumented checks that the reference has every kind of problem.
func TestProblemsAreDocumented(t *testing.T) {
	page := readPage(t, apiPage)
	found := regexp.MustCompile(`Kind = "([a-z-]+)"`).FindAllStringSubmatch(readPage(t, "problem_kinds.go"), -1)
	if len(found) == 0 {
		t.Fatal("problem_kinds.go has no kinds")
	}
	for _, m := range found {
		if !strings.Contains(page, "\n| `"+m[1]+"` |") {
			t.Errorf("%s has no row for the problem %s", apiPage, m[1])
		}
	}
}

// everyMetric returns the metrics of a node in which everything has happened, so that each has a series.
func everyMetric() *web.Metrics {
	channels := []alerts.ChannelState{{Name: "chat"}}
	m := web.NewMetrics("v1", func(context.Context) (web.ClusterGauges, error) {
		return web.ClusterGauges{OldestRow: map[string]time.Duration{"history": time.Hour}, Channels: channels}, nil
	}, func() web.NodeGauges {
		return web.NodeGauges{
			IntakeLag: map[web.StreamLine]time.Duration{{Name: "ORDERS", Line: web.LineOperator}: time.Second},
			Sources:   []lookup.State{{Name: "shop"}}, Pools: []web.ConnectionPool{{Name: "postgres"}}, Refused: map[string]uint64{"login": 1},
		}
	})
	m.WatchConditions(func(context.Context) []web.Condition { return []web.Condition{{Name: "database"}} })
	m.Checked("r", futurejobs.CheckRule, "waiting", 0)
	m.Alerted(alerts.Alert{Rule: "r", Detail: alerts.Detail{Draft: alerts.Draft{Severity: alerts.Critical}}})
	m.Ticked("r", futurejobs.TickStarted, 1)
	m.CountHeartbeat("http", "sent")
	m.CountNotifications("chat", "sent", 1)
	m.CountGivenUp("chat", 1)
	m.CountKeys("shop", lookup.Found, 1)
	m.RoundTrip("shop", time.Second)
	m.Answered("GET", "/api/v1/jobs", 200, time.Second, false)
	return m
}

// family is a metric in a scrape.
type family struct {
	name, kind, help string
	labels           []string // without that of buckets
}

// families returns the metrics of deadman in a scrape, by name.
func families(t *testing.T, m *web.Metrics) map[string]family {
	t.Helper()
	text, all := scrape(t, m), make(map[string]family)
	for _, head := range regexp.MustCompile(`# HELP (deadman_\w+) (.*)\n# TYPE \w+ (\w+)\n\w+(?:\{(.*)\})? `).FindAllStringSubmatch(text, -1) {
		f := family{name: head[1], kind: head[3], help: head[2]}
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(head[4], -1) {
			if l[1] != "le" {
				f.labels = append(f.labels, l[1])
			}
		}
		all[f.name] = f
	}
	return all
}

// TestMetricsFollowConventions checks names, types and descriptions as promtool check metrics does.
func TestMetricsFollowConventions(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(scrape(t, everyMetric()))).Lint()
	failOn(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestMetricsAreDocumented checks that the reference has exactly the metrics of the code, with their type, scope, labels
// and description, in bold if an alerting rule reads them. go test ./web -run MetricsAreDocumented -rewrite updates all
// but the last column.
func TestMetricsAreDocumented(t *testing.T) {
	all, page, alerting := families(t, everyMetric()), readPage(t, metricsPage), readPage(t, alertingRules)
	for _, name := range metricsInCode(t) {
		if all[name].name == "" {
			t.Errorf("everyMetric has no value of %s", name)
		}
	}
	if !strings.Contains(page, "\n| metric | type | scope | meaning | action |\n") {
		t.Fatalf("%s has no table of metrics", metricsPage)
	}
	written := regexp.MustCompile("(?m)^\\| \\**`(deadman_[a-z_]+).*\\|$").ReplaceAllStringFunc(page, func(row string) string {
		name := regexp.MustCompile(`deadman_[a-z_]+`).FindString(row)
		f, isKnown := all[name]
		delete(all, name)
		if !isKnown {
			t.Errorf("%s has a row for %s twice, or the code has no such metric", metricsPage, name)
			return row
		}
		cells := strings.Split(row, "|")
		return metricRow(f, strings.Contains(alerting, name), strings.TrimSpace(cells[len(cells)-2]))
	})
	for name := range all {
		t.Errorf("%s has no row for %s: add one with the action in its last column, and run this test with -rewrite", metricsPage, name)
	}
	if written == page || t.Failed() {
		return
	}
	if !*rewrite {
		t.Fatalf("the metrics of %s are not those of the code; run go test ./web -run MetricsAreDocumented -rewrite", metricsPage)
	}
	failOn(t, os.WriteFile(metricsPage, []byte(written), 0o644))
}

// metricRow returns the row of a metric in the reference.
func metricRow(f family, isAlerting bool, action string) string {
	name := f.name
	if len(f.labels) > 0 {
		name += "{" + strings.Join(f.labels, ",") + "}"
	}
	name = "`" + name + "`"
	if isAlerting {
		name = "**" + name + "**"
	}
	meaning, scope, _ := strings.Cut(f.help, " Scope: ")
	scope, _, _ = strings.Cut(scope, ".")
	row := fmt.Sprintf("| %s | %s | %s | %s |", name, f.kind, scope, strings.TrimSuffix(meaning, "."))
	return strings.TrimSuffix(row+" "+action, " ") + " |"
}

// metricsInCode returns the names of the metrics in the source.
func metricsInCode(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	failOn(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`(?:ofNode|ofCluster|counter|histogram)\("(deadman_[a-z_]+)"|Name: "(deadman_[a-z_]+)", +Help`).FindAllStringSubmatch(readPage(t, file), -1) {
			names = append(names, m[1]+m[2])
		}
	}
	if !slices.Contains(names, "deadman_build_info") || len(names) < 40 {
		t.Fatalf("only %d metrics are found in the code", len(names))
	}
	return names
}

// TestScopeOfMetrics checks that each metric says whose it is, and that nothing but a gauge is of the cluster.
func TestScopeOfMetrics(t *testing.T) {
	for name, f := range families(t, everyMetric()) {
		scope := regexp.MustCompile(` Scope: (node|cluster)\.( Each node has the same value: use max, not sum\.)?$`).FindStringSubmatch(f.help)
		if len(scope) != 3 || (scope[1] == "cluster") != (scope[2] != "") {
			t.Errorf("%s does not end with its scope: %s", name, f.help)
			continue
		}
		if scope[1] == "cluster" && f.kind != "gauge" {
			t.Errorf("%s is a %s of the cluster: nodes cannot count together", name, f.kind)
		}
	}
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	failOn(t, err)
	return string(text)
}
