package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/server"
	"deadman/web"
)

func TestHandlerSchema(t *testing.T) {
	got := runInProcess(t, "", nil, "handler", "schema")
	var schema struct {
		ID   string                     `json:"$id"`
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(got.out), &schema); err != nil || got.code != exitOK {
		t.Fatalf("%v: %+v", err, got)
	}
	if schema.ID != "urn:deadman:schema:handler" || schema.Defs["request"] == nil || schema.Defs["answer"] == nil {
		t.Errorf("the schema is %s", got.out)
	}
}

// TestHandlerVerbs checks that handlers are listed with their responders, and can be tested.
func TestHandlerVerbs(t *testing.T) {
	var own checks.Handlers
	err := own.Register("shipping", checks.HandlerFunc(func(_ context.Context, c checks.Check) (checks.Answer, error) {
		switch c.Key {
		case "test":
			return checks.Answer{Outcome: "shipped"}, nil
		case "past":
			return checks.Answer{Next: c.Slot.Add(-time.Hour)}, nil
		case "1":
			return checks.Answer{Next: c.Slot.Add(time.Hour), Step: 1, State: c.Event, Alerts: []alerts.Draft{{Step: "primary", Text: "late\x1b[2J"}}}, nil
		}
		return checks.Answer{}, errors.New("the carrier is away")
	}))
	if err != nil {
		t.Fatal(err)
	}
	n := newInProcessNode(t, func(c *server.Config) { c.Handlers = &own })
	const lost = "name: lost\nentity: order\ntrigger: {event: orders.created, key: event.id}\nhandler: carrier\n"
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "lost.yaml", lost))
	n.expect(0, []string{"handler", "list"}, "HANDLER", "shipping  program", "carrier   none", "lost")
	n.expect(0, []string{"handler", "test", "shipping"}, "ends           shipped", "duration", "key            test")
	got := n.expect(0, []string{"handler", "test", "shipping", "--key", "1", "--event", `{"id": "1"}`},
		"key            1", "next           20", "step           1", `firing warning primary: late`, `state          {"id":"1"}`)
	if strings.Contains(got.out, "\x1b") {
		t.Errorf("the output of a handler reaches the terminal: %q", got.out)
	}
	n.expect(3, []string{"handler", "test", "shipping", "--key", "past"}, "next", "deadman: the handler requested a check at", "which is not after the checked slot")
	n.expect(3, []string{"handler", "test", "shipping", "--key", "2"}, "deadman: the carrier is away")
	n.expect(3, []string{"handler", "test", "carrier"}, "no service answers on deadman.handlers.carrier")
	n.expect(2, []string{"handler", "test", "shipping", "--event", "{"}, "--event: { is not valid JSON")
	n.expect(2, []string{"handler", "test"}, "requires NAME")
	n.expect(1, []string{"handler", "test", "Shipping"}, `"Shipping" is not a name`)
	if h := readJSON[web.HandlerList](n, "handler", "list"); len(h.Items) != 2 || h.Items[0].Name != "carrier" || h.Items[0].Provider != web.ProvidedByNone {
		t.Errorf("%+v", h)
	}
	if got := n.run("", "handler", "test", "shipping", "--key", "2", "-o", "json"); got.code != 3 || !strings.Contains(got.out, `"error": "the carrier is away"`) {
		t.Errorf("%+v", got)
	}
}
