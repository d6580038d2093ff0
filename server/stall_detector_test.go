package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// blindRule has jobs that depend on their stream. They are due soon, and not before a node on a busy machine has stopped.
const blindRule = `
name: payment-unconfirmed
entity: payment
trigger: {event: payments.started, key: event.id}
resolve: {event: payments.confirmed, key: event.id}
escalate: [{after: 30s, step: primary}]
slot: 1s
hold: 1h
`

// systemAlert is an alert of a node about itself.
type systemAlert struct {
	ID, Key, Step, Status, Text string

	Count  int
	Closes []string
}

// systemAlerts returns the alerts of nodes about a topic, oldest first.
func (n *node) systemAlerts(topic string) []systemAlert {
	n.Helper()
	var page struct{ Items []systemAlert }
	n.get("/api/v1/alerts?limit=500&rule="+alerts.SystemRule, &page)
	slices.Reverse(page.Items)
	return slices.DeleteFunc(page.Items, func(a systemAlert) bool { return a.Key != topic })
}

// Jobs come due while no node runs. Later nodes report it once, regardless of their number, with the number of late
// jobs, and resolve it.
func TestMonitoringGapIsAlertedOnce(t *testing.T) {
	t.Parallel()
	topics := []string{"sweep", "ingest/" + bus.EventsStream}
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			c := server.Config{DataDir: bustest.Dir(t), Rules: ruleFolder(t, map[string]string{"payment.yaml": blindRule})}
			starts := 1
			if database == "postgres" {
				c.DatabaseURL, c.NATSURL, starts = storetest.Postgres(t), startNATS(t), 2
			}
			n := startReadyNode(t, c)
			const jobs = 7
			for i := range jobs {
				n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/payments.started", fmt.Sprintf(`{"id":"p%d"}`, i))
			}
			var pending list
			n.eventually("jobs", func() bool { n.get("/api/v1/jobs", &pending); return len(pending.Items) == jobs })
			for _, topic := range topics {
				if first := n.systemAlerts(topic); len(first) != 0 {
					t.Errorf("the status of a first start is %+v", first)
				}
			}
			n.stop()
			if err := <-n.ended; err != nil {
				t.Fatal(err)
			}
			makeOverdue(t, c, topics, 10*time.Minute)

			nodes := make([]*node, starts)
			for i := range nodes {
				nodes[i] = startReadyNode(t, nodeConfig(t, c, i))
			}
			n = nodes[0]
			for _, topic := range topics {
				var raised []systemAlert
				n.eventually("it is over with "+topic, func() bool { raised = n.systemAlerts(topic); return len(raised) >= 2 })
				if len(raised) != 2 || raised[0].Status != "firing" || raised[1].Status != "resolved" || raised[0].Step != "gap" {
					t.Fatalf("alerts about %s: %+v", topic, raised)
				}
				if !slices.Equal(raised[1].Closes, []string{raised[0].ID}) {
					t.Errorf("it closes %v, not %s", raised[1].Closes, raised[0].ID)
				}
				for _, a := range raised {
					if a.Count != jobs || !strings.Contains(a.Text, fmt.Sprintf("; %d jobs were late", jobs)) {
						t.Errorf("alerts about %s with %d late jobs: %+v", topic, jobs, a)
					}
				}
			}
			var alerted list
			n.eventually("the late jobs are checked", func() bool {
				n.get("/api/v1/alerts?limit=500&rule=payment-unconfirmed", &alerted)
				return len(alerted.Items) == jobs
			})
		})
	}
}

// nodeConfig returns the configuration of the i-th node.
func nodeConfig(t *testing.T, c server.Config, i int) server.Config {
	if i > 0 {
		c.DataDir = t.TempDir()
	}
	return c
}

// makeOverdue waits until all jobs are due, by the clock of a separate store, and moves the progress of the topics back.
func makeOverdue(t *testing.T, c server.Config, topics []string, by time.Duration) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{DatabaseURL: c.DatabaseURL, DataDir: c.DataDir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for deadline := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		g, err := s.Gauges(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if g.Due == g.Pending {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d jobs are due", g.Due, g.Pending)
		}
	}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.Progress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		seen := store.Progress{Topic: topic} // a node that ran only briefly may not have stored it
		if i := slices.IndexFunc(kept, func(p store.Progress) bool { return p.Topic == topic }); i >= 0 {
			seen = kept[i]
		}
		if ok, err := s.Advance(t.Context(), seen, now.Add(-by)); err != nil || !ok {
			t.Fatalf("set back %s: %v, %v", topic, ok, err)
		}
	}
}
