package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// TestDeploymentsShareBroker runs two deployments, with a database each, on one broker. The second one is refused without a
// namespace. With one, each publishes its own alerts, and only the deployment of an alert acknowledges it.
func TestDeploymentsShareBroker(t *testing.T) {
	t.Parallel()
	url, rules := startNATS(t), ruleFolder(t, map[string]string{"order.yaml": orderRule})
	production := startReadyNode(t, server.Config{DatabaseURL: storetest.Postgres(t), NATSURL: url, Rules: rules})
	second := server.Config{DatabaseURL: storetest.Postgres(t), NATSURL: url, Rules: rules}

	refused, _ := startNode(t, second)
	err := <-refused.ended
	for _, part := range []string{"another deployment has this stream", "DEADMAN_NAMESPACE", "nats stream edit DEADMAN_ALERTS --metadata deadman_database="} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Fatalf("the second deployment: %v, want %q", err, part)
		}
	}

	second.Namespace, second.Rules = "staging", ruleFolder(t, map[string]string{"payment.yaml": paymentRule})
	staging := startReadyNode(t, second)
	alertOf := func(n *node, subject, key string) (id string) {
		n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/"+subject, `{"id":"`+key+`"}`)
		var found struct{ Items []struct{ ID string } }
		n.eventually("an alert is raised", func() bool { n.get("/api/v1/alerts?key="+key, &found); return len(found.Items) == 1 })
		return found.Items[0].ID
	}
	ofProduction := alertOf(production, "orders.created", "1")
	alertOf(staging, "payments.started", "1") // of the first job, as that of production
	ofStaging := alertOf(staging, "payments.started", "2")
	js := bustest.JetStream(t, url)
	for stream, subject := range map[string]string{
		"DEADMAN_ALERTS":         "deadman.alerts.order-unshipped.error." + ofProduction,
		"DEADMAN_STAGING_ALERTS": "deadman-staging.alerts.payment-unconfirmed.error." + ofStaging,
	} {
		var headers nats.Header
		production.eventually("the alert is in "+stream, func() bool {
			s, err := js.Stream(t.Context(), stream)
			if err != nil {
				t.Fatal(err)
			}
			m, err := s.GetLastMsgForSubject(t.Context(), subject)
			if err != nil {
				return false
			}
			headers = m.Header
			return true
		})
		if got, want := headers.Get("ce-source"), strings.SplitN(subject, ".", 2)[0]; got != want {
			t.Errorf("the source of the alert in %s is %s, want %s", stream, got, want)
		}
	}

	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if answer, _ := acknowledge(t, nc, "deadman.acks."+ofStaging, ""); answer.Status != http.StatusNotFound {
		t.Errorf("production acknowledges the alert of staging: %+v", answer)
	}
	if answer, _ := acknowledge(t, nc, "deadman-staging.acks."+ofStaging, ""); answer.Acknowledged == nil {
		t.Errorf("staging does not acknowledge its alert: %+v", answer)
	}
	for _, n := range []*node{production, staging} {
		if status := n.get("/readyz", nil); status != http.StatusOK {
			t.Errorf("a node is not ready: %d", status)
		}
	}
}
