package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"deadman/server"
	"deadman/web"
)

// statusService is a service of the statuses of orders that counts its requests.
type statusService struct {
	*httptest.Server
	requests atomic.Int64
}

func newStatusService(t *testing.T) *statusService {
	s := new(statusService)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.requests.Add(1)
		fmt.Fprint(w, `{"status": "open"}`)
	}))
	t.Cleanup(s.Close)
	return s
}

const statusRule = `
name: unpaid
entity: order
trigger: {event: orders.created, key: event.id}
lookup: {http: {source: shop, path: "/orders/{{key}}"}}
while: state.status == "open"
slot: 1s
escalate: [{after: 1s, step: primary}]
`

// A changed file of sources is in force for the rules of a running node, and an invalid one changes nothing and is shown.
func TestSourcesAreReloaded(t *testing.T) {
	t.Parallel()
	before, after, other := newStatusService(t), newStatusService(t), newStatusService(t)
	text := func(shop *statusService) string {
		return fmt.Sprintf("sources:\n  shop: {http: {url: %q, allow: [127.0.0.1]}}\n  other: {http: {url: %q, allow: [127.0.0.1]}}\n", shop.URL, other.URL)
	}
	file, again := sourceFile(t, text(before)), make(chan struct{})
	n := startReadyNode(t, server.Config{Sources: file, Reload: again, Rules: ruleFolder(t, map[string]string{"unpaid.yaml": statusRule})})
	reload := func(text, logged string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		had := strings.Count(n.log.String(), logged)
		again <- struct{}{}
		n.eventually("the file is read", func() bool { return strings.Count(n.log.String(), logged) > had })
	}
	alerted := func(id string) {
		t.Helper()
		n.call(http.MethodPost, "/api/v1/events/orders.created", `{"id":"`+id+`"}`, nil)
		n.eventually("order "+id+" is alerted", func() bool {
			return strings.Contains(string(n.callRaw(http.MethodGet, "/api/v1/alerts?key="+id, "").body), `"firing"`)
		})
	}
	refused := func() bool {
		ok, detail, _ := n.condition("files")
		return !ok && strings.Contains(detail, "refused: "+file)
	}
	shop := func() (s web.Source) {
		t.Helper()
		n.get("/api/v1/sources/shop", &s)
		return s
	}
	alerted("one")
	if before.requests.Load() == 0 || after.requests.Load() != 0 {
		t.Errorf("%d requests before, %d after", before.requests.Load(), after.requests.Load())
	}

	reload("sauces: {}\n", `a file is refused; what was read before stays in force","component":"files","file":"`+file)
	if !refused() {
		t.Error("/readyz does not show the refused file")
	}
	counted := before.requests.Load()
	alerted("two")
	if before.requests.Load() == counted {
		t.Error("the source before is not in force after a refused file")
	}

	reload(text(after), `read again","component":"files","file":"`+file)
	if refused() {
		t.Error("/readyz shows a refused file that was corrected")
	}
	counted = before.requests.Load()
	alerted("three")
	if before.requests.Load() != counted || after.requests.Load() == 0 {
		t.Errorf("%d requests to the source before, %d to the new one", before.requests.Load()-counted, after.requests.Load())
	}

	was := shop()
	reload(strings.Replace(text(after), other.URL, before.URL, 1), `read again","component":"files","file":"`+file)
	if now := shop(); now.Queries < was.Queries || was.Queries == 0 {
		t.Errorf("a source that did not change is replaced: %+v, before %+v", now, was)
	}
	reload("sources: {}\n", `read again","component":"files","file":"`+file)
	n.call(http.MethodPost, "/api/v1/events/orders.created", `{"id":"four"}`, nil)
	n.eventually("the removed source is reported", func() bool {
		return strings.Contains(string(n.callRaw(http.MethodGet, "/api/v1/alerts", "").body), "is not defined on this node")
	})
}
