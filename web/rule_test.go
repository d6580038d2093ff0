package web_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"deadman/web"
)

const (
	paidRule = `{"name": "paid", "entity": "payment", "trigger": {"event": "orders.created", "key": "event.id"}, "escalate": [{"after": "1h", "step": "primary"}]}`
	paidYAML = "name: paid\nentity: payment\ntrigger: {event: orders.created, key: event.id}\nescalate: [{after: 2h, step: primary}]\n"
)

// decodeChange decodes the answer to a request that saves a rule.
func decodeChange(t *testing.T, a answer, status int) web.RuleChange {
	t.Helper()
	var c web.RuleChange
	if err := json.Unmarshal([]byte(a.body), &c); a.StatusCode != status || err != nil {
		t.Fatalf("%d, want %d: %s", a.StatusCode, status, a.body)
	}
	return c
}

func checkProblem(t *testing.T, a answer, status int, kind web.Kind, parts ...string) web.Problem {
	t.Helper()
	p := a.problem(t)
	if a.StatusCode != status || p.Type != kind.URN() {
		t.Errorf("%d %s, want %d %s: %s", a.StatusCode, p.Type, status, kind.URN(), a.body)
	}
	for _, part := range parts {
		if !strings.Contains(p.Detail, part) {
			t.Errorf("%q does not contain %q", p.Detail, part)
		}
	}
	return p
}

func TestRuleLife(t *testing.T) {
	s := newFixture(t)
	const path = "/api/v1/rules/paid"
	a := requestPath(t, s.Server, "POST", "/api/v1/rules", paidRule, "Content-Type", "application/json")
	c := decodeChange(t, a, 201)
	if !c.Created || !c.Changed || c.Rule.Version != 1 || a.Header.Get("ETag") != `"1"` || a.Header.Get("Location") != path || !strings.Contains(c.Diff, "+name: paid") {
		t.Errorf("created: %v %+v", a.Header, c)
	}
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/rules", paidRule), 409, web.RuleConflict, "PUT")

	// As YAML, with a version, twice.
	a = requestPath(t, s.Server, "PUT", path, paidYAML, "Content-Type", "application/yaml", "If-Match", `"1"`)
	if c := decodeChange(t, a, 200); c.Created || !c.Changed || c.Rule.Version != 2 || a.Header.Get("ETag") != `"2"` || !strings.Contains(c.Diff, "after: 2h") {
		t.Errorf("replaced: %+v", c)
	}
	checkProblem(t, requestPath(t, s.Server, "PUT", path, paidRule, "If-Match", `"1"`), 412, web.RuleConflict, "version 2")
	checkProblem(t, requestPath(t, s.Server, "PUT", path, paidRule, "If-None-Match", "*"), 412, web.RuleConflict)
	if c := decodeChange(t, requestPath(t, s.Server, "PUT", path, paidYAML), 200); c.Changed || c.Rule.Version != 2 || c.Diff != "" {
		t.Errorf("the same again: %+v", c)
	}
	if c := decodeChange(t, requestPath(t, s.Server, "PUT", path+"?dry_run=true", paidRule), 200); !c.DryRun || !c.Changed || c.Rule.Version != 2 || c.Rule.SavedAt.IsZero() || !strings.Contains(c.Diff, "after: 1h") {
		t.Errorf("a dry run: %+v", c)
	}

	taken := requestPath(t, s.Server, "POST", "/api/v1/rules", paidRule)
	checkProblem(t, taken, 409, web.RuleConflict, "rule paid already exists, at version 2; PUT /api/v1/rules/paid replaces it")
	if strings.Contains(taken.body, "read it again") {
		t.Errorf("an unchanged rule: %s", taken.body)
	}
	checkProblem(t, requestPath(t, s.Server, "PUT", path, paidRule, "If-None-Match", "*"), 412, web.RuleConflict, "already exists, at version 2")

	// The document is returned as it was sent.
	a = requestPath(t, s.Server, "GET", path, "", "Accept", "application/yaml")
	if a.Header.Get("ETag") != `"2"` || a.Header.Get("Content-Type") != "application/yaml" || !strings.Contains(a.body, "after: 2h") {
		t.Errorf("as YAML: %v %s", a.Header, a.body)
	}
	if c := decodeChange(t, requestPath(t, s.Server, "PUT", path, a.body, "If-Match", `*`), 200); c.Changed {
		t.Errorf("its own YAML changes it: %s", c.Diff)
	}
	a = requestPath(t, s.Server, "GET", path, "", "Accept", "application/json, application/yaml;q=0.5")
	if a.Header.Get("Content-Type") != "application/json" || a.Header.Get("Vary") != "Accept" {
		t.Errorf("as JSON: %v", a.Header)
	}
	if c := decodeChange(t, requestPath(t, s.Server, "PUT", path, a.body), 200); c.Changed {
		t.Errorf("its own JSON changes it: %s", c.Diff)
	}

	// The versions of the rule.
	versions := get[web.Page[web.RuleVersion]](t, s.Server, path+"/versions")
	if len(versions.Items) != 2 || versions.Items[0].Version != 2 || versions.Items[0].SavedBy != "loopback" {
		t.Errorf("versions: %+v", versions)
	}
	first := get[web.Page[web.RuleVersion]](t, s.Server, path+"/versions?limit=1")
	if rest := get[web.Page[web.RuleVersion]](t, s.Server, path+"/versions?limit=1&cursor="+first.Next); len(rest.Items) != 1 || rest.Items[0].Version != 1 || rest.Next != "" {
		t.Errorf("page by page: %+v %+v", first, rest)
	}
	if a := requestPath(t, s.Server, "GET", path+"/versions/1", "", "Accept", "text/yaml"); !strings.Contains(a.body, "after: 1h") || a.Header.Get("ETag") != `"1"` {
		t.Errorf("version 1: %v %s", a.Header, a.body)
	}
	checkProblem(t, requestPath(t, s.Server, "GET", path+"/versions/3", ""), 404, web.NotFound, "version 3")
	if d := get[web.RuleDiff](t, s.Server, path+"/diff"); d.From != 1 || d.To != 2 || !strings.Contains(d.Diff, "after: 2h") {
		t.Errorf("diff: %+v", d)
	}
	if d := get[web.RuleDiff](t, s.Server, path+"/diff?from=2&to=1"); !strings.Contains(d.Diff, "+") || d.From != 2 {
		t.Errorf("diff backwards: %+v", d)
	}

	checkProblem(t, requestPath(t, s.Server, "DELETE", path, "", "If-Match", `"1"`), 412, web.RuleConflict)
	if a := requestPath(t, s.Server, "DELETE", path, "", "If-Match", `"2"`); a.StatusCode != 204 || a.body != "" {
		t.Errorf("deleted: %d %s", a.StatusCode, a.body)
	}
	checkProblem(t, requestPath(t, s.Server, "GET", path, ""), 404, web.NotFound, "paid")
	if left := get[web.Page[web.RuleVersion]](t, s.Server, path+"/versions"); len(left.Items) != 2 || left.Items[0].DeletedAt.IsZero() {
		t.Errorf("of a deleted rule there is %+v", left)
	}
	for _, absent := range []string{"", "/versions", "/versions/1", "/diff"} {
		checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/rules/absent"+absent, ""), 404, web.NotFound, "absent")
	}
	checkProblem(t, requestPath(t, s.Server, "PUT", path, paidRule, "If-Match", "*"), 412, web.RuleConflict)
}

func TestRefusedRules(t *testing.T) {
	s := newFixture(t)
	const path = "/api/v1/rules/paid"
	p := checkProblem(t, requestPath(t, s.Server, "PUT", path, "name: paid\nentity: payment\ntriger: {event: a.b, key: event.id}\nescalate: [{after: 1h, step: a}]\n"), 422, web.RuleInvalid, "trigger")
	found := false
	for _, d := range p.Errors {
		found = found || d.Pointer == "/triger" && d.Line == 3 && d.Column == 1 && d.Location == "triger"
	}
	if !found {
		t.Errorf("the location is missing: %+v", p.Errors)
	}
	checkProblem(t, requestPath(t, s.Server, "PUT", path, strings.Replace(paidRule, "paid", "other", 1)), 422, web.RuleInvalid, "other")
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/rules", ""), 400, web.BadRequest, "missing")
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/rules", strings.Repeat("#", 256<<10+1)), 413, web.TooLarge, "262144")
	for _, match := range [][]string{{"If-Match", "1"}, {"If-Match", `"x"`}, {"If-Match", `W/"1"`}, {"If-None-Match", `"1"`}, {"If-Match", "*", "If-None-Match", "*"}} {
		checkProblem(t, requestPath(t, s.Server, "PUT", path, paidRule, match...), 400, web.BadRequest, "header.If-")
	}
	// The entity of a rule never changes.
	checkProblem(t, requestPath(t, s.Server, "PUT", "/api/v1/rules/order-unshipped", strings.Replace(unshippedRule, "entity: order", "entity: parcel", 1)), 422, web.RuleInvalid, "never changes")
	if list := get[web.Page[web.Rule]](t, s.Server, "/api/v1/rules"); len(list.Items) != 1 || list.Items[0].Version != 1 {
		t.Errorf("something was changed: %+v", list)
	}
}

func TestBundles(t *testing.T) {
	s := newFixture(t)
	decodeChange(t, requestPath(t, s.Server, "PUT", "/api/v1/rules/paid?bundle=file:x", paidRule), 201)
	checkProblem(t, requestPath(t, s.Server, "PUT", "/api/v1/rules/paid", paidYAML), 409, web.RuleConflict, "file:x")
	checkProblem(t, requestPath(t, s.Server, "DELETE", "/api/v1/rules/paid", ""), 409, web.RuleConflict, "file:x")
	decodeChange(t, requestPath(t, s.Server, "PUT", "/api/v1/rules/paid?bundle=file:x", paidYAML), 200)
	if list := get[web.Page[web.Rule]](t, s.Server, "/api/v1/rules?bundle=file:x"); len(list.Items) != 1 || list.Items[0].Bundle != "file:x" {
		t.Errorf("%+v", list)
	}
	// A lint checks the text, regardless of the rule's owner.
	if a := requestPath(t, s.Server, "POST", "/api/v1/rules/lint", paidRule); a.StatusCode != 200 || !strings.Contains(a.body, `"valid":true`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/rules/paid?bundle=file:x", ""); a.StatusCode != 204 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// TestSaveWithSince checks that events from before the save create jobs with the parameter since.
func TestSaveWithSince(t *testing.T) {
	s := newFixture(t)
	for _, id := range []string{"1", "2"} {
		if a := requestPath(t, s.Server, "POST", "/api/v1/events/orders.created", fmt.Sprintf(`{"id": %q}`, id)); a.StatusCode != 202 {
			t.Fatal(a.body)
		}
	}
	since := "&since=" + url.QueryEscape(s.now.Add(-time.Hour).Format(time.RFC3339))
	future := url.QueryEscape(s.now.Add(time.Minute).Format(time.RFC3339))
	for method, path := range map[string]string{"PUT": "/api/v1/rules/paid?since=", "POST": "/api/v1/rules?since="} {
		p := checkProblem(t, requestPath(t, s.Server, method, path+future, paidRule), 422, web.Invalid, "in the future")
		if len(p.Errors) != 1 || p.Errors[0].Location != "query.since" || !strings.Contains(p.Detail, "use a time in the past") {
			t.Errorf("%s: %+v", method, p)
		}
	}
	if list := get[web.Page[web.Rule]](t, s.Server, "/api/v1/rules?name=paid"); len(list.Items) != 0 {
		t.Errorf("a refused save left %+v", list.Items)
	}
	if c := decodeChange(t, requestPath(t, s.Server, "PUT", "/api/v1/rules/paid?dry_run=true"+since, paidRule), 200); c.BackfilledJobs != 2 || c.AlertsAtOnce+c.UnknownAtOnce != 0 {
		t.Errorf("a dry run: %+v", c)
	}
	if c := decodeChange(t, requestPath(t, s.Server, "PUT", "/api/v1/rules/paid?dry_run=false"+since, paidRule), 201); c.BackfilledJobs != 2 {
		t.Errorf("%+v", c)
	}
	if got := keys(get[web.Page[web.Job]](t, s.Server, "/api/v1/jobs?rule=paid").Items); got != "[1 2]" {
		t.Errorf("they wait for %s", got)
	}
	// Pending jobs move to the new version with the parameter apply_to.
	if c := decodeChange(t, requestPath(t, s.Server, "PUT", "/api/v1/rules/paid?apply_to=pending", paidYAML), 200); c.MovedJobs != 2 {
		t.Errorf("%+v", c)
	}
	if j := get[web.Job](t, s.Server, "/api/v1/jobs/paid/1"); j.RuleVersion != 2 || j.NextCheckAt.Sub(j.Since) < 2*time.Hour {
		t.Errorf("%+v", j)
	}
}

func TestRuleList(t *testing.T) {
	s := newFixture(t)
	for _, name := range []string{"b", "a", "d", "c"} {
		s.saveRule(strings.Replace(paidYAML, "paid", name, 1))
	}
	names := func(query string) string {
		t.Helper()
		var all []string
		for cursor := ""; ; {
			page := get[web.Page[web.Rule]](t, s.Server, "/api/v1/rules?limit=2&cursor="+cursor+query)
			for _, r := range page.Items {
				all = append(all, r.Name)
			}
			if cursor = url.QueryEscape(page.Next); cursor == "" {
				return fmt.Sprint(all)
			}
		}
	}
	if a := requestPath(t, s.Server, "POST", "/api/v1/rules/c/pause", ""); a.StatusCode != 200 || !strings.Contains(a.body, `"paused_at"`) || !strings.Contains(a.body, `"paused_by":"loopback"`) {
		t.Errorf("paused: %d %s", a.StatusCode, a.body)
	}
	for query, want := range map[string]string{
		"": "[a b c d order-unshipped]", "&name=b": "[b]", "&prefix=order-": "[order-unshipped]",
		"&entity=payment": "[a b c d]", "&paused=true": "[c]", "&paused=false": "[a b d order-unshipped]", "&bundle=x": "[]",
		"&text=SHIPPED": "[order-unshipped]", "&text=absent": "[]", "&state=paused": "[c]", "&state=enabled": "[a b d order-unshipped]", "&state=unreadable": "[]",
	} {
		if got := names(query); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	s.saveRule(strings.Replace(paidYAML, "name: paid", "name: c\nenabled: false", 1))
	if got := names("&state=disabled") + names("&state=paused") + names("&state=enabled"); got != "[c][c][a b d order-unshipped]" {
		t.Errorf("a paused rule that is disabled is in the states %s", got)
	}
	if a := requestPath(t, s.Server, "POST", "/api/v1/rules/c/resume", ""); a.StatusCode != 200 || strings.Contains(a.body, `"paused_at"`) {
		t.Errorf("resumed: %d %s", a.StatusCode, a.body)
	}
	checkProblem(t, requestPath(t, s.Server, "POST", "/api/v1/rules/absent/pause", ""), 404, web.NotFound)
}

func TestLint(t *testing.T) {
	s := newFixture(t)
	lint := func(text string) web.LintResult {
		t.Helper()
		a := requestPath(t, s.Server, "POST", "/api/v1/rules/lint", text)
		var l web.LintResult
		if err := json.Unmarshal([]byte(a.body), &l); a.StatusCode != 200 || err != nil {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		return l
	}
	if l := lint(paidYAML); !l.Valid || l.Problems == nil || len(l.Problems) != 0 {
		t.Errorf("%+v", l)
	}
	l := lint("name: paid\nentity: payment\ntrigger: {event: orders.created, key: event.id}\nescalate: [{after: 2h, step: a}, {after: 1h, step: b, severty: info}]\n")
	if l.Valid || len(l.Problems) != 2 || l.Problems[0].Line != 4 {
		t.Errorf("both problems are expected: %+v", l)
	}
	if list := get[web.Page[web.Rule]](t, s.Server, "/api/v1/rules"); len(list.Items) != 1 {
		t.Errorf("a lint saved something: %+v", list)
	}
}

func TestPreview(t *testing.T) {
	s := newFixture(t)
	const saved, unsaved = "/api/v1/rules/order-unshipped/preview", "/api/v1/rules/preview"
	const happens = `"event": {"at": "2026-01-31T09:00:00Z", "data": {"id": "7"}}`
	steps := func(a answer) string {
		t.Helper()
		var p struct {
			Key, Outcome string
			Lines        []struct{ At, Kind, Step, Text string }
		}
		if err := json.Unmarshal([]byte(a.body), &p); a.StatusCode != 200 || err != nil {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		text := p.Key
		for _, l := range p.Lines {
			if l.Kind == "alert" {
				text += " " + l.At[11:16] + " " + l.Step
			}
		}
		return text + " " + p.Outcome
	}
	if got := steps(requestPath(t, s.Server, "POST", saved, "{"+happens+`, "later_events": [{"subject": "orders.shipped", "at": "2026-01-31T13:00:00Z", "data": {"id": "7"}}]}`)); got != "7 12:00 primary 13:00 primary resolved" {
		t.Errorf("resolved after a step: %s", got)
	}
	if got := steps(requestPath(t, s.Server, "POST", unsaved, `{"rule": `+paidRule+", "+happens+"}")); got != "7 10:00 primary exhausted" {
		t.Errorf("a document: %s", got)
	}
	yaml, err := json.Marshal(paidYAML)
	failOn(t, err)
	if got := steps(requestPath(t, s.Server, "POST", unsaved, `{"rule": `+string(yaml)+", "+happens+"}")); got != "7 11:00 primary exhausted" {
		t.Errorf("YAML: %s", got)
	}
	checkProblem(t, requestPath(t, s.Server, "POST", saved, "{"+happens+`, "later_event": []}`), 422, web.UnknownField, "body.later_event", "did you mean later_events?")
	checkProblem(t, requestPath(t, s.Server, "POST", saved, "{"+happens+`, "later_events": [{"subjct": "a"}]}`), 422, web.UnknownField, "body.later_events[0].subjct", "did you mean subject?")
	checkProblem(t, requestPath(t, s.Server, "POST", saved, `{}`), 422, web.Invalid, "event")
	checkProblem(t, requestPath(t, s.Server, "POST", saved, `{"event": {"at": "noon"}}`), 422, web.Invalid, "body.event.at")
	checkProblem(t, requestPath(t, s.Server, "POST", saved, `{"event"`), 400, web.BadRequest, "body")
	checkProblem(t, requestPath(t, s.Server, "POST", saved+"?version=9", "{"+happens+"}"), 404, web.NotFound, "version 9")
	checkProblem(t, requestPath(t, s.Server, "POST", unsaved, `{"rule": "name: x", `+happens+"}"), 422, web.RuleInvalid)
	checkProblem(t, requestPath(t, s.Server, "POST", saved, "{"+happens+`, "later_events": [{"at": "2025-01-31T13:00:00Z"}]}`), 422, web.Invalid, "order")
	if jobs := get[web.Page[web.Job]](t, s.Server, "/api/v1/jobs"); len(jobs.Items) != 0 {
		t.Errorf("a preview began a wait: %+v", jobs)
	}
}

// TestRulesReportTheirNextTick checks that a rule with a schedule has its next tick, or none after its last.
func TestRulesReportTheirNextTick(t *testing.T) {
	s := newFixture(t)
	save := func(name, schedule string) web.Rule {
		t.Helper()
		text := fmt.Sprintf("name: %s\nentity: import\ntrigger: {schedule: %q, zone: Europe/Berlin}\nescalate: [{at: \"09:00\"}]\n", name, schedule)
		return decodeChange(t, requestPath(t, s.Server, "POST", "/api/v1/rules", text), 201).Rule
	}
	every := save("every", "@every 1h")
	if want := every.SavedAt.Truncate(time.Second).Add(time.Hour); !every.NextTickAt.Equal(want) || every.ScheduleEnded || every.Schedule != "@every 1h" {
		t.Errorf("every hour: %+v, want %s", every, want)
	}
	if over := save("once", "@at 2026-01-01T00:00:00Z"); !over.ScheduleEnded || !over.NextTickAt.IsZero() {
		t.Errorf("once: %+v", over)
	}
	save("paused", "@every 1h")
	var paused web.Rule
	if a := requestPath(t, s.Server, "POST", "/api/v1/rules/paused/pause", ""); json.Unmarshal([]byte(a.body), &paused) != nil || !paused.NextTickAt.IsZero() || paused.ScheduleEnded || paused.Schedule == "" {
		t.Errorf("paused: %s", a.body)
	}
	const rests = "name: rests\nentity: import\nenabled: false\ntrigger: {schedule: '@every 1h'}\nescalate: [{after: 1m}]\n"
	if rests := decodeChange(t, requestPath(t, s.Server, "POST", "/api/v1/rules", rests), 201).Rule; !rests.NextTickAt.IsZero() || rests.ScheduleEnded {
		t.Errorf("at rest: %+v", rests)
	}
	var listed struct{ Items []web.Rule }
	if a := requestPath(t, s.Server, "GET", "/api/v1/rules?name=every", ""); json.Unmarshal([]byte(a.body), &listed) != nil || len(listed.Items) != 1 {
		t.Fatal(a.body)
	}
	if got := listed.Items[0]; !got.NextTickAt.Equal(every.NextTickAt) {
		t.Errorf("listed: %+v", got)
	}
}

// TestDiffAfterPruning checks that a version is compared with the next lower one that exists, and the first one with itself.
func TestDiffAfterPruning(t *testing.T) {
	s := newFixture(t)
	for i := range 14 {
		if a := requestPath(t, s.Server, "PUT", "/api/v1/rules/paid", fmt.Sprintf("name: paid\nentity: order\ntrigger: {schedule: '@daily'}\nescalate: [{after: 1h}]\ndescription: text %d\n", i+1)); a.StatusCode >= 300 {
			t.Fatalf("version %d: %d %s", i+1, a.StatusCode, a.body)
		}
	}
	if n, err := s.store.PruneVersions(t.Context(), func(string) bool { return true }); n != 3 || err != nil {
		t.Fatalf("%d versions were pruned, %v; want 2, 3 and 4", n, err)
	}
	for query, want := range map[string][]int32{"": {13, 14}, "?to=6": {5, 6}, "?to=5": {1, 5}, "?to=1": {1, 1}, "?from=1": {1, 14}} {
		d := get[web.RuleDiff](t, s.Server, "/api/v1/rules/paid/diff"+query)
		removed, added := fmt.Sprintf("-description: text %d\n", want[0]), fmt.Sprintf("+description: text %d\n", want[1])
		shows := strings.Contains(d.Diff, removed) && strings.Contains(d.Diff, added)
		if d.From != want[0] || d.To != want[1] || shows != (d.From != d.To) {
			t.Errorf("diff%s: %+v, want %v", query, d, want)
		}
	}
	for _, query := range []string{"?to=4", "?from=4", "?to=15"} {
		checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/rules/paid/diff"+query, ""), 404, web.NotFound, "no version")
	}
}
