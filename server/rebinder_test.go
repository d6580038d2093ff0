package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus/bustest"
	"deadman/server"
)

// condition returns a condition of /readyz and the status.
func (n *node) condition(name string) (ok bool, detail string, status int) {
	n.Helper()
	var ready struct {
		Conditions []struct {
			Name   string
			OK     bool
			Detail string
		}
	}
	status = n.get("/readyz?all", &ready)
	for _, c := range ready.Conditions {
		if c.Name == name {
			return c.OK, c.Detail, status
		}
	}
	n.Fatalf("there is no condition %s", name)
	return false, "", 0
}

// A subject that moves to an unreadable stream is reported at /readyz, and so is a missing stream, until they are
// readable. Events published afterwards are read.
func TestReadyzReportsUnreadableSubject(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	js := bustest.JetStream(t, url)
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	orders := []string{"orders.>"}
	do(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: orders}))
	n := startReadyNode(t, server.Config{NATSURL: url, Rules: ruleFolder(t, map[string]string{"order.yaml": orderRule})})
	is := func(fine bool, wantText string) {
		t.Helper()
		n.eventually("the alert reports: "+wantText, func() bool {
			ok, detail, status := n.condition("streams")
			return ok == fine && strings.Contains(detail, wantText) && (status == http.StatusOK) == fine
		})
	}
	is(true, "all subscribed subjects are read")

	do(js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"elsewhere"}}))
	do(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "WORK", Subjects: orders, Retention: jetstream.WorkQueuePolicy}))
	is(false, "a subscribed subject cannot be read")
	if !strings.Contains(n.log.String(), "workqueue retention") {
		t.Error("the log has no reason")
	}
	do(nil, js.DeleteStream(t.Context(), "ORDERS"))
	is(false, "stream ORDERS does not exist")

	do(nil, js.DeleteStream(t.Context(), "WORK"))
	do(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "AGAIN", Subjects: orders}))
	is(true, "all subscribed subjects are read")
	n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/orders.created", `{"id":"x"}`)
	var raised list
	n.eventually("an alert", func() bool {
		n.get("/api/v1/alerts?rule=order-unshipped", &raised)
		return len(raised.Items) == 1 && raised.Items[0].Key == "x"
	})
}
