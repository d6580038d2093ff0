package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"deadman/internal/calendars"
	"deadman/internal/configfile"
	"deadman/internal/logins"
	"deadman/internal/notify"
	"deadman/internal/replay"
	"deadman/internal/ruletest"
	"deadman/internal/sources"
	"deadman/internal/webhooks"
)

// schemaReaders read the files that have a schema, but for rules.
var schemaReaders = map[string]func(text []byte) error{
	"calendars": func(text []byte) error { _, err := calendars.Parse(text, "f.yaml"); return err },
	"sources": func(text []byte) error {
		_, err := sources.Parse(text, "f.yaml", func(string) string { return "x" })
		return err
	},
	"hooks": func(text []byte) error { _, err := webhooks.Parse(text, "f.yaml"); return err },
	"login": func(text []byte) error {
		_, err := logins.Parse(text, "f.yaml", logins.Options{Env: func(string) string { return "x" }, Now: time.Now})
		return err
	},
	"notify":    func(text []byte) error { _, err := notify.Parse(text, "f.yaml"); return err },
	"lookups":   func(text []byte) error { _, err := replay.ParseLookups(text, "f.yaml"); return err },
	"rule-test": func(text []byte) error { _, err := ruletest.Read(text, "f.yaml"); return err },
	"settings":  func(text []byte) error { _, err := parseSettings(text); return err },
}

// compiledSchema prints a schema and compiles it.
func compiledSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	printed := runInProcess(t, "", nil, "schema", name)
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(printed.out))
	if err != nil || printed.code != exitOK {
		t.Fatalf("%s: %v %+v", name, err, printed)
	}
	head, _ := parsed.(map[string]any)
	if head["$id"] != "urn:deadman:schema:"+name || head["$schema"] != "https://json-schema.org/draft/2020-12/schema" || head["title"] == "" {
		t.Errorf("%s begins with %v %v %v", name, head["$id"], head["$schema"], head["title"])
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return schema
}

// validateYAML validates a YAML text.
func validateYAML(s *jsonschema.Schema, text string) error {
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// TestSchemas checks that each schema is a valid one, and that an unknown name lists them.
func TestSchemas(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(schemas()))
	for _, name := range names {
		compiledSchema(t, name)
	}
	for name := range schemaReaders {
		if !slices.Contains(names, name) {
			t.Errorf("%s has no schema", name)
		}
	}
	runInProcess(t, "", nil, "schema", "rules").check(t, nil, exitUsage, "no schema rules; the schemas are "+strings.Join(names, ", "))
}

// place is a mapping in a file: its path, and a document with it.
type place struct {
	path string
	wrap func(mapping string) string
}

// objects calls visit with each mapping of a schema that has fields.
func objects(s *jsonschema.Schema, at place, visit func(place, *jsonschema.Schema)) {
	if s == nil {
		return
	}
	if len(s.Properties) > 0 {
		visit(at, s)
	}
	for name, field := range s.Properties {
		objects(field, at.below(strings.TrimPrefix(at.path+"."+name, "."), func(v string) string { return "{" + name + ": " + v + "}" }), visit)
	}
	if entry, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		objects(entry, at.below(at.path+".a1", func(v string) string { return "{a1: " + v + "}" }), visit)
	}
	if item, ok := s.Items.(*jsonschema.Schema); ok {
		objects(item, at.below(at.path+"[0]", func(v string) string { return "[" + v + "]" }), visit)
	}
	if s.Items2020 != nil {
		objects(s.Items2020, at.below(at.path+"[0]", func(v string) string { return "[" + v + "]" }), visit)
	}
	for _, either := range s.AnyOf {
		objects(either, at, visit)
	}
}

func (p place) below(path string, wrap func(string) string) place {
	return place{path, func(v string) string { return p.wrap(wrap(v)) }}
}

// TestSchemaFields checks that the readers have exactly the fields of the schemas: a reader lists the same fields at an
// unknown one, and reports a wrong value of each field.
func TestSchemaFields(t *testing.T) {
	t.Parallel()
	fields := 0
	for name, read := range schemaReaders {
		s := compiledSchema(t, name)
		objects(s, place{"", func(v string) string { return v }}, func(at place, o *jsonschema.Schema) {
			known := slices.Sorted(maps.Keys(o.Properties))
			if name != "settings" {
				checkKnown(t, name, at, read([]byte(at.wrap("{zzzzzzzzzzzz: 1}"))), known)
			}
			for _, field := range known {
				fields++
				const wrong = "[[{}]]"
				text := at.wrap("{" + field + ": " + wrong + "}")
				if o.Properties[field].Types == nil && o.Properties[field].Const == nil && len(o.Properties[field].AnyOf) == 0 && o.Properties[field].Enum == nil {
					continue // any JSON
				}
				if validateYAML(s, text) == nil {
					t.Errorf("the schema %s takes %s", name, text)
				}
				path := strings.TrimPrefix(at.path+"."+field, ".")
				if err := read([]byte(text)); err == nil || !strings.Contains(err.Error(), path+"[") && !strings.Contains(err.Error(), path+":") && !strings.Contains(err.Error(), path+" ") {
					t.Errorf("%s: the reader reports no problem at %s of %s: %v", name, path, text, err)
				}
			}
		})
	}
	if fields < 100 {
		t.Errorf("only %d fields were checked", fields)
	}
}

// checkKnown checks that a reader's error at an unknown field lists exactly the known fields.
func checkKnown(t *testing.T, name string, at place, err error, known []string) {
	t.Helper()
	var problems configfile.Problems
	if !errors.As(err, &problems) {
		t.Errorf("%s: an unknown field of %q gives %v", name, at.path, err)
		return
	}
	for _, p := range problems {
		if _, list, ok := strings.Cut(p.Message, `unknown field "zzzzzzzzzzzz"; the fields here are `); ok {
			if got := slices.Sorted(strings.SplitSeq(list, ", ")); !slices.Equal(got, known) {
				t.Errorf("%s: the reader of %q knows %v, the schema %v", name, at.path, got, known)
			}
			return
		}
	}
	t.Errorf("%s: the reader of %q takes an unknown field: %v", name, at.path, err)
}

// kindOfFile maps a field at the beginning of a line to the schema of its file.
var kindOfFile = map[string]*regexp.Regexp{
	"calendars": regexp.MustCompile(`(?m)^calendars:`),
	"notify":    regexp.MustCompile(`(?m)^(channels|routes):`),
	"hooks":     regexp.MustCompile(`(?m)^hooks:`),
	"login":     regexp.MustCompile(`(?m)^(oidc|header):`),
	"sources":   regexp.MustCompile(`(?m)^sources:`),
	"lookups":   regexp.MustCompile(`(?ms)^sources:.*(answers|events):`),
	"rule-test": regexp.MustCompile(`(?m)^tests:`),
	"rule":      regexp.MustCompile(`(?m)^trigger:`),
}

// TestSchemaExamples checks that the schemas take every file of the repository and of its pages.
func TestSchemaExamples(t *testing.T) {
	t.Parallel()
	texts := make(map[string]string)
	fence := regexp.MustCompile("(?s)\n```yaml\n(.*?\n)```")
	for _, folder := range []string{"../../docs", "../../examples", "../../deploy", "../../internal/replay/testdata"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".md" && filepath.Ext(path) != ".yaml" || strings.Contains(path, "/helm/") || strings.Contains(path, "node_modules") {
				return err
			}
			text, err := os.ReadFile(path)
			if filepath.Ext(path) == ".yaml" {
				texts[path] = string(text)
			} else {
				for i, block := range fence.FindAllStringSubmatch(string(text), -1) {
					texts[fmt.Sprintf("%s, block %d", path, i+1)] = block[1]
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	valid := make(map[string]int)
	for name, is := range kindOfFile {
		s := compiledSchema(t, name)
		for where, text := range texts {
			if !is.MatchString(text) || name == "sources" && kindOfFile["lookups"].MatchString(text) || name != "rule-test" && kindOfFile["rule-test"].MatchString(text) ||
				name == "calendars" && strings.Contains(text, "\nescalate:") || name == "rule" && !strings.Contains(text, "name:") {
				continue
			}
			if err := validateYAML(s, text); err != nil && (name != "rule" || filepath.Ext(where) == ".yaml") && !isFragment(name, text) {
				t.Errorf("%s, %s: %v", where, name, err)
				continue
			}
			valid[name]++
		}
	}
	for name := range kindOfFile {
		if valid[name] == 0 {
			t.Errorf("no page shows a file %s", name)
		}
	}
}

// isFragment reports whether the reader of a file refuses a text of a page for a missing or a shown wrong field.
func isFragment(name, text string) bool {
	if name == "rule" {
		return true
	}
	var problems configfile.Problems
	return errors.As(schemaReaders[name]([]byte(text)), &problems) && slices.ContainsFunc(problems, func(p configfile.Problem) bool {
		return strings.Contains(p.Message, "is missing") || strings.Contains(p.Message, "did you mean")
	})
}

// TestSchemaRefuses checks wrong files: the schema and the reader refuse each, and both take its correction.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	compiled := make(map[string]*jsonschema.Schema)
	for name := range schemaReaders {
		compiled[name] = compiledSchema(t, name)
	}
	for _, c := range []struct{ name, good, bad string }{
		{"calendars", "calendars: {office: {zone: UTC, days: mon-fri}}", "calendars: {office: {days: mon-fri}}"},
		{"calendars", "calendars: {office: {zone: UTC, hours: {mon: 09:00-17:00}}}", "calendars: {Office Hours: {zone: UTC}}"},
		{"sources", "sources: {shop: {sqlite: {path: a.db}, rate: 5}}", "sources: {shop: {sqlite: {path: a.db}, rate: 0}}"},
		{"sources", "sources: {shop: {nats: {}, open_for: 10s}}", "sources: {shop: {nats: {}, open_for: soon}}"},
		{"sources", "sources: {shop: {nats: {}, concurrency: 64}}", "sources: {shop: {nats: {}, concurrency: 65}}"},
		{"sources", "sources: {shop: {nats: {}}}", "sources: {shop: {nats: {}, sqlite: {path: a.db}}}"},
		{"hooks", "hooks: [{name: a, subject: a.b, scheme: none}]", "hooks: [{name: a, subject: a.b, scheme: none, secret_file: f}]"},
		{"hooks", "hooks: [{name: a, subject: a.b, scheme: github, secret_file: f}]", "hooks: [{name: a, subject: a.b, scheme: github}]"},
		{"hooks", "hooks: [{name: a, scheme: slack, secret_file: f}]", "hooks: [{name: a, subject: a.b, scheme: slack, secret_file: f}]"},
		{"login", "header: {name: X-User, groups: X-Groups}\ngroups: [{group: a, scopes: [read]}]", "header: {name: X-User, groups: X-Groups}\ngroups: [{group: a, scopes: [write]}]"},
		{"login", "header: {name: X-User, groups: X-Groups}\ngroups: [{group: [a, b], scopes: [read]}]", "groups: [{group: a, scopes: [read]}]"},
		{"notify", "channels: {a: {kind: webhook, url: https://a.example/x}}\nroutes: [{to: a, severity: [error, info]}]", "channels: {a: {kind: webhook, url: https://a.example/x}}\nroutes: [{to: a, severity: loud}]"},
		{"notify", "routes: []", "routes: [{severity: error}]"},
		{"notify", "channels: {a: {kind: webhook, url: https://a.example/x}}", "channels: {a: {kind: pigeon, url: https://a.example/x}}"},
		{"lookups", "sources: {shop: {answers: {absent: true}}}", "sources: {shop: {answers: {absent: true, error: x}}}"},
		{"lookups", "sources: {shop: {answers: {found: {a: 1}}}}", "sources: {shop: {}}"},
		{"rule-test", "tests: [{name: a, alerts: [{status: firing}]}]", "tests: [{name: a, alerts: [{status: fired}]}]"},
		{"rule-test", "tests: [{name: a, alerts: []}]", "tests: [{alerts: []}]"},
		{"settings", "lease: 15s\nworkers: 64\ninsecure: true", "leese: 15s"},
	} {
		s, read := compiled[c.name], schemaReaders[c.name]
		if err := errors.Join(validateYAML(s, c.good), read([]byte(c.good))); err != nil {
			t.Errorf("%s is refused: %v\n%s", c.name, err, c.good)
		}
		if validateYAML(s, c.bad) == nil {
			t.Errorf("the schema %s takes %s", c.name, c.bad)
		}
		if read([]byte(c.bad)) == nil {
			t.Errorf("the reader of %s takes %s", c.name, c.bad)
		}
	}
}

// TestSettingsSchema checks that the schema of settings takes the values that settings have by default, and refuses those
// that the settings refuse.
func TestSettingsSchema(t *testing.T) {
	t.Parallel()
	s := compiledSchema(t, "settings")
	for _, one := range settings {
		text, err := json.Marshal(map[string]string{one.name: one.preset})
		if err != nil {
			t.Fatal(err)
		}
		if err := validateYAML(s, string(text)); err != nil && one.preset != "" {
			t.Errorf("the default of %s is refused: %v", one.name, err)
		}
		wrong := map[string]string{"duration": "15", "number": "0", "size": "much", "address": "localhost", "bool": "perhaps", "level": "loud", "format": "xml"}[one.kind]
		if wrong == "" {
			continue
		}
		if validateYAML(s, one.name+": "+wrong) == nil || one.set(&serveConfig{}, wrong) == nil {
			t.Errorf("%s may be %s", one.name, wrong)
		}
	}
}
