package server_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"deadman/server"
)

// newOrdersDB creates a database file with orders 0 to n-1; every other one is not shipped.
func newOrdersDB(t *testing.T, n int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.ExecContext(t.Context(), `create table orders (id text primary key, status text not null);
		with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ?)
		insert into orders select cast(i as text), iif(i % 2, 'SHIPPED', 'UNSHIPPED') from n`, n)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const lookupRule = `entity: order
slot: 1s
trigger: {event: orders.created, key: event.id}
while: state.status == "UNSHIPPED"
escalate: [{after: 1s, step: primary}]
`

// A source that hangs delays only its own jobs. One alert names it.
func TestSlowSourceDoesNotDelayOtherRules(t *testing.T) {
	t.Parallel()
	const orders = 100
	hang := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	defer close(hang)
	n := startReadyNode(t, server.Config{
		Sources: sourceFile(t, fmt.Sprintf(`sources:
  shop: {sqlite: {path: %s}}
  slow: {http: {url: %q, allow: [127.0.0.1]}, concurrency: 2, waiting: 2, open_after: 2}
`, newOrdersDB(t, orders), slow.URL)),
		Rules: ruleFolder(t, map[string]string{
			"good.yaml": "name: good\n" + lookupRule + `lookup: {sql: {source: shop, query: "select status from orders where id = $1"}}` + "\n",
			"held.yaml": "name: held\n" + lookupRule + "lookup: {http: {source: slow, path: \"/{{key}}\"}}\nguards: {timeout: 1s, attempts: 1}\n",
		}),
	})
	for i := range orders {
		n.callExpecting(http.StatusAccepted, http.MethodPost, "/api/v1/events/orders.created", fmt.Sprintf(`{"id":"%d"}`, i))
	}
	var raised list
	n.eventually("the good source's alerts come", func() bool {
		n.get("/api/v1/alerts?rule=good&limit=500", &raised)
		return len(raised.Items) == orders/2
	})
	type source struct {
		Name, State, Error string
		Keys, Failures     int
		Queries            int `json:"queries"`
	}
	var good, held source
	n.get("/api/v1/sources/shop", &good)
	if good.State != "up" || good.Failures != 0 || good.Queries >= good.Keys {
		t.Errorf("%+v", good)
	}
	n.eventually("the other is left alone", func() bool {
		n.get("/api/v1/sources/slow", &held)
		return held.State == "down" && held.Error != ""
	})
	n.eventually("a notification arrives", func() bool {
		n.get("/api/v1/alerts?rule=held&limit=500", &raised)
		return len(raised.Items) == 1
	})
	if a := raised.Items[0]; a.Status != "undetermined" {
		t.Errorf("%+v", a)
	}
	if ok, detail, _ := n.condition("sources"); ok || !strings.Contains(detail, "failing: slow;") {
		t.Errorf("%v %s", ok, detail)
	}
	if status := n.get("/readyz", nil); status != http.StatusOK {
		t.Errorf("a node is taken out of service for a source that is down: %d", status)
	}
	if text := n.metrics(); !strings.Contains(text, `deadman_source_up{source="slow"} 0`) || !strings.Contains(text, `deadman_source_up{source="shop"} 1`) {
		t.Error("the metrics do not tell them apart")
	}
}
