package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"deadman/rules"
)

// TestNewRule checks that a new rule file passes lint, begins with the schema line for editors, and has the requested
// values.
func TestNewRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args             []string
		name, entity     string
		until, key, slot string
		steps            int
	}{
		{[]string{"--event", "orders.created", "--until", "orders.shipped", "--after", "3h"}, "order-not-shipped", "order", "orders.shipped", "event.id", "1m", 2},
		{[]string{"--event", "orders.created"}, "order-created", "order", "", "event.id", "1m", 2},
		{[]string{"--event", "orders.created", "--after", "20d"}, "order-created", "order", "", "event.id", "1m", 1},
		{[]string{"--event", "orders.created", "--after", "30s"}, "order-created", "order", "", "event.id", "1s", 2},
		{[]string{"--event", "payments.eu.*", "--name", "a", "--key", `event.pay["id: 1"]`}, "a", "payment", "", `event.pay["id: 1"]`, "1m", 2},
		{[]string{"--event", "*.seen", "--entity", "visitor", "--until", "x.y.>", "--severity", "info"}, "visitor-not-y", "visitor", "x.y.>", "event.id", "1m", 2},
	} {
		got := runInProcess(t, "", nil, append([]string{"rule", "new"}, c.args...)...)
		documents, err := rules.Parse([]byte(got.out), "new.yaml")
		if got.code != 0 || err != nil {
			t.Errorf("%v: %v\n%+v", c.args, err, got)
			continue
		}
		if !strings.HasPrefix(got.out, "# yaml-language-server: $schema=deadman-rule.schema.json\n") {
			t.Errorf("%v: it begins with %.80s", c.args, got.out)
		}
		d := documents[0]
		until := ""
		if len(d.Resolve) > 0 {
			until = d.Resolve[0].Event
		}
		if d.Name != c.name || d.Entity != c.entity || until != c.until || d.Trigger.Key != c.key || d.Slot.String() != c.slot || len(d.Escalate) != c.steps {
			t.Errorf("%v makes\n%s", c.args, got.out)
		}
	}
}

func TestNewRuleRefuses(t *testing.T) {
	t.Parallel()
	taken := writeFile(t, t.TempDir(), "taken.yaml", "mine")
	for _, c := range []struct {
		args  []string
		parts []string
	}{
		{nil, []string{"a rule requires a trigger", "--event", "--every", "--schedule"}},
		{[]string{"--event", "a.b", "--schedule", "0 1 * * *"}, []string{"--schedule excludes --event"}},
		{[]string{"--schedule", "0 1 * * *", "--until", "a.b"}, []string{"--until requires --keys"}},
		{[]string{"--schedule", "0 1 * * *", "--grace", "30m"}, []string{"--grace is for a signal that must recur", "--every"}},
		{[]string{"--event", "a.b", "--zone", "UTC"}, []string{"--zone is the time zone of a schedule", "--schedule"}},
		{[]string{"--every", "1h"}, []string{"no entity can be derived from the trigger", "--entity"}},
		{[]string{"--every", "1x", "--entity", "a"}, []string{"--every: "}},
		{[]string{"--schedule", "99 * * * *", "--entity", "a"}, []string{"--schedule: "}},
		{[]string{"--event", "*.created"}, []string{"--entity", "--entity order"}},
		{[]string{"--event", "orders.created", "--after", "3x"}, []string{"--after: "}},
		{[]string{"--event", "orders.created", "--key", "event.", "--severity", "loud"}, []string{"--key: ", "--severity: ", "warning"}},
		{[]string{"--event", "orders.created", "--name", "A b"}, []string{"--name: "}},
		{[]string{"--event", "orders.created", "--file", taken}, []string{taken, "already exists"}},
		{[]string{"--event", "orders.created", "--file", "/nowhere/a.yaml"}, []string{"/nowhere/a.yaml"}},
	} {
		args := append([]string{"rule", "new"}, c.args...)
		got := runInProcess(t, "", nil, args...)
		got.check(t, args, 2, c.parts...)
		if got.out != "" {
			t.Errorf("%v writes %s", args, got.out)
		}
	}
	if text, err := os.ReadFile(taken); err != nil || string(text) != "mine" {
		t.Errorf("it was overwritten: %v, %s", err, text)
	}
}

// TestNewRuleHasTests checks that the tests beside a new rule pass, for each kind of a trigger, and cover its steps and events.
func TestNewRuleHasTests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string // in the tests
	}{
		"event":             {[]string{"--event", "orders.created", "--until", "orders.shipped", "--after", "3h"}, `      - {at: 3h, key: "1", step: primary, status: firing, severity: warning}`},
		"odd time":          {[]string{"--event", "orders.*", "--key", "event.order.id", "--after", "7m30s"}, `{at: 8m, key: "1", step: primary`},
		"heartbeat":         {[]string{"--every", "1d", "--grace", "2h", "--entity", "backup", "--keys", "photos,mail"}, "{at: 1d2h, key: photos, step: primary"},
		"heartbeat, event":  {[]string{"--every", "30s", "--event", "beats.*"}, `subject: beats.x, data: {"id": "1"}}`},
		"schedule":          {[]string{"--schedule", "30 1 * * *", "--zone", "Europe/Berlin", "--keys", "customers", "--until", "imports.finished", "--after", "4h"}, "{at: 18h30m, key: customers, step: primary"},
		"hourly schedule":   {[]string{"--schedule", "0 * * * *", "--keys", "a", "--until", "imports.finished", "--after", "20m"}, "{at: 1h20m, key: a, step: primary"},
		"frequent schedule": {[]string{"--schedule", "* * * * *", "--entity", "round", "--after", "6h"}, "alerts:\n      - {at: 6h1m, key: "},
		"bare schedule":     {[]string{"--schedule", "@every 1h", "--entity", "round"}, "alerts:\n      - {at: 2h, key: "},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rule.yaml")
			runInProcess(t, "", nil, append([]string{"rule", "new", "--file", file}, c.args...)...).check(t, c.args, 0, "and its tests to ")
			rule, err := os.ReadFile(file)
			if heartbeat := strings.HasPrefix(name, "heartbeat"); err != nil || strings.Contains(string(rule), "pending since {{since}}") == heartbeat {
				t.Errorf("%v: a missing heartbeat has the default text, and not that of an event:\n%s", err, rule)
			}
			text, err := os.ReadFile(testFileOf(file))
			if err != nil || !strings.Contains(string(text), c.want) {
				t.Errorf("%v: no %s in\n%s", err, c.want, text)
			}
			if _, silent, found := strings.Cut(string(text), "the rule silent\n"); found && !strings.Contains(silent, "alerts: []") {
				t.Errorf("the rule is not silent:\n%s", silent)
			}
			if name != "frequent schedule" {
				runInProcess(t, "", nil, "rule", "test", file, "--min-coverage", "100").check(t, c.args, 0, "passed", "coverage 100 %")
			}
			runInProcess(t, "", nil, "rule", "test", file).check(t, c.args, 0, "passed")
			runInProcess(t, "", nil, "rule", "lint", file).check(t, c.args, 0, "no errors")
		})
	}
	file := filepath.Join(t.TempDir(), "rule.yaml")
	runInProcess(t, "", nil, "rule", "new", "--file", file, "--event", "a.b", "--key", `event.pay["x"]`).check(t, nil, 0, "without tests: the rule refuses the event")
	if _, err := os.Stat(testFileOf(file)); err == nil {
		t.Error("tests were written all the same")
	}
}

// TestSchema checks that a new rule file is valid by the printed schema, and one with a typo is not.
func TestSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "rule.json")
	runInProcess(t, "", nil, "rule", "new", "--event", "orders.created", "--file", file, "-o", "json").check(t, nil, 0, "wrote rule order-created to "+file)
	printed := runInProcess(t, "", nil, "rule", "schema")
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(printed.out))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("rule.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("rule.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text []byte) error {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	if err := valid(text); err != nil {
		t.Errorf("a new rule is not valid: %v", err)
	}
	if valid(bytes.Replace(text, []byte(`"entity"`), []byte(`"entitty"`), 1)) == nil {
		t.Error("a slip is valid")
	}
}
