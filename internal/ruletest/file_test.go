package ruletest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"deadman/internal/ruletest"
)

// An error of a file has its line, the field and the remedy.
func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "rule.test.yaml:1:1: the file has no test; write tests: with a list"},
		{"tests: []\n", "rule.test.yaml:1:8: tests: the file has no test; write one, or remove the file"},
		{"test: []\n", `rule.test.yaml:1:1: test: unknown field "test"; did you mean "tests"?
rule.test.yaml:1:1: tests is missing; write the tests, each with a name, events and alerts`},
		{"tests:\n- name: a\n", "rule.test.yaml:2:3: tests[0]: the test expects nothing; write alerts: [] if the rules have to be silent, or the alerts or outcomes that it expects"},
		{"tests:\n- {name: a, alerts: []}\n- {name: a, alerts: []}\n", `rule.test.yaml:3:3: tests[1]: another test is named "a"; give each test its own name`},
		{"tests:\n- {name: a, alerts: [], partial: true}\n", "rule.test.yaml:2:21: tests[0].alerts: partial allows any other entry, so that an empty list expects nothing; remove the list, or partial"},
		{"tests:\n- {name: a, alerts: [{}]}\n", "rule.test.yaml:2:22: tests[0].alerts[0]: the entry expects nothing; write some of at, rule, key, step, status, severity, text, contains, labels, skipped_steps"},
		{"tests:\n- {name: a, alerts: [{at: 3, severity: loud, status: fireing}]}\n", `rule.test.yaml:2:27: tests[0].alerts[0].at: expected a duration with a unit, such as 30s or 5m, not a number
rule.test.yaml:2:40: tests[0].alerts[0].severity: "loud" is not a severity; write one of info, warning, error, critical
rule.test.yaml:2:54: tests[0].alerts[0].status: "fireing" is not a status; did you mean "firing"?`},
		{"tests:\n- {name: a, start: monday, alerts: [{at: 2026-03-02T99:00:00Z}]}\n", `rule.test.yaml:2:20: tests[0].start: "monday" is not a time; write one such as 2026-03-02T13:00:00Z
rule.test.yaml:2:42: tests[0].alerts[0].at: "2026-03-02T99:00:00Z" is not a time; write one such as 2026-03-02T13:00:00Z`},
		{"tests:\n- {name: a, until: 1h, events: [{at: 2h, subject: a}], alerts: [{at: 3h}]}\n", `rule.test.yaml:2:38: tests[0].events[0].at: the event comes after the end of the test, until: 1h; raise until
rule.test.yaml:2:70: tests[0].alerts[0].at: the test ends before, until: 1h; raise until`},
		{"tests:\n- {name: a, events: [{at: 2h}, {subject: a..b}, {at: 0s, ping: a, data: {}, kind: done}, {at: 0s, subject: a, kind: fail}], alerts: []}\n", `rule.test.yaml:2:22: tests[0].events[0]: an event has a subject, or it is a ping of a key; write subject: orders.created, or ping: backup
rule.test.yaml:2:32: tests[0].events[1]: at is missing; write when it comes, such as at: 30m
rule.test.yaml:2:42: tests[0].events[1].subject: "a..b" has an empty token; write tokens with single dots between, such as orders.created
rule.test.yaml:2:73: tests[0].events[2].data: a ping has no data; write body, or kind, exit and run
rule.test.yaml:2:83: tests[0].events[2].kind: "done" is not a kind of a ping; write one of success, start, fail, log
rule.test.yaml:2:117: tests[0].events[3].kind: only a ping has a kind; an event has data`},
		{"tests:\n- {name: a, events: [{at: 0s, subject: a, data: {n: .inf}}], alerts: []}\n", `rule.test.yaml:2:53: tests[0].events[0].data.n: .inf is no JSON value; write a number by its digits, such as 1000 or 0.5, or put it in quotes`},
	} {
		_, err := ruletest.Read([]byte(c.text), "rule.test.yaml")
		if err == nil {
			t.Errorf("%q is accepted", c.text)
			continue
		}
		if diff := cmp.Diff(c.want, err.Error()); diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
	}
}

// A problem with the files of a test names the file of the test, or its own.
func TestLoadRefuses(t *testing.T) {
	const silent = "tests: [{name: a, alerts: []}]\n"
	for _, c := range []struct{ tests, rule, want string }{
		{"rules: other.yaml\n" + silent, "", "rule.test.yaml: rules: other.yaml: file does not exist; name the files of the rules with rules: [FILE, …]"},
		{"calendars: office\n" + silent, "", "rule.test.yaml: calendars: office: file does not exist"},
		{"rules: [rule.yaml, ./rule.yaml]\n" + silent, pingRule, "rule.test.yaml: rules: two rules are named backup-silent; name only one of their files"},
		{silent, "name: a\n", "rule.yaml:1:1: a: entity: the rule has no entity"},
		{silent, strings.Replace(pingRule, "after: 0s", "after: 0s, within: office", 1), "rule.test.yaml: calendars: rule backup-silent uses the calendars office; name their file with calendars, or with --calendars"},
	} {
		if _, err := load(t, c.tests, c.rule); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// The schema accepts the tests of the examples, and refuses unknown fields and words.
func TestSchema(t *testing.T) {
	text, err := ruletest.Schema()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("tests.json", parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("tests.json")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../examples/*/*.test.yaml")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	texts := map[string]bool{"tests: [{name: a, alrts: []}]": false, "tests: [{name: a, alerts: [{status: fireing}]}]": false, "tests: [{name: a, alerts: [], until: 7}]": false}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[string(text)] = true
	}
	for text, valid := range texts {
		var value any
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err == nil {
			err = json.Unmarshal(raw, &value)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != valid {
			t.Errorf("%v\n%s", err, text)
		}
	}
}

// TestReference checks that the reference has exactly the fields of a file of tests, in tables of "field | content".
func TestReference(t *testing.T) {
	text, err := ruletest.Schema()
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Properties map[string]struct{ Items *object } `json:"properties"`
	}
	var schema object
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var want []string
	var collect func(o object)
	collect = func(o object) {
		for name, p := range o.Properties {
			want = append(want, name)
			if p.Items != nil {
				collect(*p.Items)
			}
		}
	}
	collect(schema)
	page, err := os.ReadFile("../../docs/reference/tests.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference/tests.md (-fields +page):\n%s", diff)
	}
}
