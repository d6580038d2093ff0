package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"deadman/checks"
	"deadman/internal/access"
	"deadman/web"
)

// description is the tested part of the description.
type description struct {
	OpenAPI    string                                   `json:"openapi"`
	Paths      map[string]map[string]describedOperation `json:"paths"`
	Components struct {
		Schemas         map[string]json.RawMessage   `json:"schemas"`
		SecuritySchemes map[string]map[string]string `json:"securitySchemes"`
	} `json:"components"`
	Tags []struct{ Name string } `json:"tags"`
}

type describedOperation struct {
	OperationID, Summary string
	Tags                 []string
	Security             []map[string][]string
	Parameters           []describedParameter
	Responses            map[string]struct {
		Content map[string]any
	}
}

type describedParameter struct{ Name, In, Description string }

var pathPart = regexp.MustCompile(`\{(\w+)\}`)

func readDescription(t *testing.T, s *fixture) (description, string) {
	t.Helper()
	a := requestPath(t, s.Server, "GET", "/openapi.json", "")
	if a.StatusCode != 200 || !strings.HasPrefix(a.Header.Get("Content-Type"), "application/vnd.oai.openapi+json") {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	var d description
	failOn(t, json.Unmarshal([]byte(a.body), &d))
	return d, a.body
}

// TestDescription checks that the description has every operation, with its requirements.
func TestDescription(t *testing.T) {
	s := newFixture(t)
	d, text := readDescription(t, s)
	if d.OpenAPI != "3.1.0" || d.Components.SecuritySchemes["token"]["scheme"] != "bearer" {
		t.Errorf("%s %v", d.OpenAPI, d.Components.SecuritySchemes)
	}
	var has []string
	ids := make(map[string]bool)
	for path, operations := range d.Paths {
		for method, o := range operations {
			where := strings.ToUpper(method) + " " + path
			has = append(has, where)
			if ids[o.OperationID] || o.OperationID == "" || o.Summary == "" || len(o.Tags) != 1 {
				t.Errorf("%s: %+v", where, o)
			}
			ids[o.OperationID] = true
			if len(o.Security) != 1 || len(o.Security[0]["token"]) != 1 || !slices.Contains(access.Scopes, access.Scope(o.Security[0]["token"][0])) {
				t.Errorf("%s takes the scopes %v", where, o.Security)
			}
			for _, status := range []string{"400", "401", "403", "429", "500", "503"} {
				if o.Responses[status].Content["application/problem+json"] == nil {
					t.Errorf("%s does not say what a %s looks like", where, status)
				}
			}
			if o.Responses["422"].Content != nil && method == "get" {
				t.Errorf("%s can have a wrong body, and has none", where)
			}
			for _, p := range o.Parameters {
				if p.Description == "" || p.Name == "Accept" || p.Name == "Content-Type" || p.Name == "Authorization" {
					t.Errorf("%s: parameter %+v", where, p)
				}
			}
			for _, part := range pathPart.FindAllStringSubmatch(path, -1) {
				if !slices.ContainsFunc(o.Parameters, func(p describedParameter) bool { return p.In == "path" && p.Name == part[1] }) {
					t.Errorf("%s: %s is not described", where, part[1])
				}
			}
		}
	}
	var does []string
	for _, r := range get[web.Index](t, s.Server, "/api/v1").Routes {
		does = append(does, r.Method+" "+r.Path)
	}
	slices.Sort(has)
	slices.Sort(does)
	if !slices.Equal(has, does) {
		t.Errorf("described are %v, done are %v", has, does)
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(text, -1) {
		if d.Components.Schemas[ref[1]] == nil {
			t.Errorf("there is no %s", ref[1])
		}
	}
	for name, strict := range map[string]bool{"Job": false, "RuleChange": false, "JobRequest": true, "PreviewEvent": true, "RuleDocument": true} {
		if strings.Contains(string(d.Components.Schemas[name]), `"additionalProperties":false`) != strict {
			t.Errorf("%s takes unknown fields: %t, want %t", name, strict, !strict)
		}
	}
	if strings.Contains(text, "$defs") || strings.Contains(text, "ErrorModel") {
		t.Error("what is another library's shows through")
	}
}

// TestOutcomesAreDescribed checks that the description of ended jobs names each outcome.
func TestOutcomesAreDescribed(t *testing.T) {
	d, _ := readDescription(t, newFixture(t))
	for _, o := range checks.Outcomes() {
		if schema := string(d.Components.Schemas["EndedJob"]); !strings.Contains(schema, " "+string(o)) {
			t.Errorf("%s is not described: %s", o, schema)
		}
	}
}

// TestAnswersAreAsDescribed checks that the answers of the node match the description, field by field.
func TestAnswersAreAsDescribed(t *testing.T) {
	s := newFixture(t, closedNode)
	admin := s.newToken("root", "", access.Admin)
	send := func(method, path, body string) answer {
		t.Helper()
		return requestPath(t, s.Server, method, path, body, admin...)
	}
	var d map[string]any
	text := send("GET", "/openapi.json", "").body
	failOn(t, json.Unmarshal([]byte(text), &d))
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	failOn(t, compiler.AddResource("openapi.json", d))

	for _, key := range []string{"1", "2"} {
		s.createJob(key, 1e9, `{"id": 1, "of": {"any": ["kind"]}}`)
		s.alert(key, "late", 3600e9)
	}
	s.resolve("1")
	if a := send("PUT", "/api/v1/rules/paid", paidRule); a.StatusCode != 201 {
		t.Fatal(a.body)
	}
	s.saveRule(reportRule)
	s.logIn(admin)
	for _, c := range []struct {
		method, path, body, schema string
		status                     int
	}{
		{"GET", "/api/v1/rules", "", "PageRule", 200},
		{"GET", "/api/v1/rules/paid", "", "RuleDocument", 200},
		{"GET", "/api/v1/rules/order-unshipped", "", "RuleDocument", 200},
		{"PUT", "/api/v1/rules/paid?dry_run=true", paidYAML, "RuleChange", 200},
		{"GET", "/api/v1/rules/paid/versions", "", "PageRuleVersion", 200},
		{"GET", "/api/v1/rules/paid/diff", "", "RuleDiff", 200},
		{"POST", "/api/v1/rules/paid/pause", "", "Rule", 200},
		{"POST", "/api/v1/rules/lint", "name: x", "LintResult", 200},
		{"POST", "/api/v1/rules/order-unshipped/preview", `{"event": {"data": {"id": "1"}}}`, "Preview", 200},
		{"GET", "/api/v1/jobs", "", "PageJob", 200},
		{"GET", "/api/v1/jobs/order-unshipped/2", "", "Job", 200},
		{"POST", "/api/v1/jobs", `{"rule": "order-unshipped", "key": "3"}`, "Job", 201},
		{"POST", "/api/v1/jobs/bulk", `{"rule": "order-unshipped", "key": "3"}` + "\n{", "BulkResult", 200},
		{"POST", "/api/v1/jobs/order-unshipped/2/check", "", "CheckResult", 200},
		{"POST", "/api/v1/jobs/order-unshipped/2/snooze", `{"for": "1h"}`, "Job", 200},
		{"POST", "/api/v1/schedules/bulk", reportLine + "\n{", "ScheduleBulkResult", 200},
		{"PUT", "/api/v1/schedules/report-due/a", `{"schedule": "@daily", "zone": "Asia/Tokyo", "data": {"id": 1}}`, "Schedule", 200},
		{"GET", "/api/v1/schedules/report-due/a", "", "Schedule", 200},
		{"GET", "/api/v1/schedules?rule=report-due", "", "PageSchedule", 200},
		{"GET", "/api/v1/schedules/report-due/a/ticks", "", "PageScheduleTick", 200},
		{"GET", "/api/v1/schedules/report-due/ticks", "", "PageScheduleTick", 200},
		{"GET", "/api/v1/entities/order/1", "", "Entity", 200},
		{"DELETE", "/api/v1/entities/order/3/jobs", "", "CancelResult", 200},
		{"GET", "/api/v1/history", "", "PageEndedJob", 200},
		{"GET", "/api/v1/alerts", "", "PageAlert", 200},
		{"POST", "/api/v1/events/orders.created", `{}`, "PublishResult", 202},
		{"GET", "/api/v1/channels", "", "PageChannel", 200},
		{"GET", "/api/v1/sources", "", "PageSource", 200},
		{"GET", "/api/v1/handlers", "", "HandlerList", 200},
		{"POST", "/api/v1/mutes", `{"match": {"rule": "x"}, "reason": "r", "for": "1h"}`, "Mute", 201},
		{"POST", "/api/v1/mutes/preview", `{"match": {"rule": "x"}}`, "MuteReach", 200},
		{"GET", "/api/v1/mutes", "", "PageMute", 200},
		{"GET", "/api/v1/dead-letters", "", "PageDeadLetter", 200},
		{"GET", "/api/v1/nodes", "", "Nodes", 200},
		{"GET", "/api/v1/streams", "", "PageStream", 200},
		{"GET", "/api/v1/outages", "", "PageOutage", 200},
		{"POST", "/api/v1/tokens", `{"name": "x", "scopes": ["read", "events"]}`, "NewToken", 201},
		{"GET", "/api/v1/tokens", "", "PageToken", 200},
		{"GET", "/api/v1/sessions", "", "PageSession", 200},
		{"GET", "/api/v1/audit", "", "PageAuditEntry", 200},
		{"GET", "/api/v1/jobs?limit=0", "", "Problem", 400},
		{"PUT", "/api/v1/rules/x", "name: x", "Problem", 422},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			a := send(c.method, c.path, c.body)
			if a.StatusCode != c.status {
				t.Fatalf("%d %s", a.StatusCode, a.body)
			}
			schema, err := compiler.Compile("openapi.json#/components/schemas/" + c.schema)
			failOn(t, err)
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(a.body)))
			failOn(t, err)
			if err := schema.Validate(value); err != nil {
				t.Errorf("%s: %v", a.body, err)
			}
			described, _ := d["components"].(map[string]any)["schemas"].(map[string]any)[c.schema].(map[string]any)["properties"].(map[string]any)
			fields, _ := value.(map[string]any)
			for name := range fields {
				if described[name] == nil {
					t.Errorf("%s is not described", name)
				}
			}
		})
	}
}

// TestDocs checks that the page of the API works offline and without a script, and that none of its links is broken.
func TestDocs(t *testing.T) {
	s := newFixture(t)
	a := requestPath(t, s.Server, "GET", "/docs/api", "")
	policy := a.Header.Get("Content-Security-Policy")
	if a.StatusCode != 200 || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("%d %s", a.StatusCode, policy)
	}
	if found := regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|<style|<script(?: [^>]*)?>[^<]|<img|javascript:`).FindString(a.body); found != "" {
		t.Errorf("the page has what its policy forbids: %s", found)
	}
	for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(a.body, -1) {
		target := link[1]
		switch {
		case strings.HasPrefix(target, "data:"):
		case strings.HasPrefix(target, "#"):
			if !strings.Contains(a.body, `id="`+target[1:]+`"`) {
				t.Errorf("there is no %s", target)
			}
		default:
			if got := requestPath(t, s.Server, "GET", target, ""); got.StatusCode != http.StatusOK {
				t.Errorf("%s: %d", target, got.StatusCode)
			}
		}
	}
	d, _ := readDescription(t, s)
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for method, o := range d.Paths[path] {
			if !strings.Contains(a.body, fmt.Sprintf(`<article id=%q>`, o.OperationID)) {
				t.Errorf("%s %s is not on the page", method, path)
			}
		}
	}
	for _, part := range []string{"urn:deadman:problem:rule-invalid", "scope rules", "curl -X POST", `<a href="#shape-Job">list of Job</a>`, "--data-binary @rule.yaml"} {
		if !strings.Contains(a.body, part) {
			t.Errorf("there is no %s", part)
		}
	}
}

// TestEverythingIsDescribed checks that each operation, parameter and property of the description has a text.
func TestEverythingIsDescribed(t *testing.T) {
	var d struct {
		Paths      map[string]map[string]describedOperation
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Ref         string `json:"$ref"`
					Description string
				}
			}
		}
	}
	_, text := readDescription(t, newFixture(t))
	failOn(t, json.Unmarshal([]byte(text), &d))
	for path, operations := range d.Paths {
		for method, op := range operations {
			if op.Summary == "" {
				t.Errorf("%s %s has no summary", method, path)
			}
			for _, p := range op.Parameters {
				if p.Description == "" {
					t.Errorf("%s %s: parameter %s has no description", method, path, p.Name)
				}
			}
		}
	}
	for name, s := range d.Components.Schemas {
		for field, p := range s.Properties {
			if p.Description == "" && p.Ref == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
	}
}
