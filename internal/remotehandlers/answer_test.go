package remotehandlers_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/micro"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"deadman/internal/remotehandlers"
)

// schemaOf compiles a part of the schema.
func schemaOf(t *testing.T, part string) *jsonschema.Schema {
	t.Helper()
	text, err := remotehandlers.Schema()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:deadman:schema:handler", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:deadman:schema:handler#/$defs/" + part)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate returns the schema violations of a text.
func validate(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(value)
}

func requestSchema(t *testing.T, text []byte) {
	t.Helper()
	if err := validate(t, schemaOf(t, "request"), text); err != nil {
		t.Errorf("the request is not of its schema: %v", err)
	}
	for _, less := range []string{`"rule"`, `"state"`, `"at"`, `"pauses"`} {
		if validate(t, schemaOf(t, "request"), bytes.Replace(text, []byte(less), []byte(`"_"`), 1)) == nil {
			t.Errorf("the schema takes a request without %s", less)
		}
	}
}

// The schema accepts exactly the answers that are accepted, and a refused answer is reported with its place and remedy.
func TestAnswersAreReadStrictly(t *testing.T) {
	s := newFixture(t)
	var answer atomic.Value
	s.serve(t, "shipping", func(r micro.Request) { _ = r.Respond([]byte(answer.Load().(string))) })
	schema := schemaOf(t, "answer")
	alert := func(fields string) string { return `{"next": null, "alerts": [{}, {` + fields + `}]}` }
	for _, c := range []struct{ answer, want string }{
		{`{"next": null}`, ""},
		{` {"outcome": "shipped"} `, ""},
		{`{"next": "2026-03-02T13:00:00Z"}`, ""},
		{`{"next": "2026-03-02T13:00:00.5+01:00", "nominal": false, "step": 4, "state": {}, "alerts": []}`, ""},
		{alert(`"severity": "info", "status": "firing", "step": "first", "text": "", "labels": {"a": "b"}`), ""},
		{"", "it is not JSON"},
		{"null", "it is not a JSON object"},
		{`[{"next": null}]`, "it is not a JSON object"},
		{`{"next": null} {}`, "it is not JSON"},
		{`{}`, `it has neither "next" nor "outcome"; write the time of the next check, or the outcome of the job`},
		{`{"step": 1}`, `neither "next" nor "outcome"`},
		{`{"nxt": null}`, `unknown field "nxt"; did you mean "next"?`},
		{`{"Next": null}`, `unknown field "Next"; did you mean "next"?`},
		{`{"next": null, "retry_in_seconds": 5}`, `unknown field "retry_in_seconds"; the fields here are alerts, next, nominal, outcome, state, step`},
		{`{"next": 1772456400}`, `next: 1772456400 is neither an instant, such as "2026-03-02T13:00:00Z", nor null`},
		{`{"next": "tomorrow"}`, `next: "tomorrow" is neither an instant`},
		{`{"next": "2026-03-02 13:00:00"}`, `is neither an instant`},
		{`{"next": null, "nominal": "yes"}`, `nominal: "yes" is not true or false`},
		{`{"next": null, "nominal": null}`, `nominal: it is null; write true or false, or leave it out`},
		{`{"outcome": 7}`, `outcome: 7 is not text`},
		{`{"next": null, "step": "2"}`, `step: "2" is not a whole number`},
		{`{"next": null, "step": 1.5}`, `step: 1.5 is not a whole number`},
		{`{"next": null, "state": [1]}`, `state: [1] is not an object`},
		{`{"next": null, "state": null}`, `state: null is not an object`},
		{`{"next": null, "alerts": {}}`, `alerts: {} is not a list`},
		{`{"next": null, "alerts": ["late"]}`, `alerts: [0]: it is not a JSON object`},
		{alert(`"sevrity": "info"`), `alerts: [1]: unknown field "sevrity"; did you mean "severity"?`},
		{alert(`"severity": 1`), `alerts: [1]: severity: 1 is not text`},
		{alert(`"status": true`), `alerts: [1]: status: true is not text`},
		{alert(`"step": 1`), `alerts: [1]: step: 1 is not text`},
		{alert(`"text": ["late"]`), `alerts: [1]: text: ["late"] is not text`},
		{alert(`"labels": {"team": 1}`), `alerts: [1]: labels: team: 1 is not text`},
		{alert(`"labels": "team"`), `alerts: [1]: labels: "team" is not an object of text`},
	} {
		answer.Store(c.answer)
		_, err := s.services.Named("shipping").Check(within(t), check)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), "invalid answer on deadman.handlers.shipping: ") || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.answer, err, c.want)
		}
		if wrong := validate(t, schema, []byte(c.answer)); (wrong == nil) != (c.want == "") {
			t.Errorf("%s: error by the schema %v, error of reading %q", c.answer, wrong, c.want)
		}
	}
	answer.Store(`{"outcome": "shipped"}`)
	if got, err := s.services.Named("shipping").Check(within(t), check); err != nil || got.Step != check.Step || got.Outcome != "shipped" || !got.Next.IsZero() {
		t.Errorf("an outcome alone is %+v, %v", got, err)
	}
	for size, want := range map[int]string{remotehandlers.MaxAnswer: "", remotehandlers.MaxAnswer + 1: "it has 262145 bytes, the limit is 262144; answer with less"} {
		answer.Store(`{"next": null, "state": {"a": "` + strings.Repeat("x", size-len(`{"next": null, "state": {"a": ""}}`)) + `"}}`)
		if _, err := s.services.Named("shipping").Check(within(t), check); (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%d bytes: %.200v", size, err)
		}
	}
}
