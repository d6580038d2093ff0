package web_test

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/web"
)

// readRuleFolder makes the fixture read rules from a folder of that name, as a node does at start.
func (s *fixture) readRuleFolder(name string, files map[string]string) {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), name)
	failOn(s.t, os.Mkdir(dir, 0o700))
	for file, text := range files {
		failOn(s.t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	s.rules.As = func(ctx context.Context, bundle, _ string) context.Context {
		return access.As(ctx, access.Actor{Name: bundle})
	}
	report, err := s.rules.ApplyDir(s.t.Context(), dir)
	failOn(s.t, err)
	if len(report.Problems) > 0 {
		s.t.Fatal(report.Problems)
	}
}

// TestRulesOfNodesFolderAreReadOnly checks that rules of a node's folder cannot be changed by requests with the
// folder's bundle.
func TestRulesOfNodesFolderAreReadOnly(t *testing.T) {
	s := newFixture(t, closedNode)
	rulesOnly, admin := s.newToken("ci", "", access.Rules), s.newToken("adm", "", access.Admin)
	tenant := s.newToken("tenant", "pa-*", access.Admin)
	s.readRuleFolder("orders", map[string]string{"paid.yaml": paidYAML})
	as := func(token []string, method, path, body string) answer {
		t.Helper()
		return requestPath(t, s.Server, method, "/api/v1/rules"+path, body, append([]string{"Content-Type", "application/yaml"}, token...)...)
	}
	const of, at = "file:orders", "--rules"
	other := strings.Replace(paidYAML, "name: paid", "name: other", 1)
	mine := strings.Replace(paidYAML, "after: 2h", "after: 30d", 1)
	for _, token := range [][]string{rulesOnly, admin} {
		checkProblem(t, as(token, "PUT", "/paid", mine), 409, web.RuleConflict, of, at)
		checkProblem(t, as(token, "PUT", "/paid?bundle=file:orders", mine), 409, web.RuleConflict, of, at, "admin")
		checkProblem(t, as(token, "PUT", "/paid?bundle=file:orders&dry_run=true", mine), 409, web.RuleConflict, of, at)
		checkProblem(t, as(token, "PUT", "/other?bundle=file:orders", other), 409, web.RuleConflict, of, at, "--bundle")
		checkProblem(t, as(token, "POST", "?bundle=file:orders", other), 409, web.RuleConflict, of, at, "--bundle")
	}
	past := "since=" + url.QueryEscape(time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	checkProblem(t, as(admin, "PUT", "/paid?"+past, paidYAML), 409, web.RuleConflict, "past events", "--adopt, too", "admin")
	checkProblem(t, as(rulesOnly, "PUT", "/paid?adopt=true", mine), 403, web.Forbidden, of, at, "admin")
	checkProblem(t, as(rulesOnly, "PUT", "/paid?adopt=true&bundle=file:orders", mine), 403, web.Forbidden, of, at)
	checkProblem(t, as(rulesOnly, "DELETE", "/paid?bundle=file:orders", ""), 403, web.Forbidden, of, at, "admin")
	checkProblem(t, as(rulesOnly, "DELETE", "/paid", ""), 403, web.Forbidden, of)
	s.readRuleFolder("tenants", map[string]string{"pa.yaml": strings.Replace(paidYAML, "name: paid", "name: pa-id", 1)})
	checkProblem(t, as(tenant, "PUT", "/pa-id?adopt=true", strings.Replace(paidYAML, "name: paid", "name: pa-id", 1)), 403, web.Forbidden, "file:tenants", at)
	checkProblem(t, as(tenant, "DELETE", "/pa-id?bundle=file:tenants", ""), 403, web.Forbidden, "file:tenants", at)
	rule := func() web.Rule {
		t.Helper()
		var list web.Page[web.Rule]
		failOn(t, json.Unmarshal([]byte(as(admin, "GET", "?name=paid", "").body), &list))
		if len(list.Items) != 1 {
			t.Fatalf("%+v", list)
		}
		return list.Items[0]
	}
	if r := rule(); r.Version != 1 || r.SavedBy != of {
		t.Fatalf("it was changed: %+v", r)
	}

	// Bundles without a node's folder belong to the clients that apply them.
	decodeChange(t, as(rulesOnly, "PUT", "/other?bundle=file:mine", other), 201)
	decodeChange(t, as(rulesOnly, "PUT", "/other?adopt=true", other), 200)

	// Rules saved under the folder's name before the node read the folder belong to the node from then on.
	s.readRuleFolder("late", map[string]string{"early.yaml": strings.Replace(paidYAML, "name: paid", "name: late", 1)})
	early := strings.Replace(paidYAML, "name: paid", "name: early", 1)
	decodeChange(t, as(rulesOnly, "PUT", "/early?bundle=file:soon", early), 201)
	s.readRuleFolder("soon", map[string]string{"early.yaml": early})
	checkProblem(t, as(rulesOnly, "PUT", "/early?bundle=file:soon", mine), 409, web.RuleConflict, "file:soon", at)

	// An administrator cleans up rules without a file, and the audit log records the bundle.
	decodeChange(t, as(admin, "PUT", "/late?adopt=true&"+past, strings.Replace(mine, "name: paid", "name: late", 1)), 200)
	if a := as(admin, "DELETE", "/paid?bundle=file:orders", ""); a.StatusCode != 204 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	var audit web.Page[web.AuditEntry]
	failOn(t, json.Unmarshal([]byte(requestPath(t, s.Server, "GET", "/api/v1/audit?action=rule.delete", "", admin...).body), &audit))
	if len(audit.Items) != 1 || audit.Items[0].Detail != "version 1; bundle file:orders" {
		t.Errorf("%+v", audit.Items)
	}
}

// TestTenantNamesStartWithItsPrefix checks that a tenant creates and pauses rules below its prefix only,
// including those of a node's folder.
func TestTenantNamesStartWithItsPrefix(t *testing.T) {
	s := newFixture(t, closedNode)
	tenant := append(s.newToken("tenant", "acme-*", access.Rules), "Content-Type", "application/yaml")
	named := func(name string) string { return strings.Replace(paidYAML, "name: paid", "name: "+name, 1) }
	s.readRuleFolder("operator", map[string]string{"paid.yaml": paidYAML, "acme.yaml": named("acme-paid")})
	for _, of := range [][3]string{
		{"PUT", "/later", named("later")},
		{"POST", "", named("later")},
		{"PUT", "/acm", named("acm")},
		{"POST", "/paid/pause", ""},
		{"POST", "/paid/resume", ""},
	} {
		if a := requestPath(t, s.Server, of[0], "/api/v1/rules"+of[1], of[2], tenant...); a.StatusCode != 403 {
			t.Errorf("%s %s: %d %s", of[0], of[1], a.StatusCode, a.body)
		}
	}
	for _, does := range []string{"pause", "resume"} {
		if a := requestPath(t, s.Server, "POST", "/api/v1/rules/acme-paid/"+does, "", tenant...); a.StatusCode != 200 {
			t.Errorf("%s a rule of the folder below the prefix: %d %s", does, a.StatusCode, a.body)
		}
	}
}
