package server_test

import (
	"bufio"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/server"
)

const orderRule = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 1s, step: primary, severity: error}, {after: 1h, step: late, severity: critical}]
slot: 1s
`

// startRestrictedNATS runs a NATS server with the shipped configuration and a stream ORDERS. It returns the URL for the user
// of deadman, with additional denied subjects.
func startRestrictedNATS(t *testing.T, denied ...string) (url string) {
	t.Helper()
	t.Setenv("DEADMAN_NATS_PASSWORD", "secret")
	o, err := natsserver.ProcessConfigFile("../deploy/nats-permissions.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range o.Users {
		user.Permissions.Publish.Deny = denied
	}
	o.Host, o.Port, o.NoSigs, o.NoLog, o.JetStream, o.StoreDir = "127.0.0.1", natsserver.RANDOM_PORT, true, true, true, t.TempDir()
	o.Users = append(o.Users, &natsserver.User{Username: "all", Password: "secret"})
	server := bustest.Serve(t, o)
	js := bustest.JetStream(t, bustest.As(server, "all"))
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	return bustest.As(server, "deadman")
}

// The end-to-end path works with the user of deploy/nats-permissions.conf: rules on events captured by deadman and on
// those of an operator's stream, events over HTTP, and alerts.
func TestEndToEndWithLeastPermissions(t *testing.T) {
	n := startReadyNode(t, server.Config{NATSURL: startRestrictedNATS(t), Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule, "order.yaml": orderRule})})
	for _, subject := range []string{"payments.started", "orders.created"} {
		n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/"+subject, `{"id":"x"}`)
	}
	var raised list
	n.eventually("two alerts", func() bool { n.get("/api/v1/alerts", &raised); return len(raised.Items) == 2 })
	for _, subject := range []string{"payments.confirmed", "orders.shipped"} {
		n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/"+subject, `{"id":"x"}`)
	}
	n.eventually("both resolved", func() bool { n.get("/api/v1/alerts", &raised); return len(raised.Items) == 4 })
	n.tailUntil("order-unshipped")
	n.eventually("it is ready", func() bool { return n.get("/readyz?all", nil) == http.StatusOK })
	if log := n.log.String(); strings.Contains(log, "permission") {
		t.Errorf("it lacks a permission: %s", log)
	} else if strings.Contains(log, ":secret") || strings.Contains(n.NATS, "secret") {
		t.Errorf("its password is there to be read: %s, %s", n.NATS, log)
	}
}

// An unreadable stream is reported at /readyz, because its jobs are not checked.
func TestReadyzReportsUnreadableStream(t *testing.T) {
	n := startReadyNode(t, server.Config{NATSURL: startRestrictedNATS(t, "$JS.API.CONSUMER.CREATE.ORDERS.>"), Rules: ruleFolder(t, map[string]string{"order.yaml": orderRule})})
	n.eventually("an alert is raised", func() bool {
		ok, detail, status := n.condition("ingest")
		return !ok && strings.Contains(detail, "cannot be read") && status == http.StatusServiceUnavailable
	})
	if log := n.log.String(); !strings.Contains(log, "stream ORDERS") || !strings.Contains(log, "CONSUMER.CREATE.ORDERS.*; grant it") {
		t.Errorf("the log has no remedy: %s", log)
	}
}

// tailUntil reads alerts like `deadman alert tail` until one contains the word.
func (n *node) tailUntil(word string) {
	n.Helper()
	request, err := http.NewRequestWithContext(n.Context(), http.MethodGet, n.HTTP+"/api/v1/alerts?backlog=10", nil)
	if err != nil {
		n.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	client := http.Client{Transport: &http.Transport{}, Timeout: within}
	defer client.CloseIdleConnections()
	answer, err := client.Do(request)
	if err != nil {
		n.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), word) {
			return
		}
	}
	n.Errorf("the stream of alerts ends without %q: %v", word, lines.Err())
}

// With a token on the embedded server, the node and its HTTP clients work as without.
func TestEndToEndWithToken(t *testing.T) {
	t.Parallel()
	token := write(t, t.TempDir(), "token", "a-token-without-a-pattern\n")
	n := startReadyNode(t, server.Config{NATSAddr: "0.0.0.0:0", NATSToken: token, Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule})})
	n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/payments.started", `{"id":"x"}`)
	var raised list
	n.eventually("an alert", func() bool { n.get("/api/v1/alerts", &raised); return len(raised.Items) == 1 })
	if strings.Contains(n.log.String(), "every client that reaches it: ") {
		t.Error("the log reports that the NATS server accepts every client")
	}
	if _, err := nats.Connect(n.NATS); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without the token: %v", err)
	}
}

func TestNATSBeyondLoopbackNeedsToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	err := server.Run(t.Context(), server.Config{DataDir: dir, HTTPAddr: "127.0.0.1:0", NATSAddr: "0.0.0.0:0"})
	if !errors.Is(err, bus.ErrListen) || !strings.Contains(err.Error(), "DEADMAN_NATS_TOKEN_FILE") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "nats")); err == nil {
		t.Error("a server was started before it was refused")
	}
	n := startReadyNode(t, server.Config{NATSAddr: "0.0.0.0:0", Insecure: true})
	if !strings.Contains(n.log.String(), "every client that reaches it: ") {
		t.Error("with --insecure it does not say that its NATS server accepts every client")
	}
}

// Credentials and a namespace for an external server are useless for the embedded one.
func TestCredentialsWithoutExternalBroker(t *testing.T) {
	t.Parallel()
	for _, c := range []server.Config{{NATSCA: "ca.pem"}, {Namespace: "staging"}} {
		c.DataDir = t.TempDir()
		err := server.Run(t.Context(), c)
		if !errors.Is(err, server.ErrHalfConfigured) || !strings.Contains(err.Error(), "DEADMAN_NATS_URL") {
			t.Errorf("%v", err)
		}
	}
}
