package ui_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats.go"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/web"
)

// onCallRule has a description, a runbook and two steps for people on call.
const onCallRule = `name: order-unshipped
entity: order
description: Look in WMS, Outbound. Call the warehouse on +49 30 1234 before you call anybody else.
labels: {runbook: "https://wiki.example.org/orders", team: fulfilment, script: "javascript:alert(1)"}
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 1s, step: primary, severity: warning, text: "order {{key}} is not shipped"}
  - {after: 4h, step: lead, severity: critical}
slot: 1s
`

// onCallChannels sends warnings to a chat and criticals to two channels.
const onCallChannels = `channels:
  chat: {kind: webhook, url: "http://127.0.0.1:9/"}
  phone: {kind: webhook, url: "http://127.0.0.1:9/"}
routes:
  - {severity: critical, to: [phone, chat]}
  - {to: chat}
`

// TestOnCallActions checks that the pages of an alert and of its entity have the description, the runbook, the labels, the
// channels of the steps and one row of actions, which acknowledge, snooze and close with a reason.
func TestOnCallActions(t *testing.T) {
	t.Parallel()
	c := config(t.TempDir())
	c.Notify = filepath.Join(t.TempDir(), "channels.yaml")
	if err := os.WriteFile(c.Notify, []byte(onCallChannels), 0o600); err != nil {
		t.Fatal(err)
	}
	home, _ := run(t, c)
	callAPI(t, home, "POST", "/rules", "application/yaml", onCallRule, nil)
	publishEvents(t, home, "orders.created", "1")
	id := waitForOpenAlerts(t, home, 1)[0].ID.String()
	b := open(t, home, 1440, 1000)
	notes := []string{"Look in WMS, Outbound.", "runbook ↗", "team: fulfilment", "script: javascript:alert(1)", "Acknowledge", "Snooze", "Close…", "Mute rule…", "Times are in UTC."}
	for name, path := range map[string]string{"alert": "/alerts/" + id, "entity": "/entities/order?key=1"} {
		b.resize(1440, 1000)
		b.visit(path)
		b.waitForText(notes...)
		if link := evaluate[string](b, `[...document.querySelectorAll(".notes a")].map((a) => a.href).join(" ")`); link != "https://wiki.example.org/orders" {
			t.Errorf("%s links to %q", path, link)
		}
		if first := evaluate[string](b, `document.querySelector("select[name=for]").selectedOptions[0].innerText`); first != "until resolved" {
			t.Errorf("%s: an acknowledgement lasts %q by default", path, first)
		}
		b.checkAccessibility("on call, " + name)
		b.screenshot("on-call-" + name)
		b.setDarkMode(true)
		b.screenshot("on-call-" + name + "-dark")
		b.setDarkMode(false)
		b.resize(400, 900)
		b.screenshot("on-call-" + name + "-narrow")
	}
	b.visit("/alerts/" + id)
	b.waitForText("lead → phone, chat, unless resolved before")
	b.visit("/rules/order-unshipped")
	b.waitForText("primary → chat", "lead → phone, chat")

	b.visit("/entities/order?key=1")
	b.waitForText("next alert: critical lead", "→ phone, chat")
	b.click("button[value=ack]")
	b.waitForText("Acknowledged by", "until resolved", "No orders.shipped") // back on the page of the entity
	b.click("button[value=snooze]")
	b.waitForText("The job is unchanged, as its next check is later: ", "later than the snooze")
	b.visit("/alerts/" + id)
	b.waitForText("acknowledged by loopback, until resolved")
	if line := evaluate[string](b, `[...document.querySelectorAll("li .what")].map((e) => e.innerText).find((t) => t.includes("snoozed") && t.includes("until")) ?? ""`); !strings.Contains(line, ", until ") {
		t.Errorf("the timeline of the alert lacks the end of the snooze: %q", line)
	}
	b.do(chromedp.Click(chromedp.CSS(".close summary")))
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=reason]"), "shipped by hand"))
	b.screenshot("on-call-close")
	b.click("button[value=close]")
	b.waitForText("Closed by loopback at ", ": shipped by hand.", "Look in WMS")
	b.screenshot("on-call-closed")
	if text := b.text(); strings.Contains(text, "Close…") || strings.Contains(text, "Snooze") {
		t.Errorf("the job has ended, and the page has actions:\n%s", text)
	}
	var audit web.Page[web.AuditEntry]
	callAPI(t, home, "GET", "/audit?action=job.cancel", "", "", &audit)
	if len(audit.Items) != 1 || audit.Items[0].Detail != "shipped by hand" {
		t.Errorf("the audit log: %+v", audit.Items)
	}
}

// TestLostDataStaysOpen checks that the alert about a deleted stream is on the overview and in the inbox until it is closed
// with a reason.
func TestLostDataStaysOpen(t *testing.T) {
	t.Parallel()
	c := config(t.TempDir())
	broker, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: "127.0.0.1:0", Log: c.Log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	c.NATSURL, c.NATSAddr = broker.ClientURL(), ""
	home, _ := run(t, c)
	nc, err := nats.Connect(broker.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: "ORDERS", Subjects: []string{"shop.>"}}); err != nil {
		t.Fatal(err)
	}
	callAPI(t, home, "POST", "/rules", "application/yaml", strings.ReplaceAll(onCallRule, "orders.", "shop."), nil)
	if _, err := js.Publish("shop.created", []byte(`{"id": "1"}`)); err != nil {
		t.Fatal(err)
	}
	waitForOpenAlerts(t, home, 1)
	recreateStream(t, nc, nats.StreamConfig{Name: "ORDERS", Subjects: []string{"shop.>"}})
	all := waitForOpenAlerts(t, home, 2)
	loss := all[0]
	if loss.Rule != alerts.SystemRule {
		loss = all[1]
	}
	b := open(t, home, 1440, 900)
	b.visit("/")
	b.waitForText("2 open: 1 error, 1 warning", "stream ORDERS", "All conditions hold, but data was lost: see the open alerts")
	b.screenshot("lost-overview")
	b.visit("/health")
	b.waitForText("All conditions hold, but data was lost: see the open alerts")
	b.visit("/alerts?rule=deadman")
	b.waitForText("1 alert", "stream ORDERS")
	if text := b.text(); strings.Contains(text, "Acknowledge all") {
		t.Errorf("lost data can be acknowledged:\n%s", text)
	}
	b.visit("/alerts/" + loss.ID.String())
	b.click(`a[href="/docs/operations/troubleshooting#events-were-lost"]`)
	b.waitForText("Events were lost", "events stored after")
	b.visit("/alerts/" + loss.ID.String())
	b.waitForText("This alert is open until it is closed.")
	b.checkAccessibility("lost data")
	b.screenshot("lost-alert")
	b.do(chromedp.Click(chromedp.CSS(".close summary")))
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=reason]"), "orders were checked by hand"))
	b.click("button[value=close]")
	waitForOpenAlerts(t, home, 1)
	b.visit("/alerts/" + loss.ID.String())
	b.waitForText("Closed by loopback at ", ": orders were checked by hand.")
	b.screenshot("lost-alert-closed")
	b.visit("/")
	b.waitForText("1 open: 1 warning")
	var audit web.Page[web.AuditEntry]
	callAPI(t, home, "GET", "/audit?action=alert.close", "", "", &audit)
	if len(audit.Items) != 1 || audit.Items[0].Detail != "orders were checked by hand" || audit.Items[0].Object != "alert/"+loss.ID.String() {
		t.Errorf("the audit log: %+v", audit.Items)
	}
}

// recreateStream deletes a stream and creates it again. It sends both requests at once, so that deadman does not capture
// the subjects in between.
func recreateStream(t *testing.T, nc *nats.Conn, c nats.StreamConfig) {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	replies, err := nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []*nats.Msg{{Subject: "$JS.API.STREAM.DELETE." + c.Name}, {Subject: "$JS.API.STREAM.CREATE." + c.Name, Data: config}} {
		request.Reply = replies.Subject
		if err := nc.PublishMsg(request); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		reply, err := replies.NextMsg(within)
		if err != nil || strings.Contains(string(reply.Data), `"error"`) {
			t.Fatalf("%v %s", err, reply.Data)
		}
	}
}
