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
		{nil, []string{"--event is required"}},
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
