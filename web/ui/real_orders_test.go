package ui_test

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/longtest"
	"deadman/internal/store"
	"deadman/server"
	"deadman/web"
)

// realOrders is a file with orders of a marketplace, outside the repository.
const realOrders = "../../../shared/data/orders-2016-2017.csv"

// shippingRule expects an event for each order. All orders placed together are due together.
const shippingRule = `name: order-unshipped
description: An order was placed and nothing was shipped.
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 6h, step: primary, severity: warning, text: "order {{key}} is not shipped"}
  - {after: 12h, step: escalated, severity: critical}
slot: 1h
`

// order is a row of the orders: its id, and whether it was handed to the carrier.
type order struct {
	id      string
	shipped bool
}

// readOrders reads the orders from their default path or from DEADMAN_ORDERS.
func readOrders(t *testing.T) (all []order) {
	t.Helper()
	at := os.Getenv("DEADMAN_ORDERS")
	if at == "" {
		at = filepath.FromSlash(realOrders)
	}
	file, err := os.Open(at)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("the orders are not at %s; DEADMAN_ORDERS names where they are", at)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] { // order_id, status, purchased_at, approved_at, handed_to_carrier_at, …
		all = append(all, order{id: row[0], shipped: row[4] != ""})
	}
	return all
}

// fillOneSlot writes n pending orders, all due in one slot, to the database of a stopped node.
func fillOneSlot(t *testing.T, c server.Config, n int) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{DataDir: c.DataDir, Log: c.Log})
	b := &backlog{Store: s, tb: t, from: time.Now().UTC().Add(6 * time.Hour).Truncate(time.Hour)}
	b.check(err)
	defer func() { b.check(s.Close()) }()
	saved := b.rules()["order-unshipped"]
	rule := &futurejobs.Rule{ID: saved.RuleID, Version: saved.Version, Name: saved.Name, Entity: saved.Entity, Grid: futurejobs.Grid(time.Hour)}
	for first := 0; first < n; first += 2000 {
		batch := futurejobs.EffectBatch{RuleSet: b.set}
		for i := first; i < min(first+2000, n); i++ {
			key := fmt.Sprintf("b-%06d", i)
			batch.Effects = append(batch.Effects, futurejobs.Effect{
				Rule: rule, Ref: futurejobs.Ref{Shard: futurejobs.ShardOf(rule.Entity, key, s.Shards()), RuleID: rule.ID, Key: key},
				Action: futurejobs.Start{Job: futurejobs.Job{
					Version: rule.Version, Since: b.from.Add(-6 * time.Hour), FirstCheckAt: b.from, Event: []byte(`{"id":"` + key + `"}`),
				}},
			})
		}
		_, err := s.Apply(t.Context(), batch)
		b.check(err)
	}
}

// publishMany publishes events, up to 2,000 in flight.
func publishMany(t *testing.T, js jetstream.JetStream, subject string, ids []string) {
	t.Helper()
	for some := range slices.Chunk(ids, 2000) {
		for _, id := range some {
			if _, err := js.PublishAsync(subject, []byte(`{"id":"`+id+`"}`)); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-js.PublishAsyncComplete():
		case <-time.After(within):
			t.Fatalf("%d events on %s are not acknowledged", js.PublishAsyncPending(), subject)
		}
	}
}

// TestRealOrdersAndBacklog checks real orders and a backlog of 100,000 jobs due in one slot: each page loads with
// the right numbers, and saves screenshots for a visual check.
func TestRealOrdersAndBacklog(t *testing.T) {
	t.Parallel()
	longtest.Only(t, "it takes in 16,000 events")
	known := readOrders(t)
	c := config(t.TempDir())
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: "127.0.0.1:0", Log: c.Log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	c.NATSURL, c.NATSAddr = server.ClientURL(), ""
	home, stop := run(t, c)
	callAPI(t, home, "POST", "/rules", "application/yaml", shippingRule, nil)

	var placed, shipped, waiting []string
	for _, o := range known {
		placed = append(placed, o.id)
		if o.shipped {
			shipped = append(shipped, o.id)
		} else {
			waiting = append(waiting, o.id)
		}
	}
	js := bustest.JetStream(t, c.NATSURL)
	publishMany(t, js, "orders.created", placed)
	publishMany(t, js, "orders.shipped", shipped)
	var streams web.Page[web.Stream]
	for deadline := time.Now().Add(3 * time.Minute); ; pausePoll(t.Context()) {
		callAPI(t, home, "GET", "/streams", "", "", &streams)
		if s := streams.Items[0]; s.Created == int64(len(placed)) && s.LagMessages != nil && *s.LagMessages == 0 && s.LastSeq == uint64(len(placed)+len(shipped)) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("of %d events: %+v", len(placed)+len(shipped), streams.Items)
		}
	}

	const backlog = 100_000
	stop()
	fillOneSlot(t, c, backlog)
	home, _ = run(t, c)

	b := open(t, home, 1400, 900)
	b.visit("/health")
	due := humanize.Comma(int64(len(waiting) + backlog))
	b.waitForText("All systems of deadman operational", due+" planned", "Peak load: ", humanize.Comma(int64(len(placed))))
	b.click(".herd a")
	b.waitForText("order-unshipped")
	b.visit("/entities/order?key=" + url.QueryEscape(waiting[0]))
	b.waitForText(waiting[0], "order-unshipped")
	b.visit("/entities/order?key=" + url.QueryEscape(shipped[0]))
	b.waitForText(shipped[0], "resolved")
	b.visit("/jobs?key=b-099999")
	b.waitForText("b-099999")
	for _, width := range []int64{400, 1400, 1600} {
		b := open(t, home, width, 900)
		for _, path := range []string{
			"/", "/jobs", "/entities/order?key=" + url.QueryEscape(shipped[0]), "/entities/order?key=" + url.QueryEscape(waiting[0]), "/rules", "/rules/order-unshipped",
			"/rules/order-unshipped/edit", "/new-rule", "/alerts", "/alerts/all", "/mutes", "/history", "/dead-letters", "/health", "/find?q=order",
		} {
			b.visit(path)
			for _, w := range evaluate[[]string](b, broken) {
				t.Errorf("%s at %d px: %s", path, width, w)
			}
			if tall := evaluate[float64](b, `Math.max(0, ...[...document.querySelectorAll("tbody tr")].map((r) => r.getBoundingClientRect().height))`); tall > 120 {
				t.Errorf("%s at %d px has a row that is %.0f px tall", path, width, tall)
			}
			for _, dark := range []bool{false, true} {
				if os.Getenv("DEADMAN_SHOTS") != "" {
					b.setDarkMode(dark)
					b.screenshot(fmt.Sprintf("real-%s-%d-%v", url.PathEscape(path), width, map[bool]string{true: "dark", false: "light"}[dark]))
				}
			}
		}
	}
}
