package server_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/server"
)

// servedSchema returns a schema that a node serves, as a validator.
func servedSchema(n *node, name string) *jsonschema.Schema {
	n.Helper()
	got := n.callRaw(http.MethodGet, "/api/v1/schemas/"+name, "")
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(got.body))
	if err != nil || got.status != http.StatusOK {
		n.Fatalf("%s: %d, %v: %.200s", name, got.status, err, got.body)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", parsed); err != nil {
		n.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		n.Fatal(err)
	}
	return s
}

// TestPublishedAlertsMatchTheirSchema checks that each published alert, of a rule or about the node, matches the schema that
// the node serves, and that an alert of a rule is no system alert.
func TestPublishedAlertsMatchTheirSchema(t *testing.T) {
	t.Parallel()
	own := func() ([]byte, error) { return []byte(`{"$id": "urn:own"}`), nil }
	n := startReadyNode(t, server.Config{
		Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule}), DeadLetterAlert: 1, Schemas: map[string]func() ([]byte, error){"own": own},
	})
	for name := range server.Schemas() {
		servedSchema(n, name)
	}
	servedSchema(n, "own")
	alert, system := servedSchema(n, "alert"), servedSchema(n, "system-alert")
	messages, err := bustest.JetStream(t, n.natsURL("admin")).OrderedConsumer(t.Context(), bus.AlertsStream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	next := func(rule, status string) {
		t.Helper()
		m, err := messages.Next(jetstream.FetchMaxWait(within))
		if err != nil {
			t.Fatalf("no alert %s of %s: %v", status, rule, err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(m.Data()))
		if err != nil {
			t.Fatal(err)
		}
		if a := v.(map[string]any); a["rule"] != rule || a["status"] != status {
			t.Fatalf("the alert is %s, want %s of %s", m.Data(), status, rule)
		}
		if err := alert.Validate(v); err != nil {
			t.Errorf("%v\n%s", err, m.Data())
		}
		if err := system.Validate(v); (err == nil) != (rule == "deadman") {
			t.Errorf("as a system alert: %v\n%s", err, m.Data())
		}
		if got := m.Headers().Get("ce-dataschema"); got != "" {
			t.Errorf("the alert has the undocumented header ce-dataschema: %s", got)
		}
	}
	publish := func(subject, body string) {
		t.Helper()
		if status := n.call(http.MethodPost, "/api/v1/events/"+subject, body, nil); status != http.StatusAccepted {
			t.Fatalf("an event is answered with %d", status)
		}
	}
	publish("payments.started", `{"id": "p1", "amount": 12.5}`)
	next("payment-unconfirmed", "firing")
	publish("payments.confirmed", `{"id": "p1"}`)
	next("payment-unconfirmed", "resolved")
	publish("payments.started", `{"no": "id"}`)
	next("deadman", "firing")
}
