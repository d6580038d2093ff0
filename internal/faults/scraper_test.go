package faults_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"deadman/internal/bus/bustest"
	"deadman/internal/tools/chart"
)

// scraper is a Prometheus that scrapes nodes.
type scraper struct {
	t   *testing.T
	url string
}

// scrapeInterval is the interval of a scraper, and the distance of the values that it returns.
const scrapeInterval = 5 * time.Second

// newScraper starts a Prometheus that scrapes the nodes on these ports, and waits until it is ready.
func newScraper(t *testing.T, ports map[string]int) *scraper {
	t.Helper()
	dir := t.TempDir()
	var targets []string
	for _, name := range slices.Sorted(maps.Keys(ports)) {
		targets = append(targets, fmt.Sprintf(`{"targets": ["127.0.0.1:%d"], "labels": {"instance": "node %s"}}`, ports[name], name))
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`{"global": {"scrape_interval": %q}, "scrape_configs": [{"job_name": "deadman", "static_configs": [%s]}]}`, scrapeInterval, strings.Join(targets, ", "))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", bustest.Port(t))
	cmd := exec.Command("prometheus", "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", addr, "--log.level", "warn")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s := &scraper{t: t, url: "http://" + addr}
	eventually(t, time.Minute, "prometheus is ready", func() bool {
		answer, err := http.Get(s.url + "/-/ready")
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil && answer.StatusCode == http.StatusOK
	})
	return s
}

// query returns the values of an expression of a dashboard within a time, in seconds since its begin.
func (s *scraper) query(expr, legend string, begin, end time.Time) (all []chart.Series) {
	s.t.Helper()
	expr = strings.NewReplacer("$job", ".+", "$instance", ".+", "$__rate_interval", (4 * scrapeInterval).String()).Replace(expr)
	form := url.Values{"query": {expr}, "start": {strconv.FormatInt(begin.Unix(), 10)}, "end": {strconv.FormatInt(end.Unix(), 10)}, "step": {scrapeInterval.String()}}
	response, err := http.PostForm(s.url+"/api/v1/query_range", form)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Error != "" {
		s.t.Fatalf("%s: %v %s", expr, err, answer.Error)
	}
	for _, r := range answer.Data.Result {
		one := chart.Series{Name: legendOf(legend, r.Metric)}
		for _, v := range r.Values {
			at, _ := v[0].(float64)
			text, _ := v[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				s.t.Fatalf("%s: %v", expr, v)
			}
			if !math.IsNaN(value) && !math.IsInf(value, 0) { // there was nothing to divide by
				one.Points = append(one.Points, chart.At{at - float64(begin.Unix()), value})
			}
		}
		if len(one.Points) > 0 {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b chart.Series) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// legendOf replaces the labels in a legend, as Grafana does.
func legendOf(legend string, labels map[string]string) string {
	return strings.TrimSpace(regexp.MustCompile(`{{(\w+)}}`).ReplaceAllStringFunc(legend, func(name string) string { return labels[strings.Trim(name, "{}")] }))
}

// dashboards returns what each dashboard of deploy/grafana shows within a time, ordered by the names of their files.
func (s *scraper) dashboards(begin, end time.Time) (names []string, all []chart.Sheet) {
	s.t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) == 0 {
		s.t.Fatalf("%d dashboards: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		var board struct {
			Title  string
			Panels []struct {
				Type, Title string
				FieldConfig struct{ Defaults struct{ Unit string } }
				Targets     []struct{ Expr, LegendFormat string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			s.t.Fatalf("%s: %v", file, err)
		}
		sheet := chart.Sheet{Title: board.Title, Span: end.Sub(begin).Seconds()}
		for _, p := range board.Panels {
			if p.Type == "row" {
				continue
			}
			shown := chart.Panel{Title: p.Title, Unit: p.FieldConfig.Defaults.Unit, States: p.Type == "state-timeline"}
			for _, q := range p.Targets {
				shown.Lines = append(shown.Lines, s.query(q.Expr, q.LegendFormat, begin, end)...)
			}
			sheet.Panels = append(sheet.Panels, shown)
		}
		names, all = append(names, strings.TrimSuffix(filepath.Base(file), ".json")), append(all, sheet)
	}
	return names, all
}
