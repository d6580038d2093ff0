package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
	"deadman/rules/document"
)

func TestBoundsRefuseUses(t *testing.T) {
	bounds := &access.Bounds{
		Token: "acme", Subjects: []string{"acme.>"}, Publish: []string{"acme.>"}, Sources: []string{"acme-*"}, Handlers: []string{"acme-*"},
	}
	const head = "name: a\nentity: order\n"
	for _, c := range []struct {
		text string
		out  string // pointers
	}{
		{"trigger: {event: acme.created, key: event.id}\nescalate: [{after: 1h, step: s}]", ""},
		{"trigger: {event: orders.created, key: event.id}\nescalate: [{after: 1h, step: s}]", "/trigger/event"},
		{"trigger: {event: \"*.created\", key: event.id}\nescalate: [{after: 1h, step: s}]", "/trigger/event"},
		{"trigger: {event: \"orders.>\", key: event.id}\nescalate: [{after: 1h, step: s}]", "/trigger/event"},
		{
			"trigger: {event: acme.a, key: event.id}\nresolve: [{event: acme.b, key: event.id}, {event: orders.shipped, key: event.id}]\n" +
				"update: [{event: orders.u, key: event.id}]\npause: [{event: orders.p, key: event.id, if: event.x}, {event: acme.p, key: event.id}, {event: acme.p, key: event.id, until: orders.q}]\nescalate: [{after: 1h, step: s}]",
			"/update/0/event /resolve/1/event /pause/0/event /pause/2/until/event",
		},
		{"trigger: {heartbeat: {event: orders.beat, key: event.id, every: 1h}}", "/trigger/heartbeat/event"},
		{"trigger: {heartbeat: {every: 1h}}", ""},
		{"trigger: {schedule: \"@every 1h\", emit: {subject: acme.tick}}", ""},
		{"trigger: {schedule: \"@every 1h\", emit: {subject: orders.shipped}}", "/trigger/emit/subject"},
		{"trigger: {schedule: \"@stored\", emit: {webhook: billing}}", "/trigger/emit/webhook"},
		{"trigger: {event: acme.a, key: event.id}\nhandler: acme-x", ""},
		{"trigger: {event: acme.a, key: event.id}\nhandler: shipping", "/handler"},
		{"trigger: {event: acme.a, key: event.id}\nlookup: {sql: {source: shop, query: select 1}}\nescalate: [{after: 1h, step: s}]", "/lookup/sql/source"},
		{"trigger: {event: acme.a, key: event.id}\nlookup: {http: {source: shop, path: /x}}\nescalate: [{after: 1h, step: s}]", "/lookup/http/source"},
		{"trigger: {event: acme.a, key: event.id}\nlookup: {kv: {source: shop, bucket: b}}\nescalate: [{after: 1h, step: s}]", "/lookup/kv/source"},
		{"trigger: {event: acme.a, key: event.id}\nlookup: {nats: {source: acme-bus, subject: \"acme.{{key}}\"}}\nescalate: [{after: 1h, step: s}]", ""},
		{"trigger: {event: acme.a, key: event.id}\nlookup: {nats: {source: bus, subject: \"acme.{{key}}\"}}\nescalate: [{after: 1h, step: s}]", "/lookup/nats/source"},
		{"trigger: {event: acme.a, key: event.id}\nlookup: {nats: {source: acme-bus, subject: \"ships.{{key}}\"}}\nescalate: [{after: 1h, step: s}]", "/lookup/nats/subject"},
		{"trigger: {event: acme.a, key: event.id}\nlookup: {nats: {source: acme-bus, subject: \"{{event.x}}.created\"}}\nescalate: [{after: 1h, step: s}]", "/lookup/nats/subject"},
		{"trigger: {event: acme.a, key: event.id}\nlookup: {nats: {source: acme-bus, subject: \"acm{{\\\"e\\\"}}.x\"}}\nescalate: [{after: 1h, step: s}]", "/lookup/nats/subject"},
	} {
		documents, err := Parse([]byte(head+c.text+"\n"), "")
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		var out []string
		for _, p := range outOf(documents[0], bounds) {
			out = append(out, p.Pointer)
		}
		if diff := cmp.Diff(c.out, strings.Join(out, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.text, diff)
		}
		if out := outOf(documents[0], nil); out != nil {
			t.Errorf("%s: without bounds %v is out of them", c.text, out)
		}
		_, err = Compile(documents[0], RuleVersion{Name: "a", Bounds: bounds}, nil)
		if (err != nil) != (c.out != "") {
			t.Errorf("%s: as it was saved it compiles to %v", c.text, err)
		}
	}
}

// A preview of a text within a token's bounds is refused at the place of the field that exceeds them.
func TestPreviewOutOfBoundsIsRefusedAtItsPlace(t *testing.T) {
	ctx := access.Within(t.Context(), &access.Bounds{Token: "acme", Subjects: []string{"acme.>"}})
	const text = "name: a\nentity: order\ntrigger: {event: orders.created, key: event.id}\nescalate: [{after: 1h, step: s}]\n"
	_, err := new(Registry).Preview(ctx, PreviewRequest{Text: []byte(text)})
	var problems document.Problems
	if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Pointer != "/trigger/event" || problems[0].Line != 3 {
		t.Errorf("the preview ends with %v", err)
	}
}

// The result of a template is checked again when it is evaluated.
func TestRequestStaysWithinBounds(t *testing.T) {
	var none *access.Bounds
	bounds := &access.Bounds{Token: "acme", Publish: []string{"acme.ok"}}
	subject, err := compileTemplate("acme.{{key}}", inLookup)
	if err != nil {
		t.Fatal(err)
	}
	for key, ok := range map[string]bool{"ok": true, "other": false} {
		if query, err := requestSubject(subject, bounds)(scope{key: key}); (err == nil) != ok {
			t.Errorf("%s: %+v, %v", key, query, err)
		}
		if query, err := requestSubject(subject, none)(scope{key: key}); err != nil {
			t.Errorf("%s without bounds: %+v, %v", key, query, err)
		}
	}
}

func TestPatternOf(t *testing.T) {
	for template, want := range map[string]string{
		"a.b": "a.b", "a.{{key}}": "a.*", "a{{key}}b.c": "*.c", "{{ event.x }}": "*", `a.{{"}}"}}.b`: "a.*.b", "a.{{key": "a.*", "a.{{x}}-{{y}}.b": "a.*.b",
	} {
		if got := patternOf(template); got != want {
			t.Errorf("%s: %q, want %q", template, got, want)
		}
	}
}
