package ui_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"deadman/server"
	"deadman/web"
)

const orders = `name: order-unshipped
description: An order was placed and nothing was shipped.
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 1s, step: primary, severity: warning, text: "order {{key}} ({{event.total}}) is not shipped"}
  - {after: 2h, step: escalated, severity: critical}
slot: 1s
`

// serve runs a node with some rules and real dependencies.
func serve(t *testing.T, texts ...string) (home string) {
	t.Helper()
	folder := t.TempDir()
	for i, text := range texts {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(i)+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	home, _ = run(t, config(t.TempDir()))
	for _, text := range texts {
		callAPI(t, home, "POST", "/rules", "application/yaml", text, nil)
	}
	return home
}

// run runs a node until the test ends or stop is called.
func run(t testing.TB, c server.Config) (home string, stop func()) {
	t.Helper()
	ready, ended := make(chan server.Endpoints, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	c.Ready = func(e server.Endpoints) { ready <- e }
	go func() { ended <- server.Run(ctx, c) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case e := <-ready:
		home = e.HTTP
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	case <-time.After(within):
		t.Fatal("it does not serve")
	}
	return home, stop
}

// callAPI calls the API.
func callAPI(t testing.TB, home, method, path, kind, body string, out any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, home+"/api/v1"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 400 {
		t.Fatalf("%s %s: %d %s %v", method, path, answer.StatusCode, text, err)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
}

// send publishes an event.
func send(t *testing.T, home, subject, body string) {
	t.Helper()
	callAPI(t, home, "POST", "/events/"+url.PathEscape(subject), "application/json", body, nil)
}

// pagePaths returns the addresses of all pages.
func pagePaths(key string) []string {
	return []string{
		"/", "/jobs", "/entities/order?key=" + url.QueryEscape(key), "/rules", "/rules/order-unshipped", "/rules/order-unshipped/edit", "/new-rule",
		"/calendars", "/calendars/office", "/calendars/office/edit", "/new-calendar",
		"/alerts", "/alerts/all", "/mutes", "/history", "/dead-letters", "/health",
	}
}

// hostileKey is a key with markup and direction marks.
const hostileKey = "<script>alert(1)</script>\"'&\u202e/..%2f?"

// TestPages checks that every page shows values as text, loads nothing from other hosts, has no accessibility
// violations, and fits narrow windows and dark mode.
func TestPages(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	callAPI(t, home, "PUT", "/calendars/office", "application/yaml", officeHours, nil)
	for _, id := range []string{"1234", hostileKey} {
		body, err := json.Marshal(map[string]any{"id": id, "total": 12.5})
		if err != nil {
			t.Fatal(err)
		}
		send(t, home, "orders.created", string(body))
	}
	send(t, home, "orders.created", `{"no": "id"}`)
	b := open(t, home, 1400, 900)
	b.visit("/")
	b.waitForText("All systems of deadman operational", "order 1234 (12.5) is not shipped", "order-unshipped")
	send(t, home, "orders.created", `{"id": "live-1", "total": 1}`)
	b.waitForText("order live-1") // without reloading the page
	for _, path := range pagePaths(hostileKey) {
		for _, dark := range []bool{false, true} {
			b.setDarkMode(dark)
			b.visit(path)
			name := fmt.Sprintf("%s-%v", url.PathEscape(path), map[bool]string{true: "dark", false: "light"}[dark])
			b.checkAccessibility(name)
			b.screenshot(name)
		}
		if wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
			t.Errorf("%s is %d px too wide", path, wide)
		}
	}
	narrow := open(t, home, 400, 800)
	for _, path := range pagePaths(hostileKey) {
		narrow.visit(path)
		narrow.screenshot(url.PathEscape(path) + "-narrow")
		if wide := evaluate[int](narrow, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
			t.Errorf("%s is %d px too wide for 400 px", path, wide)
		}
	}
}

// testCancelAll cancels by the filters of the list of jobs: all that match and no others, after a question with their number.
func testCancelAll(t *testing.T, b *tab, home string) {
	t.Helper()
	for i := range 60 { // more than a page
		send(t, home, "orders.created", fmt.Sprintf(`{"id": "all-%d", "total": 1}`, i))
	}
	pending := func(query string) int {
		t.Helper()
		var page web.Page[web.Job]
		callAPI(t, home, "GET", "/jobs?limit=500&"+query, "", "", &page)
		return len(page.Items)
	}
	for deadline := time.Now().Add(within); pending("key_prefix=all-") < 60; pausePoll(t.Context()) {
		if time.Now().After(deadline) {
			t.Fatalf("%d jobs are pending", pending("key_prefix=all-"))
		}
	}
	const offered = `document.querySelector("button[value=cancel-all]") !== null`
	for query, want := range map[string]bool{"": false, "due=day": false, "key=all-*&due=day": false, "key=all-*": true} {
		if b.visit("/jobs?" + query); evaluate[bool](b, offered) != want {
			t.Errorf("/jobs?%s offers to cancel all: %v", query, !want)
		}
	}
	b.visit("/jobs?rule=order-unshipped&key=all-*")
	b.click("button[value=cancel-all]")
	b.waitForText("Cancel 60 jobs of rule order-unshipped, key all-*?", "Open alerts are resolved")
	b.checkAccessibility("cancel all")
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=reason]"), "sent twice"))
	if n := pending("key_prefix=all-"); n != 60 {
		t.Errorf("%d jobs are pending before the answer", n)
	}
	b.click("button.grave")
	b.waitForText("60 jobs were cancelled.", "No pending checks match these filters.")
	var ended web.Page[web.EndedJob]
	callAPI(t, home, "GET", "/history?key=all-0", "", "", &ended)
	if len(ended.Items) != 1 || !strings.HasSuffix(ended.Items[0].Reason, ": sent twice") {
		t.Errorf("the history lacks the reason of the cancel: %+v", ended.Items)
	}
	if n := pending(""); n != 2 {
		t.Errorf("%d jobs are pending, want the 2 others", n)
	}
}

// TestPageActions checks that the actions on the pages take effect.
func TestPageActions(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	for _, id := range []string{"1", "2", "3"} {
		send(t, home, "orders.created", `{"id": "`+id+`", "total": 1}`)
	}
	b := open(t, home, 1200, 900)
	b.visit("/")
	b.waitForText("order 1 (1) is not shipped", "order 3 (1) is not shipped")

	b.visit("/jobs")
	b.do(chromedp.Click(chromedp.CSS(`input[aria-label="Select order 2"]`)))
	b.click(`button[value=cancel]`)
	b.waitForText("Cancel 1 job?", "order-unshipped/2")
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=reason]"), "duplicate"))
	b.click("button.grave")
	b.waitForText("1 job was cancelled.")
	b.visit("/entities/order?key=2")
	b.waitForText("by loopback: duplicate")
	b.visit("/jobs")
	b.do(chromedp.Click(chromedp.CSS(`input[data-all]`)))
	b.click(`button[value=snooze]`)
	b.waitForText("0 jobs were snoozed; 2 unchanged, as their next checks are later.")
	testCancelAll(t, b, home)

	b.visit("/alerts?key=3")
	b.click("#inbox a.plain")
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=note]"), "I am on it"))
	b.click("button[value=ack]")
	b.waitForText("Acknowledged by", "until resolved", "I am on it")
	b.click("button[value=unack]")
	b.waitForText("Further escalation steps are suppressed until then")

	b.visit("/rules/order-unshipped/edit")
	b.waitForText("Preview nothing is saved or sent", "primary")
	b.do(chromedp.Click(chromedp.CSS("label[for=text]")))
	b.do(chromedp.KeyEvent("nonsense: 1\r"))
	b.waitForText("nonsense") // the preview reports the error
	b.allowedStatus = "422"
	b.click("button.main")
	b.waitForText("The rule was not saved:", "nonsense")
	evaluate[any](b, `document.getElementById("text").value = document.getElementById("text").value.replace("nonsense: 1", "early: 2h")`)
	b.click("button.main")
	b.waitForText("Changes in the newest version", "+early: 2h")

	b.visit("/rules/order-unshipped")
	b.click("button[value=pause]")
	b.waitForText("paused")
	b.click("button[value=resume]")
	b.waitForText("enabled")

	send(t, home, "orders.created", `{"no": "id"}`)
	b.visit("/dead-letters")
	b.waitForText("missing value")
	b.click(`td a[href^="/dead-letters/"]`)
	b.click("button[value=drop]")
	b.click("button.grave")
	b.waitForText("No dead letters.")
}
