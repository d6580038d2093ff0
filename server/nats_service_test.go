package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"deadman/internal/store/storetest"
	"deadman/internal/testwait"
	"deadman/server"
)

// TestNodesAreServices checks that each node answers the discovery of NATS services, that the endpoint is counted, and that no
// answer goes to a subject of events.
func TestNodesAreServices(t *testing.T) {
	t.Parallel()
	url, database := startNATS(t), storetest.Postgres(t)
	for range 2 {
		startReadyNode(t, server.Config{DatabaseURL: database, NATSURL: url, Version: "v1.2.3"})
	}
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	replies := func(subject string, want int) (all []*nats.Msg) {
		t.Helper()
		testwait.Until(t, "all nodes answer on "+subject, func() bool {
			inbox, err := nc.SubscribeSync(nc.NewInbox())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = inbox.Unsubscribe() }()
			if err := nc.PublishRequest(subject, inbox.Subject, nil); err != nil {
				t.Fatal(err)
			}
			all = nil
			for {
				m, err := inbox.NextMsg(300 * time.Millisecond)
				if err != nil {
					return len(all) == want
				}
				all = append(all, m)
			}
		})
		return all
	}
	replies("$SRV.PING", 2)
	replies("$SRV.STATS.deadman", 2)
	ids := map[string]bool{}
	for _, m := range replies("$SRV.INFO.deadman", 2) {
		var info micro.Info
		if err := json.Unmarshal(m.Data, &info); err != nil {
			t.Fatal(err)
		}
		ids[info.ID] = true
		if info.Name != "deadman" || info.Version != "1.2.3" || info.Type != micro.InfoResponseType || info.Metadata["node"] == "" ||
			len(info.Endpoints) != 1 || info.Endpoints[0].Name != "ack" || info.Endpoints[0].Subject != "deadman.acks.*" {
			t.Errorf("a node is the service %+v", info)
		}
	}
	if answer, code := acknowledge(t, nc, "deadman.acks.no-id", ""); answer.Status != http.StatusUnprocessableEntity || code != "422" {
		t.Fatalf("acknowledged: %+v, %s", answer, code)
	}
	requests := 0
	for id := range ids {
		var stats micro.Stats
		if err := json.Unmarshal(replies("$SRV.STATS.deadman."+id, 1)[0].Data, &stats); err != nil {
			t.Fatal(err)
		}
		of := stats.Endpoints[0]
		if requests += of.NumRequests; of.NumRequests > 0 && (of.NumErrors != 1 || !strings.Contains(of.LastError, "does not end with the id of an alert")) {
			t.Errorf("the endpoint counts %+v", of)
		}
	}
	if requests != 1 {
		t.Errorf("%d requests are counted", requests)
	}

	forged, err := nc.SubscribeSync("deadman.alerts.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest("$SRV.PING", "deadman.alerts.forged", nil); err != nil {
		t.Fatal(err)
	}
	replies("$SRV.PING", 2) // answered after the request before
	if m, err := forged.NextMsg(300 * time.Millisecond); err == nil {
		t.Errorf("an answer was published as an alert: %s", m.Data)
	}
}
