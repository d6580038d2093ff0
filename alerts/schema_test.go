package alerts_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"deadman/alerts"
)

// validator compiles a schema, and returns the names of its fields, too.
func validator(t *testing.T, encode func() ([]byte, error)) (s *jsonschema.Schema, fields []string) {
	t.Helper()
	text, err := encode()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", parsed); err != nil {
		t.Fatal(err)
	}
	if s, err = c.Compile("schema.json"); err != nil {
		t.Fatal(err)
	}
	return s, slices.Sorted(maps.Keys(s.Properties))
}

// decoded returns the JSON of an alert as a validator takes it, after a change.
func decoded(t *testing.T, a alerts.Alert, change func(map[string]any)) map[string]any {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	fields := v.(map[string]any)
	if change != nil {
		change(fields)
	}
	return fields
}

// full returns an alert with all fields.
func full() alerts.Alert {
	at := time.Date(2026, 11, 26, 4, 55, 36, 52557000, time.UTC)
	id := alerts.Decision{JobID: 1, CreatedAt: at, Status: alerts.Firing, At: at}.ID()
	return alerts.Alert{
		ID: id, Rule: "order-unshipped", RuleVersion: 3, Entity: "order", Key: "1042", DecidedAt: at, URL: "https://deadman.example.org/alerts/1",
		Detail: alerts.Detail{
			Draft: alerts.Draft{
				Status: alerts.Firing, Severity: alerts.Critical, Step: "late", StepIndex: 1, SkippedSteps: []string{"primary"}, Text: "late",
				Labels: map[string]string{"team": "fulfilment"},
			},
			Since: at, Slot: at, CheckCount: 2, Event: json.RawMessage(`{"id":"1042"}`), State: json.RawMessage(`7`), Closes: []alerts.ID{id},
			Source: "shop", Count: 4, BodiesOverQuota: true,
		},
	}
}

// TestSchema checks that the schema and the reference have exactly the fields of an alert, and that alerts are valid.
func TestSchema(t *testing.T) {
	s, fields := validator(t, alerts.Schema)
	document := decoded(t, full(), nil)
	if got := slices.Sorted(maps.Keys(document)); !slices.Equal(got, fields) {
		t.Errorf("an alert has the fields\n%v, its schema\n%v", got, fields)
	}
	page, err := os.ReadFile("../docs/reference/alert-document.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(page), "Fields without a value are absent.")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?`) \\|").FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			listed = append(listed, name[1])
		}
	}
	slices.Sort(listed)
	if !slices.Equal(listed, fields) {
		t.Errorf("the reference lists the fields\n%v, the schema\n%v", listed, fields)
	}
	_, example, _ := strings.Cut(string(page), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	shown, err := jsonschema.UnmarshalJSON(strings.NewReader(example))
	if err != nil {
		t.Fatal(err)
	}
	least := alerts.Alert{ID: full().ID, Detail: alerts.Detail{Draft: alerts.Draft{Status: alerts.Firing, Severity: alerts.Info}}}
	for name, valid := range map[string]any{"full": document, "reference": shown, "least": decoded(t, least, nil)} {
		if err := s.Validate(valid); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	document["added_later"] = true
	if err := s.Validate(document); err != nil {
		t.Errorf("a field of a later version is refused: %v", err)
	}
	text, err := alerts.Schema()
	if err != nil {
		t.Fatal(err)
	}
	var described struct {
		Properties map[string]struct{ Description string }
	}
	if err := json.Unmarshal(text, &described); err != nil {
		t.Fatal(err)
	}
	for name, p := range described.Properties {
		if !strings.HasSuffix(p.Description, ".") {
			t.Errorf("%s is described as %q", name, p.Description)
		}
	}
}

// TestSchemaRefuses checks that each field has its type, and that required fields are required.
func TestSchemaRefuses(t *testing.T) {
	s, fields := validator(t, alerts.Schema)
	for _, name := range fields {
		if name == "event" || name == "state" {
			continue // any JSON
		}
		if s.Validate(decoded(t, full(), func(a map[string]any) { a[name] = []any{map[string]any{}} })) == nil {
			t.Errorf("%s may be a list of objects", name)
		}
	}
	optional := []string{"skipped_steps", "step", "labels", "event", "state", "closes", "source", "count", "bodies_over_quota", "url"}
	for _, name := range fields {
		err := s.Validate(decoded(t, full(), func(a map[string]any) { delete(a, name) }))
		if (err == nil) != slices.Contains(optional, name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	for name, value := range map[string]any{"severity": "loud", "status": "open", "schema_version": json.Number("2"), "id": "7", "decided_at": "yesterday"} {
		if s.Validate(decoded(t, full(), func(a map[string]any) { a[name] = value })) == nil {
			t.Errorf("%s may be %v", name, value)
		}
	}
}

// TestSystemSchema checks that alerts of all kinds are valid, and that others are not.
func TestSystemSchema(t *testing.T) {
	s, _ := validator(t, alerts.SystemSchema)
	for _, k := range alerts.SystemKinds {
		topic := regexp.MustCompile(`<[a-z]+>`).ReplaceAllString(k.Topic, "a.b/c")
		for _, status := range []alerts.Status{alerts.Firing, alerts.Resolved} {
			a := alerts.SystemAlert{Topic: topic, Step: k.Step, Status: status, Severity: alerts.Error, Since: time.Unix(1, 0), Text: "x"}.Alert(time.Unix(2, 0))
			if err := s.Validate(decoded(t, a, nil)); err != nil {
				t.Errorf("%s %s: %v", topic, k.Step, err)
			}
			if s.Validate(decoded(t, a, func(a map[string]any) { a["step"] = "other" })) == nil {
				t.Errorf("%s may have another step", topic)
			}
			if s.Validate(decoded(t, a, func(a map[string]any) { a["rule"] = "order-unshipped" })) == nil {
				t.Errorf("%s may be of another rule", topic)
			}
		}
	}
	if s.Validate(decoded(t, alerts.SystemAlert{Topic: "moon", Step: "full", Status: alerts.Firing, Severity: alerts.Info}.Alert(time.Unix(2, 0)), nil)) == nil {
		t.Error("an alert of an unknown kind is valid")
	}
}
