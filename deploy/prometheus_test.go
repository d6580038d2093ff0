package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"deadman/internal/longtest"
)

// alertingRule has the used parts of a rule of prometheus/rules.yml.
type alertingRule struct {
	Alert       string
	Expr        string
	Labels      struct{ Severity string }
	Annotations struct {
		Summary, Description string
		Runbook              string `yaml:"runbook_url"`
	}
}

// exampleNode is the address that runbooks have before an operator replaces it.
const exampleNode = "https://deadman.example.org/"

// runbook returns the file of the rule's page in this repository, with its anchor.
func (r alertingRule) runbook() string {
	page, anchor, found := strings.Cut(strings.TrimPrefix(r.Annotations.Runbook, exampleNode), "#")
	if page += ".md"; found {
		page += "#" + anchor
	}
	return page
}

func alertingRules(t *testing.T) []alertingRule {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alertingRule }
	}
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/rules.yml")), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) == 0 {
		t.Fatalf("%d groups", len(file.Groups))
	}
	return file.Groups[0].Rules
}

// TestAlertingRules checks that the rules for Prometheus name metrics that exist, that each has a text and a page to
// read, and that the tests of promtool have a case for each.
func TestAlertingRules(t *testing.T) {
	known := read(t, "../docs/reference/metrics.md")
	tests := read(t, "prometheus/rules_test.yml")
	for _, r := range alertingRules(t) {
		metrics := regexp.MustCompile(`deadman_[a-z_]+`).FindAllString(r.Expr, -1)
		if len(metrics) == 0 {
			t.Errorf("%s reads no metric of deadman", r.Alert)
		}
		for _, m := range metrics {
			m = strings.TrimSuffix(m, "_bucket")
			if !strings.Contains(known, "`"+m+"`") && !strings.Contains(known, "`"+m+"{") {
				t.Errorf("%s reads %s, which is not in the reference", r.Alert, m)
			}
		}
		if !slices.Contains([]string{"critical", "warning"}, r.Labels.Severity) || r.Annotations.Summary == "" || r.Annotations.Description == "" {
			t.Errorf("%s has no severity or text: %+v", r.Alert, r)
		}
		if !strings.HasPrefix(r.Annotations.Runbook, exampleNode+"docs/") {
			t.Errorf("%s: the runbook %q is no page of a node", r.Alert, r.Annotations.Runbook)
		}
		page, anchor, _ := strings.Cut(r.runbook(), "#")
		if text := read(t, filepath.Join("..", page)); anchor != "" && !hasHeading(text, anchor) {
			t.Errorf("%s: %s has no heading #%s", r.Alert, page, anchor)
		}
		quiet := strings.Contains(tests, "alertname: "+r.Alert+"}")
		firing := strings.Contains(tests, `alertname="`+r.Alert+`"`) || strings.Contains(tests, "alertname: "+r.Alert+"\n")
		if !quiet || !firing {
			t.Errorf("%s: rules_test.yml has a case without the alert: %t, and with it: %t", r.Alert, quiet, firing)
		}
	}
}

// hasHeading reports whether a page has the heading of an anchor.
func hasHeading(page, anchor string) bool {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		if strings.ReplaceAll(strings.ToLower(m[1]), " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestAlertingRulesInPrometheus runs the tests of the rules with Prometheus' own tool.
func TestAlertingRulesInPrometheus(t *testing.T) {
	longtest.Only(t, "it needs promtool")
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("the test needs promtool: install it (Debian: apt-get install prometheus)")
	}
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = "prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	// A rule without its threshold fails the tests.
	broken := strings.Replace(read(t, "prometheus/rules.yml"), "max by (job) (deadman_jobs_overdue) > 0", "max by (job, instance) (deadman_jobs_overdue) > 0", 1)
	dir := t.TempDir()
	for name, text := range map[string]string{"rules.yml": broken, "rules_test.yml": read(t, "prometheus/rules_test.yml")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), tool, "test", "rules", "rules_test.yml")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("an alert for each node passes: %s", out)
	}
}
