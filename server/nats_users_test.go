package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/remotehandlers"
	"deadman/server"
)

// purge and drop are subjects that would empty the streams of deadman.
const (
	purge = "$JS.API.STREAM.PURGE.DEADMAN_ALERTS"
	drop  = "$JS.API.STREAM.DELETE.DEADMAN_EVENTS"
)

// The embedded NATS server requires authentication, without any configuration and even while HTTP is open.
func TestEmbeddedNATSRequiresAuthentication(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{})
	if !n.Open {
		t.Fatal("the node is closed: nothing is tested")
	}
	for range 3 {
		if nc, err := nats.Connect(n.NATS); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("without a secret: %v", err)
			if err == nil {
				nc.Close()
			}
		}
	}
	n.natsConn(bus.UserAdmin)
	if text := n.metrics(); !strings.Contains(text, "\n"+`deadman_nats_refused_total{kind="login"} 3`+"\n") {
		t.Errorf("/metrics does not count who was refused: %s", text)
	}
	if !strings.Contains(n.log.String(), "a NATS client was refused") {
		t.Error("who was refused is not logged")
	}
}

// deniedActions are the actions that must be denied to a user.
type deniedActions struct{ publish, subscribe []string }

// nodeWithAlert returns a node with an alert, and the alert's acknowledgement subject.
func nodeWithAlert(t *testing.T) (n *node, ack string) {
	t.Helper()
	n = startReadyNode(t, server.Config{Rules: ruleFolder(t, map[string]string{"insistent.yaml": repeatingRule})})
	n.publishOrder(`{"id":"1"}`)
	var raised struct {
		Items []struct{ ID string }
	}
	n.eventually("an alert", func() bool { n.get("/api/v1/alerts?key=1", &raised); return len(raised.Items) > 0 })
	return n, "deadman.acks." + raised.Items[0].ID
}

// Each user has the permissions of its name, and none to read, suppress or forge the data of others.
func TestNATSUsersAreIsolated(t *testing.T) {
	t.Parallel()
	n, ack := nodeWithAlert(t)
	const alert = "deadman.alerts.insistent.warning.019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d"
	anyone := []string{
		purge, drop, "$JS.API.STREAM.UPDATE.DEADMAN_ALERTS", "$JS.API.STREAM.MSG.DELETE.DEADMAN_ALERTS", "$JS.API.STREAM.CREATE.MINE",
		"$JS.API.STREAM.MSG.GET.DEADMAN_EVENTS", "$JS.API.DIRECT.GET.DEADMAN_EVENTS", "$JS.API.CONSUMER.CREATE.DEADMAN_EVENTS.mine",
		"$JS.API.CONSUMER.DELETE.DEADMAN_ALERTS.theirs", "$JS.API.DIRECT.GET.DEADMAN_ALERTS", "$JS.API.STREAM.LIST", "$JS.ACK.DEADMAN_EVENTS.a.1.1.1.1.0",
		"$KV.orders.x", "$SRV.PING", "$SYS.REQ.SERVER.PING", "_INBOX.deadman.x", "_INBOX.x", alert, remotehandlers.Subject("shipping"),
	}
	others := []string{"$JS.API.STREAM.INFO.DEADMAN_ALERTS", "$JS.API.CONSUMER.CREATE.DEADMAN_ALERTS.mine"}
	deaf := []string{">", "*.*", "orders.>", "_INBOX.>", "_INBOX.deadman.>", "_INBOX.*.*", "$JS.>", "$SYS.>", "deadman.>"}
	for user, of := range map[string]deniedActions{
		bus.UserEvents: {append(others, append(anyone, ack)...), append(deaf, "deadman.alerts.>", "deadman.acks.*", "deadman.handlers.>", "$SRV.>")},
		bus.UserAlerts: {
			append(others, append(anyone, ack, "orders.shipped", "$JS.API.CONSUMER.MSG.NEXT.DEADMAN_ALERTS.theirs", "$JS.ACK.DEADMAN_ALERTS.a.1.1.1.1.0")...),
			append(deaf, "deadman.acks.*", "deadman.handlers.>", "$SRV.>"),
		},
		bus.UserConsumers: {append(anyone, ack, "orders.shipped"), append(deaf, "deadman.acks.*", "deadman.handlers.>", "$SRV.>")},
		bus.UserAcks:      {append(others, append(anyone, "orders.shipped")...), append(deaf, "deadman.alerts.>", "deadman.acks.*", "deadman.handlers.>", "$SRV.>")},
		bus.UserHandlers:  {append(others, append(anyone, ack, "orders.shipped")...), append(deaf, "deadman.alerts.>", "deadman.acks.*")},
	} {
		nc := n.natsConn(user)
		for _, subject := range of.publish {
			if err := nc.PublishRequest(subject, "_INBOX."+user+".x", []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
			n.waitForDenial(nc, user, "Publish to "+fmt.Sprintf("%q", subject))
		}
		for _, subject := range of.subscribe {
			if _, err := nc.SubscribeSync(subject); err != nil {
				t.Fatal(err)
			}
			n.waitForDenial(nc, user, "Subscription to "+fmt.Sprintf("%q", subject))
		}
	}
	var job ackFields
	if n.get("/api/v1/jobs/insistent/1", &job); job.Acknowledged != nil {
		t.Errorf("an acknowledgement without the permission: %+v", job.Acknowledged)
	}
	if text := n.metrics(); strings.Contains(text, "\n"+`deadman_nats_refused_total{kind="permission"} 0`+"\n") {
		t.Error("/metrics does not count what was not permitted")
	}
	if c := strings.Count(n.log.String(), "what its user may not do"); c == 0 || c > 5 {
		t.Errorf("what was not permitted is logged %d times, want once a minute", c)
	}
}

// waitForDenial fails the test unless the server denied the client an action.
func (n *node) waitForDenial(nc *nats.Conn, user, what string) {
	n.Helper()
	if err := nc.Flush(); err != nil {
		n.Fatal(err)
	}
	if err := nc.LastError(); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower("Permissions Violation for "+what)) {
		n.Errorf("%s: %s: %v", user, what, err)
	}
}

// Alert users read new alerts, and consumers read them from the stream; event users publish, and receive the
// acknowledgement of durability.
func TestNATSUsersHaveTheirPermissions(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule})})
	var live []*nats.Subscription
	for _, user := range []string{bus.UserAlerts, bus.UserConsumers} {
		reader := n.natsConn(user)
		sub, err := reader.SubscribeSync("deadman.alerts.>")
		if err == nil {
			err = reader.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		live = append(live, sub)
	}
	sender, err := jetstream.New(n.natsConn(bus.UserEvents))
	if err != nil {
		t.Fatal(err)
	}
	if ack, err := sender.Publish(t.Context(), "payments.started", []byte(`{"id":"x"}`)); err != nil || ack.Stream != bus.EventsStream {
		t.Fatalf("published: %+v, %v", ack, err)
	}
	for _, sub := range live {
		if m, err := sub.NextMsg(within); err != nil || !strings.HasPrefix(m.Subject, "deadman.alerts.payment-unconfirmed.") {
			t.Fatalf("live: %+v, %v", m, err)
		}
	}
	js, err := jetstream.New(n.natsConn(bus.UserConsumers))
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]jetstream.ConsumerConfig{"a durable one": {Durable: "pager", AckPolicy: jetstream.AckExplicitPolicy}, "an ordinary one": {AckPolicy: jetstream.AckExplicitPolicy}} {
		consumer, err := js.CreateOrUpdateConsumer(t.Context(), bus.AlertsStream, config)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m, err := consumer.Next(jetstream.FetchMaxWait(within))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Errorf("%s: acknowledged to the stream: %v", name, err)
		}
	}
}

// JetStream replies go to any subject chosen by the user; even there, a reply forges no acknowledgement and no alert.
func TestJetStreamRepliesForgeNothing(t *testing.T) {
	t.Parallel()
	n, ack := nodeWithAlert(t)

	// A consumer of an empty stream replies at once without a body.
	reader := n.natsConn(bus.UserConsumers)
	js, err := jetstream.New(reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateOrUpdateConsumer(t.Context(), bus.AlertsStream, jetstream.ConsumerConfig{Durable: "none", FilterSubject: "deadman.alerts.none.>"}); err != nil {
		t.Fatal(err)
	}
	const next = "$JS.API.CONSUMER.MSG.NEXT.DEADMAN_ALERTS.none"
	if err := reader.PublishRequest(next, ack, []byte(`{"batch":1,"no_wait":true}`)); err != nil {
		t.Fatal(err)
	}
	if m, err := reader.Request(next, []byte(`{"batch":1,"no_wait":true}`), within); err != nil || m.Header.Get("Status") != "404" {
		t.Fatalf("a consumer of nothing: %+v, %v", m, err)
	}
	// The acknowledgement of an event is a message too.
	sender := n.natsConn(bus.UserEvents)
	const alert = "deadman.alerts.insistent.warning.019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d"
	for _, reply := range []string{ack, alert} {
		if err := sender.PublishRequest("orders.created", reply, []byte(`{"id":"2"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sender.Request("orders.created", []byte(`{"id":"3"}`), within); err != nil {
		t.Fatal(err)
	}
	// The node replies to acknowledgements on inboxes only.
	acker := n.natsConn(bus.UserAcks)
	streams := n.natsConn(bus.UserAdmin)
	events, err := streams.SubscribeSync("orders.forged")
	if err != nil {
		t.Fatal(err)
	}
	if err := streams.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := acker.PublishRequest(ack, "orders.forged", nil); err != nil {
		t.Fatal(err)
	}
	if err := acker.Publish(ack, nil); err != nil { // no reply subject
		t.Fatal(err)
	}
	// Requests are processed in order: this reply proves that the others are done.
	if answer, _ := acknowledge(t, acker, "deadman.acks.019c0f5a-7d08-8000-9b1c-2f4a6c8e0b1d", ""); answer.Status != http.StatusNotFound {
		t.Errorf("no alert: %+v", answer)
	}
	if err := streams.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, _, err := events.Pending(); err != nil || got != 0 {
		t.Errorf("%d answers were published as events, %v", got, err)
	}
	var job ackFields
	if n.get("/api/v1/jobs/insistent/1", &job); job.Acknowledged != nil {
		t.Errorf("an acknowledgement without the permission: %+v", job.Acknowledged)
	}
	// Followers skip the foreign message among the alerts.
	n.tailUntil(`"key":"2"`)
	n.eventually("it is counted", func() bool { return strings.Contains(n.metrics(), "\ndeadman_alerts_foreign_total 1\n") })
}
