package ui_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"deadman/internal/bus/bustest"
)

const lookupRule = `name: order-unpaid
entity: order
trigger: {event: orders.created, key: event.id}
lookup: {http: {source: shop, path: "/orders/{{key}}"}}
while: state.status == "OPEN"
escalate: [{after: 1s, step: late, severity: critical}]
slot: 1s
`

// address returns an address without a server.
func address(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", bustest.Port(t))
}

// serveBody runs an HTTP service on an address with a fixed body.
func serveBody(t *testing.T, address, body string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
}

// TestOutageAlert checks that an outage alert is marked, links to the outages and can't be acknowledged, and that its
// page shows the end of the outage.
func TestOutageAlert(t *testing.T) {
	t.Parallel()
	shop, c := address(t), config(t.TempDir())
	c.Sources = filepath.Join(t.TempDir(), "sources.yaml")
	text := fmt.Sprintf("sources:\n  shop:\n    http: {url: \"http://%s\", allow: [127.0.0.1/32]}\n", shop)
	if err := os.WriteFile(c.Sources, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	home, _ := run(t, c)
	callAPI(t, home, "POST", "/rules", "application/yaml", lookupRule, nil)
	publishEvents(t, home, "orders.created", "1", "2")
	alert := waitForOpenAlerts(t, home, 1)[0]

	b := open(t, home, 1400, 900)
	for _, path := range []string{"/", "/alerts"} {
		b.visit(path)
		b.waitForText("outage of source shop")
		if n := evaluate[int](b, `document.querySelectorAll("a[href^='/entities/'][href*=outage], tr[id^=alert-] input, .acts button, .tools button").length`); n > 0 {
			t.Errorf("%s: %d links or buttons are for no outage:\n%s", path, n, b.text())
		}
		b.checkAccessibility(path + " with an outage")
		b.screenshot("outage" + strings.ReplaceAll(path, "/", "-"))
	}
	b.click(`tr[id^=alert-] td.wide a[href="/health#outages"]`)
	b.waitForText("Outages", "order-unpaid", "open")
	b.visit("/alerts/" + alert.ID.String())
	b.waitForText("outage of source shop", "The outage is open", "The alert closes by itself when the outage ends", "source shop stopped answering")
	b.checkAccessibility("the alert of an outage")
	b.screenshot("outage-alert")
	b.resize(400, 900)
	b.setDarkMode(true)
	b.visit("/alerts")
	b.screenshot("outage-alerts-narrow")
	b.visit("/alerts/" + alert.ID.String())
	b.screenshot("outage-alert-narrow")
	if status, content := requestPage(t, "POST", home+"/alerts/"+alert.ID.String(), "do=ack"); status != 409 || !strings.Contains(content, "closes by itself once shop is available again") {
		t.Errorf("acknowledging: %d %s", status, content)
	}

	serveBody(t, shop, `{"status": "PAID"}`)
	b.waitForText("closed", "source shop answered again", "Over since ", "(resolved): shop is available again")
	if strings.Contains(b.text(), "The outage is open") {
		t.Errorf("the outage is over, and the page still shows it:\n%s", b.text())
	}
}
