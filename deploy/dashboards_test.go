package deploy_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"deadman/internal/longtest"
	"deadman/server"
)

var rewrite = flag.Bool("rewrite", false, "write grafana/*.json from grafana/dashboards.yaml")

// dashboard is a dashboard in grafana/dashboards.yaml.
type dashboard struct {
	Name, Title, About string
	Rows               []struct {
		Title  string
		Panels []panel
	}
}

// panel shows queries. Alert names the rule of prometheus/rules.yml with its thresholds, and with its page if Docs is
// empty.
type panel struct {
	Title, About, Show, Unit, Alert, Docs string
	Queries                               []struct{ Expr, Legend string }
}

func (d dashboard) panels() (all []panel) {
	for _, r := range d.Rows {
		all = append(all, r.Panels...)
	}
	return all
}

func dashboards(t *testing.T) (all []dashboard) {
	t.Helper()
	if err := yaml.UnmarshalWithOptions([]byte(read(t, "grafana/dashboards.yaml")), &all, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return all
}

// object is an object of JSON.
type object = map[string]any

// source is the data source that the user chooses.
var source = object{"type": "prometheus", "uid": "${datasource}"}

// selector selects the jobs and instances that the user chooses.
const selector = `job=~"$job",instance=~"$instance"`

// nodeURL is where a node listens without settings.
const nodeURL = "http://" + server.DefaultHTTPAddr

// sizes are the width and height of a panel, of 24 columns.
var sizes = map[string][2]int{"stat": {4, 4}, "graph": {12, 8}, "state": {12, 8}}

// render returns the JSON of a dashboard as Grafana imports it.
func (d dashboard) render(rules []alertingRule) ([]byte, error) {
	id, x, y, height := 0, 0, 0, 0
	place := func(width, h int) object {
		if x+width > 24 {
			x, y, height = 0, y+height, 0
		}
		at := object{"x": x, "y": y, "w": width, "h": h}
		x, height = x+width, max(height, h)
		id++
		return at
	}
	var panels []object
	for _, r := range d.Rows {
		x, y, height = 0, y+height, 0
		panels = append(panels, object{"type": "row", "title": r.Title, "collapsed": false, "panels": []any{}, "gridPos": place(24, 1), "id": id})
		for _, p := range r.Panels {
			rendered, err := p.render(rules)
			if err != nil {
				return nil, fmt.Errorf("panel %q: %w", p.Title, err)
			}
			rendered["gridPos"], rendered["id"] = place(sizes[p.show()][0], sizes[p.show()][1]), id
			panels = append(panels, rendered)
		}
	}
	annotation := object{
		"name": "Alerts of Prometheus about deadman", "datasource": source, "enable": true, "iconColor": "red", "titleFormat": "{{alertname}}",
		"expr": `ALERTS{alertname=~"Deadman.+",alertstate="firing"}`, "step": "60s",
	}
	others := link("Dashboards of deadman", "")
	for field, value := range (object{"type": "dashboards", "tags": []string{"deadman"}, "asDropdown": true, "includeVars": true, "keepTime": true, "targetBlank": false}) {
		others[field] = value
	}
	links := []object{others, link("Documentation", docsURL("docs/operations/monitoring.md#dashboards"))}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	err := out.Encode(object{
		"uid": "deadman-" + d.Name, "title": d.Title, "description": d.About, "tags": []string{"deadman"}, "schemaVersion": 38, "version": 1,
		"editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser", "time": object{"from": "now-6h", "to": "now"},
		"annotations": object{"list": []object{annotation}}, "templating": object{"list": variables()}, "links": links, "panels": panels,
	})
	return text.Bytes(), err
}

// variables returns the choices of the user.
func variables() []object {
	several := func(name, label, query string) object {
		return object{
			"name": name, "label": label, "type": "query", "datasource": source, "definition": query, "query": object{"query": query, "refId": name},
			"refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".+", "current": object{"text": []string{"All"}, "value": []string{"$__all"}},
		}
	}
	return []object{
		{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1},
		several("job", "Job", "label_values(deadman_build_info, job)"),
		several("instance", "Node", `label_values(deadman_build_info{job=~"$job"}, instance)`),
		{"name": "deadman", "label": "URL of deadman", "description": "The links of panels lead to the documentation that this node serves.", "type": "textbox", "query": nodeURL, "current": object{"text": nodeURL, "value": nodeURL}},
	}
}

// link returns a link that opens a window.
func link(title, url string) object {
	return object{
		"title": title, "type": "link", "url": url, "icon": "external link", "tooltip": "", "tags": []string{}, "targetBlank": true,
		"asDropdown": false, "includeVars": false, "keepTime": false,
	}
}

// docsURL returns the address of a page of the documentation on a node.
func docsURL(page string) string { return "${deadman}/" + strings.Replace(page, ".md", "", 1) }

func (p panel) show() string {
	if p.Show == "" {
		return "graph"
	}
	return p.Show
}

// render returns the JSON of a panel without its place.
func (p panel) render(rules []alertingRule) (object, error) {
	docs, steps := p.Docs, []object{{"color": "green", "value": nil}}
	if p.Alert != "" {
		i := slices.IndexFunc(rules, func(r alertingRule) bool { return r.Alert == p.Alert })
		if i < 0 {
			return nil, fmt.Errorf("prometheus/rules.yml has no alert %s", p.Alert)
		}
		steps = p.thresholds(rules[i])
		if docs == "" {
			docs = rules[i].runbook()
		}
	}
	var targets []object
	for i, q := range p.Queries {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": source, "editorMode": "code", "range": true,
			"expr": strings.ReplaceAll(q.Expr, "$node", selector), "legendFormat": q.Legend,
		})
	}
	defaults := object{"unit": p.Unit, "thresholds": object{"mode": "absolute", "steps": steps}}
	if p.Unit == "" {
		defaults["unit"] = "short"
	}
	out := object{
		"title": p.Title, "description": p.About, "datasource": source, "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []any{}},
		"links":       []object{link("Documentation", docsURL(docs))},
	}
	legend, tooltip := object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}}, object{"mode": "multi", "sort": "desc"}
	switch p.show() {
	case "graph":
		style := "off"
		if p.Alert != "" {
			style = "dashed"
		}
		out["type"], out["options"] = "timeseries", object{"legend": legend, "tooltip": tooltip}
		defaults["min"], defaults["color"] = 0, object{"mode": "palette-classic"}
		defaults["custom"] = object{"fillOpacity": 10, "showPoints": "never", "thresholdsStyle": object{"mode": style}}
	case "stat":
		out["type"] = "stat"
		out["options"] = object{
			"colorMode": "value", "graphMode": "area", "justifyMode": "auto", "textMode": "auto", "orientation": "auto", "wideLayout": true,
			"showPercentChange": false, "percentChangeColorMode": "standard",
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		}
		defaults["color"] = object{"mode": "thresholds"}
	case "state":
		out["type"], out["options"] = "state-timeline", object{"legend": legend, "tooltip": tooltip, "mergeValues": true, "showValue": "never", "rowHeight": 0.9}
		defaults["color"] = object{"mode": "thresholds"}
		defaults["thresholds"] = object{"mode": "absolute", "steps": []object{{"color": "green", "value": nil}, {"color": "red", "value": 1}}}
		defaults["mappings"] = []object{{"type": "value", "options": object{"0": object{"text": "fine", "color": "green", "index": 0}, "1": object{"text": "fails", "color": "red", "index": 1}}}}
	default:
		return nil, fmt.Errorf("show is %q, not stat, graph or state", p.Show)
	}
	return out, nil
}

// thresholds returns the colours of the values for which a rule fires. A count greater than n begins at n+1.
func (p panel) thresholds(r alertingRule) []object {
	colour := map[string]string{"critical": "red", "warning": "orange"}[r.Labels.Severity]
	at := 1.0
	if m := regexp.MustCompile(`(==|>) ([0-9.]+)$`).FindStringSubmatch(r.Expr); m != nil {
		limit, _ := strconv.ParseFloat(m[2], 64) // it matched
		switch {
		case m[1] == "==" && limit == 0:
			return []object{{"color": colour, "value": nil}, {"color": "green", "value": 1}}
		case m[1] == ">" && p.Unit == "":
			at = limit + 1
		default:
			at = limit
		}
	}
	return []object{{"color": "green", "value": nil}, {"color": colour, "value": at}}
}

// TestDashboards checks that the JSON files are those of dashboards.yaml. go test ./deploy -run Dashboards -rewrite writes
// them.
func TestDashboards(t *testing.T) {
	written, err := filepath.Glob("grafana/*.json")
	if err != nil {
		t.Fatal(err)
	}
	all, rules := dashboards(t), alertingRules(t)
	for _, d := range all {
		text, err := d.render(rules)
		if err != nil {
			t.Fatalf("dashboard %s: %v", d.Name, err)
		}
		file := "grafana/" + d.Name + ".json"
		if known, _ := os.ReadFile(file); bytes.Equal(known, text) {
			continue
		}
		if !*rewrite {
			t.Errorf("%s is not that of dashboards.yaml and of the alerting rules; run go test ./deploy -run Dashboards -rewrite", file)
			continue
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if len(written) != len(all) && !*rewrite {
		t.Errorf("grafana has %d dashboards, and dashboards.yaml %d", len(written), len(all))
	}
}

// TestDashboardsCanBeImported checks the JSON files: the ids of panels, the titles and the uids are unique, each panel has
// a description, and its links lead to a page.
func TestDashboardsCanBeImported(t *testing.T) {
	files, _ := filepath.Glob("grafana/*.json")
	if len(files) < 5 {
		t.Fatalf("grafana has %d dashboards", len(files))
	}
	seen := make(map[string]bool)
	unique := func(what string) {
		if seen[what] {
			t.Errorf("%s is there twice", what)
		}
		seen[what] = true
	}
	for _, file := range files {
		var d struct {
			UID, Title string
			Panels     []struct {
				ID                       int
				Type, Title, Description string
				GridPos                  struct{ X, Y, W, H int }
				Links                    []struct{ URL string }
			}
		}
		if err := json.Unmarshal([]byte(read(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		unique("the uid " + d.UID)
		unique("the title " + d.Title)
		for i, p := range d.Panels {
			unique(fmt.Sprintf("%s: the id %d", file, p.ID))
			unique(file + ": the title " + p.Title)
			for _, other := range d.Panels[:i] {
				a, b := p.GridPos, other.GridPos
				if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
					t.Errorf("%s: the panels %q and %q overlap", file, p.Title, other.Title)
				}
			}
			if p.Type == "row" {
				continue
			}
			if !strings.HasSuffix(p.Description, ".") || len(p.Links) != 1 {
				t.Errorf("%s: the panel %q has the description %q and %d links", file, p.Title, p.Description, len(p.Links))
				continue
			}
			page, anchor, _ := strings.Cut(strings.TrimPrefix(p.Links[0].URL, "${deadman}/"), "#")
			if text := read(t, "../"+page+".md"); anchor != "" && !hasHeading(text, anchor) {
				t.Errorf("%s: the panel %q links to %s, which has no heading #%s", file, p.Title, page, anchor)
			}
		}
	}
}

// documentedMetrics returns the scope of each metric in the reference. TestMetricsAreDocumented compares it with the code.
func documentedMetrics(t *testing.T) map[string]string {
	t.Helper()
	scopes := make(map[string]string)
	for _, m := range regexp.MustCompile("(?m)^\\| \\**`(deadman_[a-z_]+).* \\| (?:gauge|counter|histogram) \\| (node|cluster) \\|").FindAllStringSubmatch(read(t, "../docs/reference/metrics.md"), -1) {
		scopes[m[1]] = m[2]
	}
	if len(scopes) < 40 {
		t.Fatalf("the reference has %d metrics", len(scopes))
	}
	return scopes
}

// metricName matches a metric in a query.
var metricName = regexp.MustCompile(`(?:(\w+)(?: by \([a-z, ]+\))? ?\((?:\w+\()?)?(deadman_[a-z_]+)\{`)

// TestDashboardsReadMetrics checks that the dashboards read metrics that exist, and all of them; that they never add up
// values of the cluster; and that a panel with an alert reads the metric of its rule.
func TestDashboardsReadMetrics(t *testing.T) {
	scopes, shown, alerts := documentedMetrics(t), make(map[string]bool), make(map[string]bool)
	for _, d := range dashboards(t) {
		for _, p := range d.panels() {
			read := make(map[string]bool)
			for _, q := range p.Queries {
				for _, m := range metricName.FindAllStringSubmatch(q.Expr, -1) {
					name := m[2]
					if scopes[name] == "" {
						name = regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
					}
					read[name], shown[name] = true, true
					switch {
					case scopes[name] == "":
						t.Errorf("%s, %q reads %s, which is not in the reference", d.Name, p.Title, m[2])
					case scopes[name] == "cluster" && m[1] != "max":
						t.Errorf("%s, %q: each node has the same value of %s; take its max, not its %s", d.Name, p.Title, name, m[1])
					}
				}
			}
			if p.Alert == "" {
				continue
			}
			alerts[p.Alert] = true
			i := slices.IndexFunc(alertingRules(t), func(r alertingRule) bool { return r.Alert == p.Alert })
			for _, name := range regexp.MustCompile(`deadman_[a-z_]+`).FindAllString(alertingRules(t)[i].Expr, -1) {
				if !read[strings.TrimSuffix(name, "_bucket")] {
					t.Errorf("%s, %q does not read %s, as its alert %s does", d.Name, p.Title, name, p.Alert)
				}
			}
		}
	}
	for name := range scopes {
		if !shown[name] {
			t.Errorf("no dashboard shows %s", name)
		}
	}
	for _, r := range alertingRules(t) {
		if !alerts[r.Alert] && r.Alert != "DeadmanAbsent" { // without a node there is nothing to show
			t.Errorf("no panel has the thresholds of %s", r.Alert)
		}
	}
}

// expressions returns the queries of the dashboards as Grafana sends them, in order, by dashboard and panel.
func expressions(t *testing.T, within string) (names, queries []string) {
	t.Helper()
	for _, d := range dashboards(t) {
		for _, p := range d.panels() {
			for i, q := range p.Queries {
				names = append(names, fmt.Sprintf("%s/%s/%d", d.Name, p.Title, i+1))
				queries = append(queries, strings.NewReplacer("$node", `job=~".+",instance=~".+"`, "$__rate_interval", within).Replace(q.Expr))
			}
		}
	}
	return names, queries
}

// TestDashboardsInPrometheus parses the queries of the dashboards with Prometheus' own tool.
func TestDashboardsInPrometheus(t *testing.T) {
	longtest.Only(t, "it needs promtool")
	type rule struct{ Record, Expr string }
	var recorded []rule
	_, queries := expressions(t, "1m")
	for i, q := range queries {
		recorded = append(recorded, rule{fmt.Sprintf("dashboards:query:%d", i), q})
	}
	check := func(all []rule) ([]byte, error) {
		text, err := yaml.Marshal(object{"groups": []object{{"name": "dashboards", "rules": all}}})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "rules.yml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.CommandContext(t.Context(), "promtool", "check", "rules", file).CombinedOutput()
	}
	if out, err := check(recorded); err != nil || !strings.Contains(string(out), fmt.Sprintf("%d rules found", len(queries))) {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	if out, err := check(append(recorded, rule{"dashboards:query:broken", "sum by (job (up)"})); err == nil {
		t.Errorf("a query that cannot be parsed passes: %s", out)
	}
}

// TestDashboardsFollowSchema checks the JSON files with Grafana's own description of dashboards, by internal/tools/dashboards.
func TestDashboardsFollowSchema(t *testing.T) {
	longtest.Only(t, "it downloads and builds Grafana's schema")
	t.Parallel()
	tool := filepath.Join(t.TempDir(), "dashboards")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../internal/tools/dashboards", "-o", tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, _ := filepath.Glob("grafana/*.json")
	if out, err := exec.CommandContext(t.Context(), tool, files...).CombinedOutput(); err != nil || len(files) == 0 {
		t.Errorf("%d files: %v\n%s", len(files), err, out)
	}
	broken := writeFile(t, "broken.json", strings.Replace(read(t, files[0]), `"showPoints"`, `"showDots"`, 1))
	if out, err := exec.CommandContext(t.Context(), tool, broken).CombinedOutput(); err == nil || !strings.Contains(string(out), "showDots") {
		t.Errorf("an unknown field passes: %v\n%s", err, out)
	}
}
