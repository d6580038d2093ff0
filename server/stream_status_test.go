package server_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
	"deadman/web"
)

// streams returns the streams as shown by a node, by name.
func (n *node) streams() map[string]web.Stream {
	n.Helper()
	var page web.Page[web.Stream]
	if status := n.get("/api/v1/streams", &page); status != http.StatusOK {
		n.Fatalf("streams: status %d", status)
	}
	all := make(map[string]web.Stream)
	for _, s := range page.Items {
		all[s.Name] = s
	}
	return all
}

// For each stream of rules, every node shows the same position, affected jobs, reader and dependent rules, regardless
// of the reading node. A deleted stream is shown as gone.
func TestStreamsAreShown(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	js := bustest.JetStream(t, url)
	for name, subject := range map[string]string{"ORDERS": "orders.>", "OTHERS": "others.>"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
			t.Fatal(err)
		}
	}
	c := server.Config{DatabaseURL: storetest.Postgres(t), NATSURL: url, Rules: ruleFolder(t, map[string]string{"order.yaml": orderRule})}
	nodes := []*node{startReadyNode(t, nodeConfig(t, c, 0)), startReadyNode(t, nodeConfig(t, c, 1))}
	const orders = 5
	for i := range orders {
		nodes[0].callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/orders.created", fmt.Sprintf(`{"id":"o%d"}`, i))
	}
	for _, n := range nodes {
		var s web.Stream
		n.eventually("all orders are read", func() bool {
			s = n.streams()["ORDERS"]
			return s.Created == orders && s.State == web.StreamUpToDate && !s.ReadUntil.IsZero()
		})
		if len(n.streams()) != 1 {
			t.Errorf("there are %v; no rule names the other", n.streams())
		}
		if s.LagMessages == nil || *s.LagMessages != 0 || s.Lag == nil || *s.Lag != 0 || s.LastSeq != orders || s.EndSeq != orders || !s.LastAt.Equal(s.EndAt) {
			t.Errorf("how far it is read: %+v", s)
		}
		if time.Since(s.LastAt) > time.Minute || s.ReadBy == "" || s.Problem != "" || !s.StalledSince.IsZero() {
			t.Errorf("how it does: %+v", s)
		}
		if !slices.Equal(s.Rules, []string{"order-unshipped"}) || s.RuleCount != 1 || s.Subjects < 2 {
			t.Errorf("streams with this reader: %+v", s)
		}
	}
	// Its subjects move to an unreadable stream, so that the rule keeps it.
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"elsewhere"}}))
	do(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "WORK", Subjects: []string{"orders.>"}, Retention: jetstream.WorkQueuePolicy}))
	do(nil, js.DeleteStream(t.Context(), "ORDERS"))
	db, err := pgx.Connect(t.Context(), c.DatabaseURL)
	do(nil, err)
	defer db.Close(context.Background())
	for _, n := range nodes {
		n.eventually("the stream is listed as missing", func() bool { s := n.streams()["ORDERS"]; return s.State == web.StreamMissing && s.Problem != "" })
		n.eventually("late jobs are reported", func() bool {
			do(db.Exec(t.Context(), `INSERT INTO progress (topic, through_at, late) VALUES ('ingest/ORDERS', now(), 7) ON CONFLICT (topic) DO UPDATE SET late = 7`))
			s := n.streams()["ORDERS"]
			return s.OverdueJobs == 7 && !s.StalledSince.IsZero()
		})
	}
}

// Jobs of a recreated stream are still decided: events of the new stream end them, and without events their steps are
// taken.
func TestJobsOfRecreatedStreamAreDecided(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	js := bustest.JetStream(t, url)
	orders := jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}
	if _, err := js.CreateStream(t.Context(), orders); err != nil {
		t.Fatal(err)
	}
	n := startReadyNode(t, server.Config{DataDir: bustest.Dir(t), NATSURL: url, Rules: ruleFolder(t, map[string]string{"order.yaml": `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 10s, step: late, severity: error}]
slot: 1s
`})})
	for _, id := range []string{"shipped", "silent"} {
		n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/orders.created", `{"id":"`+id+`"}`)
	}
	n.eventually("both are waited for", func() bool { var jobs list; n.get("/api/v1/jobs", &jobs); return len(jobs.Items) == 2 })
	if err := js.DeleteStream(t.Context(), "ORDERS"); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), orders); err != nil {
		t.Fatal(err)
	}
	n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/orders.shipped", `{"id":"shipped"}`)
	var ended struct{ Items []struct{ Outcome string } }
	n.eventually("the one that was shipped ends", func() bool {
		n.get("/api/v1/history?rule=order-unshipped&key=shipped", &ended)
		return len(ended.Items) == 1 && ended.Items[0].Outcome == "resolved"
	})
	var raised list
	n.eventually("an alert of the other", func() bool { n.get("/api/v1/alerts?rule=order-unshipped", &raised); return len(raised.Items) > 0 })
	if len(raised.Items) != 1 || raised.Items[0].Key != "silent" {
		t.Errorf("alerts %+v", raised.Items)
	}
}
