package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/server"
)

// natsLookups is a rule with a lookup over NATS that reports the result.
const natsLookups = `entity: order
slot: 1s
trigger: {event: orders.created, key: event.id}
while: state == nil or state.status == "UNSHIPPED"
escalate: [{after: 1s, step: primary, text: "{{state.status ?? \"absent\"}}"}]
guards: {attempts: 1}
`

// Lookups over the node's own connection work end to end: the answers of a service and a bucket decide each order,
// and missing services are an outage.
func TestLookupsOverNodeConnection(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{Sources: sourceFile(t, "sources: {bus: {nats: {}}}\n")})
	conn := n.natsConn(bus.UserAdmin)
	orders := map[string]string{"open": `{"status":"UNSHIPPED"}`, "shipped": `{"status":"SHIPPED"}`, "gone": "null", "odd": "[]"}
	if _, err := conn.Subscribe("shop.orders.*", func(m *nats.Msg) {
		_ = m.Respond([]byte(orders[strings.TrimPrefix(m.Subject, "shop.orders.")]))
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range orders {
		if key == "gone" {
			continue
		}
		if _, err := bucket.Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	n.saveRule(http.StatusCreated, "", "name: live\n"+natsLookups+`lookup: {nats: {source: bus, subject: "shop.orders.{{key}}"}}`+"\n")
	n.saveRule(http.StatusCreated, "", "name: kept\n"+natsLookups+"lookup: {kv: {source: bus, bucket: orders}}\n")
	n.saveRule(http.StatusCreated, "", "name: lonely\n"+natsLookups+`lookup: {nats: {source: bus, subject: "absent.{{key}}"}}`+"\n")
	for key := range orders {
		n.publishOrder(`{"id":"` + key + `"}`)
	}
	for _, rule := range []string{"live", "kept"} {
		for key, want := range map[string]string{"open": "firing UNSHIPPED", "gone": "firing absent", "odd": "undetermined order odd: check undetermined"} {
			n.eventually(rule+" says of "+key+" "+want, func() bool {
				var raised struct {
					Items []struct{ Status, Text string }
				}
				n.get("/api/v1/alerts?rule="+rule+"&key="+key, &raised)
				return len(raised.Items) == 1 && strings.HasPrefix(raised.Items[0].Status+" "+raised.Items[0].Text, want)
			})
		}
		n.eventually(rule+" ends for what was shipped", func() bool {
			var ended list
			n.get("/api/v1/history?key=shipped&rule="+rule, &ended)
			return len(ended.Items) == 1 && ended.Items[0].Outcome == "cleared"
		})
	}
	n.eventually("one alert reports the missing responder", func() bool {
		var raised struct {
			Items []struct{ Status, Text string }
		}
		n.get("/api/v1/alerts?rule=lonely", &raised)
		return len(raised.Items) == 1 && raised.Items[0].Status == "undetermined" && strings.Contains(raised.Items[0].Text, "bus is unavailable")
	})
	if got := n.callRaw(http.MethodPost, "/api/v1/rules/lint", "name: lost\n"+natsLookups+"lookup: {kv: {source: bus, bucket: shop}}\n"); !strings.Contains(string(got.body), "/lookup/kv/bucket") {
		t.Errorf("a bucket that is not there: %s", got.body)
	}
}

// A source that is down when a rule is saved causes a warning, and the rule is saved.
func TestUnavailableSourceAtSaveIsWarning(t *testing.T) {
	t.Parallel()
	const address = "nats://127.0.0.1:1" // without a server
	n := startReadyNode(t, server.Config{
		Sources: sourceFile(t, "sources: {gone: {nats: {url_env: SHOP}}}\n"), Env: func(string) string { return address },
	})
	rule := "name: late\n" + natsLookups + "lookup: {kv: {source: gone, bucket: orders}}\n"
	for _, path := range []string{"/api/v1/rules/late?dry_run=true", "/api/v1/rules/late"} {
		var change struct {
			Created, Changed bool
			Warnings         []string
		}
		got := n.callRaw(http.MethodPut, path, rule)
		got.decode(t, &change)
		if got.status >= 300 || !change.Created || len(change.Warnings) != 1 || !strings.Contains(change.Warnings[0], "source gone is not reachable, so the query is not verified") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if status := n.get("/api/v1/rules/late", nil); status != http.StatusOK {
		t.Errorf("the rule is not there: %d", status)
	}
}
