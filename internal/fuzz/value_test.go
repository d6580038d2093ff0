package fuzz_test

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// spec has the used parts of the API description.
type spec struct {
	Paths      map[string]map[string]described
	Components struct{ Schemas map[string]schema }
}

// described is the description of an operation.
type described struct {
	Parameters []struct {
		Name, In string
		Required bool
		Schema   schema
	}
	RequestBody struct{ Content map[string]media }
}

type media struct{ Schema schema }

// schema is a JSON Schema.
type schema map[string]any

const schemaPath = "#/components/schemas/"

// resolved follows a reference to a named schema.
func (m *maker) resolved(s schema) schema {
	for range 10 {
		ref, is := s["$ref"].(string)
		if !is {
			break
		}
		s = m.spec.Components.Schemas[strings.TrimPrefix(ref, schemaPath)]
	}
	return s
}

// sub returns a nested schema.
func sub(v any) schema {
	within, _ := v.(map[string]any)
	return within
}

// typeOf returns the first type of a schema.
func typeOf(s schema) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		if first, is := t[0].(string); is {
			return first
		}
	}
	if s["properties"] != nil {
		return "object"
	}
	return ""
}

// maxDepth is the maximum depth of values.
const maxDepth = 5

// value creates a value for a schema, or a random one without a schema.
func (m *maker) value(s schema, depth int) any {
	s = m.resolved(s)
	if m.chance(0.1) {
		if m.chance(0.5) {
			return m.word()
		}
		return one(m, oddValues)
	}
	for _, choice := range []string{"enum", "anyOf", "oneOf", "examples"} {
		options, some := s[choice].([]any)
		if !some || len(options) == 0 || choice == "examples" && m.chance(0.5) {
			continue
		}
		picked := one(m, options)
		if choice == "anyOf" || choice == "oneOf" {
			return m.value(sub(picked), depth+1)
		}
		return picked
	}
	switch typeOf(s) {
	case "object":
		return m.object(s, depth)
	case "array":
		items := []any{}
		for range one(m, []int{0, 1, 1, 2, 3}) {
			items = append(items, m.value(sub(s["items"]), depth+1))
		}
		return items
	case "integer":
		return m.integer(s)
	case "number":
		return one(m, []any{0, 1.5, -1, 1e308})
	case "boolean":
		return m.chance(0.5)
	case "string":
		return m.string(s)
	}
	return one(m, []any{map[string]any{"id": "1", "total": 5}, map[string]any{"id": 1}, m.word()})
}

func (m *maker) object(s schema, depth int) any {
	out := map[string]any{}
	if depth >= maxDepth {
		return out
	}
	required, _ := s["required"].([]any)
	properties := sub(s["properties"])
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if m.chance(0.5) || slices.Contains(required, any(name)) && m.chance(0.9) {
			out[name] = m.value(sub(properties[name]), depth+1)
		}
	}
	if more := sub(s["additionalProperties"]); more != nil && m.chance(0.7) {
		for range m.IntN(3) {
			out[m.word()] = m.value(more, depth+1)
		}
	}
	if m.chance(0.05) {
		out[m.word()] = 1
	}
	return out
}

func (m *maker) integer(s schema) any {
	some := []any{0, 1, 2, 5, 50, 500, -1, math.MaxInt32, math.MaxInt32 + 1, math.MaxInt64}
	for _, bound := range []string{"minimum", "maximum"} {
		if v, is := s[bound].(float64); is {
			some = append(some, v, v, v)
		}
	}
	return one(m, some)
}

func (m *maker) string(s schema) any {
	if s["format"] == "date-time" {
		return one(m, instants)
	}
	if example, is := s["example"].(string); is && m.chance(0.5) {
		return example
	}
	return m.word()
}

// templates are rules of every kind, which the node has.
var templates = []string{
	`name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 1s, step: a, severity: warning, text: "order {{key}} from {{event.who}}"}
  - {after: 10m, step: b, severity: critical, text: "still {{key}}"}
slot: 1s
`,
	`name: shop-look
entity: order
trigger: {event: shop.created, key: event.id}
lookup: {sql: {source: shop, query: "select status from orders where id = $1"}}
while: state.status == "UNSHIPPED"
escalate: [{after: 1s, step: a, severity: warning, text: "unshipped {{key}}"}]
slot: 1s
`,
	`name: acme-spy
entity: thing
trigger: {event: "shop.>", key: event.id, if: event.total > 5}
update: {event: shop.changed, key: event.id}
escalate: [{after: 2s, step: a, severity: info, text: "{{event}}"}]
slot: 1s
`,
	`name: hb
entity: job
trigger: {heartbeat: {every: 10m, grace: 2m, keys: [a, b]}}
escalate: [{after: 1s, step: a, severity: info, text: "x"}]
`,
	`name: sch
entity: imp
trigger: {schedule: "0 0 * * *", zone: Europe/Berlin, keys: [x]}
escalate: [{after: 1h, step: a, severity: info, text: "{{key}}"}]
`,
}

var invalidTexts = []string{
	"", "\n", ":", "{", "}", `"`, "'", "&a ", "*a", "!x ", "\t", "- ", "0", "a", "%", "\x00", "é", ">", "|", "\ufeff", "<<: *a\n", "---\n", "{{", "}}", "matches", "1h", "null",
}

// oddTexts are texts that are likely to break a parser.
var oddTexts = []string{
	"", " ", "\x00", "..", "../..", "%00", "%2e%2e%2f", strings.Repeat("a", 600), strings.Repeat("a", 70), "é", "\u202e", "👩‍🚀", "\xed\xa0\xbd", "\xff", "null", "true", "-1", "0", "1",
	"99999999999999999999", "1e309", "NaN", "*", ">", "a.b", "$JS.API", "deadman.x", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "10000-01-01T00:00:00Z",
	"2026-13-01", "1h", "-1h", "1000y", "1ms", "9223372036854775807", "{}", "[]", `{"a":1}`, "' or 1=1--", `"`, "`", "${7*7}", "{{7*7}}", "<script>alert(1)</script>", "\r\nX: y", "\x1b[31m",
	"x\ty", "eyJsIjoiam9icyIsImkiOjl9", "cnVsZTph", "00000000-0000-0000-0000-000000000000", "019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d", "shop", "web", "bus", "hook", "none", "signed", "nope",
	"admin", "read", "acme-*", "firing", "critical", "file:orders", "0 0 * * *", "@every 1s", "event.id", "event.total > 0", "1+1", "len(event)", "{{key}}", "{{", "}}", "[[[[[[",
	"hb", "sch", "shop-look", "acme-spy", "orders.created", "orders.shipped", "shop.created",
}

var oddValues = []any{
	nil, true, false, 0, -1, 1, math.MaxInt32 + 1, math.MaxInt64, math.MinInt64, 1.5, 1e308, []any{}, map[string]any{}, []any{[]any{[]any{}}}, map[string]any{"a": map[string]any{"b": []any{1, 2}}},
}

var instants = []any{
	"2026-11-22T22:00:00Z", "2026-11-23T00:00:00+14:00", "2026-11-25T18:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "-0001-01-01T00:00:00Z", "x",
}

var oddHeaders = []string{
	"If-Match", "If-None-Match", "Idempotency-Key", "Nats-Msg-Id", "Range", "Expect", "Content-Encoding", "X-Forwarded-For", "Forwarded", "Origin", "Sec-Fetch-Site", "Host", "Cookie",
	"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "HX-Request", "Accept-Language", "Last-Event-ID", "Traceparent",
}

// fields are the fields of forms and pages.
var fields = []string{
	"rule", "entity", "key", "text", "document", "version", "do", "did", "id", "until", "for", "note", "reason", "match", "q", "cursor", "limit", "event", "subject", "at", "data", "found", "all",
	"after", "before", "status", "severity", "open", "name", "next", "token", "sure", "state", "outcome", "ended_after", "value", "pick", "of", "key_prefix", "due_after", "job", "alert", "letter", "mute", "from", "to",
}

// operations are the endpoints outside of the API.
var operations = func() (all []struct{ method, path string }) {
	for method, paths := range map[string][]string{
		"GET": {
			"/", "/jobs", "/rules", "/rules/{name}", "/rules/{name}/versions", "/rules/{name}/send", "/rules/{name}/edit", "/new-rule", "/alerts", "/alerts/all", "/alerts/{id}", "/mutes", "/history",
			"/dead-letters", "/dead-letters/{id}", "/health", "/find", "/entities/{entity}", "/docs", "/docs/{name}", "/docs/api", "/metrics", "/healthz", "/readyz", "/login", "/logout", "/ping/{id}", "/ping/{id}/{key}", "/static/{name}", "/openapi.json", "/{name}",
		},
		"POST": {
			"/jobs", "/rules/{name}", "/rules/{name}/send", "/rules/{name}/edit", "/new-rule", "/try-rule", "/try-calendar", "/alerts", "/alerts/{id}", "/mutes", "/dead-letters", "/dead-letters/{id}", "/hooks/none",
			"/hooks/signed", "/hooks/{name}", "/ping/{id}", "/ping/{id}/{key}", "/login", "/logout",
		},
	} {
		for _, path := range paths {
			all = append(all, struct{ method, path string }{method, path})
		}
	}
	slices.SortFunc(all, func(a, b struct{ method, path string }) int { return strings.Compare(a.method+a.path, b.method+b.path) })
	return all
}()
