package events_test

import (
	"encoding/base64"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
)

// runCLI runs the NATS command-line program against the broker, and returns its output.
func (w *fixture) runCLI(input string, args ...string) string {
	w.t.Helper()
	tool := exec.CommandContext(w.t.Context(), "../tools/tool", "nats")
	path, err := tool.Output()
	if err != nil {
		w.t.Fatalf("the NATS command-line program cannot be had: %v", err)
	}
	cmd := exec.CommandContext(w.t.Context(), strings.TrimSpace(string(path)), append([]string{"--server", w.server.ClientURL(), "--no-context"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("nats %v: %v\n%s", args, err, out)
	}
	return string(out)
}

const placedEvent = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
escalate: [{after: 1h, step: primary}]
`

// envelope returns an event in CloudEvents structured mode.
func envelope(id, rest string) string {
	return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/shop","type":"order.created",%s}`, id, rest)
}

// Events of all publishers and formats are ingested once, and the rules see the data.
func TestPublishers(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.write(placedEvent)
	w.start()
	js := w.js()
	structured := nats.Header{"content-type": {"application/cloudevents+json"}}
	msg := func(header nats.Header, body string) *nats.Msg {
		return &nats.Msg{Subject: "orders.created", Header: header, Data: []byte(body)}
	}
	core := func(m *nats.Msg) {
		t.Helper()
		if err := js.Conn().PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	core(msg(nil, `{"id":"core"}`))
	core(msg(structured, envelope("A-1", `"data":{"id":"structured"}`)))
	core(msg(structured, envelope("A-2", `"data_base64":"`+base64.StdEncoding.EncodeToString([]byte(`{"id":"base64"}`))+`"`)))
	core(msg(nats.Header{"ce-id": {"A-3"}, "ce-source": {"/shop"}, "ce-type": {"order.created"}, "ce-specversion": {"1.0"}}, `{"id":"binary"}`))
	core(msg(structured, `{"id":"no envelope"}`))
	for range 2 {
		if _, err := js.PublishMsg(t.Context(), msg(nil, `{"id":"jetstream"}`), jetstream.WithMsgID("one")); err != nil {
			t.Fatal(err)
		}
	}
	w.runCLI("", "pub", "orders.created", `{"id":"cli core"}`)
	w.runCLI("", "pub", "--jetstream", "--header", "Nats-Msg-Id:two", "orders.created", `{"id":"cli jetstream"}`)
	w.runCLI("", "pub", "--header", "Content-Type:application/cloudevents+json", "orders.created", envelope("A-4", `"data":{"id":"cli structured"}`))
	w.runCLI("", "req", "orders.created", `{"id":"cli request"}`) // the stream replies
	w.waitUntilCaughtUp(bus.EventsStream, w.publish("orders.created", `{"id":"last"}`))

	for _, key := range []string{
		"core", "structured", "base64", "binary", "jetstream", "cli core", "cli jetstream", "cli structured", "cli request", "last",
	} {
		job, err := w.store.Job(t.Context(), "order-unshipped", key)
		if err != nil || string(job.Event) != fmt.Sprintf(`{"id":%q}`, key) {
			t.Errorf("%s: the event is %s, %v", key, job.Event, err)
		}
	}
	if pending, _ := w.jobs(); pending != 10 {
		t.Errorf("%d jobs, want 10", pending)
	}
	letters := w.deadLetters()
	if len(letters) != 1 || letters[0].Rule != "" || !strings.Contains(letters[0].Reason, "not a valid CloudEvent") || string(letters[0].Event.Data) != `{"id":"no envelope"}` {
		t.Errorf("%+v", letters)
	}
}
