package rules_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"deadman/checks"
	"deadman/rules"
)

func TestPreviewUsesGivenResult(t *testing.T) {
	text := verifyRule("select status from orders where id = $1", `state != nil and state.status == "UNSHIPPED"`)
	begins := []rules.PreviewEvent{{At: clockTime(10, 5), Data: json.RawMessage(`{"id": "1042"}`)}}
	for _, c := range []struct {
		name, key, found, skipSource string
		lookup                       string // as JSON
		outcome                      string
		err                          string
	}{
		{name: "queried", lookup: `{"source":"shop","queried":true,"result":{"status":"UNSHIPPED"}}`, outcome: "exhausted"},
		{name: "an unknown entity, queried", key: "7", lookup: `{"source":"shop","queried":true,"result":null}`, outcome: "cleared"},
		{name: "given", found: `{"status": "SHIPPED"}`, lookup: `{"source":"shop","queried":false,"result":{"status":"SHIPPED"}}`, outcome: "cleared"},
		{name: "an unknown entity, given", found: "null", lookup: `{"source":"shop","queried":false,"result":null}`, outcome: "cleared"},
		{name: "given no object", found: "[]", err: "found: the result of the source is not an object; write an object, or null"},
		{name: "without a query", skipSource: "you are a stranger", err: "the result of shop is unknown (you are a stranger); give the lookup result"},
		{name: "given, without a query", skipSource: "you are a stranger", found: `{"status": "SHIPPED"}`, lookup: `{"source":"shop","queried":false,"result":{"status":"SHIPPED"}}`, outcome: "cleared"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rules.Registry{Sources: sources{newOrderShop(t)}}
			request := rules.PreviewRequest{Text: []byte(text + "hold: 0\n"), Events: begins, SkipReason: c.skipSource}
			if c.key != "" {
				request.Events = []rules.PreviewEvent{{At: clockTime(10, 5), Data: json.RawMessage(`{"id": "` + c.key + `"}`)}}
			}
			if c.found != "" {
				request.Found = json.RawMessage(c.found)
			}
			p, err := r.Preview(t.Context(), request)
			if c.err != "" {
				if !errors.Is(err, rules.ErrPreview) || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%+v, %v", p, err)
				}
				return
			}
			got, jsonErr := json.Marshal(p.Lookup)
			if err != nil || jsonErr != nil || string(got) != c.lookup || p.Outcome != c.outcome {
				t.Errorf("%s, %s (%s), %v; want %s, %s", got, p.Outcome, p.Reason, err, c.lookup, c.outcome)
			}
		})
	}
}

func TestPreviewQueriesOnce(t *testing.T) {
	s := newOrderShop(t)
	text := verifyRule("update orders set total = total + 1 where id = $1 returning total", "state.total < 52", "escalate: [{every: 1h, times: 9, step: again}]", "guards: {max_checks: 40}")
	p, err := (&rules.Registry{Sources: sources{s}}).Preview(t.Context(), rules.PreviewRequest{
		Text: []byte(text), Events: []rules.PreviewEvent{{At: clockTime(10, 5), Data: json.RawMessage(`{"id": "1042"}`)}},
	})
	if err != nil || len(p.Lines) < 9 || string(p.Lookup.Found) != `{"total":50}` || s.line.Load() != 0 {
		t.Errorf("%+v, %v; %d places in the line are taken", p, err, s.line.Load())
	}
	s.full = true
	if _, err := (&rules.Registry{Sources: sources{s}}).Preview(t.Context(), rules.PreviewRequest{
		Text: []byte(text), Events: []rules.PreviewEvent{{At: clockTime(10, 5), Data: json.RawMessage(`{"id": "1042"}`)}},
	}); !errors.Is(err, rules.ErrPreview) || !strings.Contains(err.Error(), "busy") {
		t.Errorf("the line is full: %v", err)
	}
}

func TestPreviewWithoutLookupRefusesFound(t *testing.T) {
	_, err := (&rules.Registry{}).Preview(t.Context(), rules.PreviewRequest{
		Text: []byte(baseRule), Found: json.RawMessage("{}"), Events: []rules.PreviewEvent{{At: clockTime(10, 5), Data: json.RawMessage(`{"id": "1042"}`)}},
	})
	if !errors.Is(err, rules.ErrPreview) || !strings.Contains(err.Error(), "the rule has no lookup") {
		t.Error(err)
	}
}

func TestPreviewCallsNoHandler(t *testing.T) {
	r := rules.Registry{Handlers: handlersWith(t, checks.Answer{Outcome: checks.Cleared}, nil)}
	events := []rules.PreviewEvent{{At: clockTime(10, 5), Data: json.RawMessage(`{"id": "1042"}`)}}
	p, err := r.Preview(t.Context(), rules.PreviewRequest{Text: []byte(handlerRule), Events: events})
	if err != nil || p.Outcome != "" || len(p.Lines) != 1 || !p.Lines[0].Next.Equal(clockTime(10, 15)) || !strings.Contains(p.Reason, "it does not call handler shipping-checks") {
		t.Errorf("%+v, %v", p, err)
	}
	events = append(events, rules.PreviewEvent{Subject: "orders.shipped", At: clockTime(12, 5), Data: json.RawMessage(`{"id": "1042"}`)})
	p, err = r.Preview(t.Context(), rules.PreviewRequest{Text: []byte(handlerRule), Events: events})
	if err != nil || p.Outcome != "resolved" {
		t.Errorf("%+v, %v", p, err)
	}
}
