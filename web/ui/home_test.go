package ui_test

import (
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/longtest"
	"deadman/internal/store"
	"deadman/internal/testwait"
	"deadman/web"
)

// TestOverviewShowsPausesAndGaps checks that the first line of the overview names paused rules and the last monitoring
// gap, and omits a gap that ended more than a day ago.
func TestOverviewShowsPausesAndGaps(t *testing.T) {
	t.Parallel()
	c := config(t.TempDir())
	s, err := store.Open(t.Context(), store.Options{DataDir: c.DataDir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	gap := func(began time.Time) {
		for _, status := range []alerts.Status{alerts.Firing, alerts.Resolved} {
			if _, _, err := s.WriteSystemAlert(t.Context(), alerts.SystemAlert{Topic: "sweep", Step: "gap", Status: status, Severity: alerts.Warning, Since: began, Text: "not checked"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	gap(now.Add(-25 * time.Minute))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	home, _ := run(t, c)
	for _, rule := range []string{orders, paymentRule} {
		callAPI(t, home, "POST", "/rules", "application/yaml", rule, nil)
	}
	b := open(t, home, 1440, 900)
	b.visit("/")
	b.waitForText("All systems of deadman operational, no pending checks", "Monitoring gap of 25 m")
	if text := b.text(); strings.Contains(text, "paused") {
		t.Errorf("no rule is paused, and the page shows:\n%s", text)
	}
	callAPI(t, home, "POST", "/rules/order-unshipped/pause", "", "", nil)
	b.waitForText("Rule order-unshipped is paused")
	b.click(`.asides a[href="/rules/order-unshipped"]`)
	b.waitForText("paused")
	callAPI(t, home, "POST", "/rules/payment-missing/pause", "", "", nil)
	b.visit("/")
	b.waitForText("2 rules are paused")
	if tone := evaluate[string](b, `document.querySelector(".lead").className`); tone != "lead warning" {
		t.Errorf("the headline is %q", tone)
	}
	b.checkAccessibility("the overview with paused rules and a gap")
	b.screenshot("now-paused")
	b.resize(400, 800)
	b.screenshot("now-paused-narrow")
	b.click(`.asides a[href="/rules?state=paused"]`)
	b.waitForText("order-unshipped", "payment-missing")
}

// TestOverviewHeadline checks that the headline with several severities has one line of its own, and that no line of the facts
// below begins with the dot that separates them.
func TestOverviewHeadline(t *testing.T) {
	t.Parallel()
	texts := make([]string, 0, 3)
	for _, severity := range []string{"critical", "error", "warning"} {
		text := strings.NewReplacer("order-unshipped", "order-"+severity, "severity: warning", "severity: "+severity).Replace(orders)
		start, _, _ := strings.Cut(text, "  - {after: 2h")
		texts = append(texts, start+"slot: 1s\n")
	}
	home := serve(t, texts...)
	for _, id := range []string{"1", "2"} {
		send(t, home, "orders.created", `{"id": "`+id+`", "total": 1}`)
	}
	b := open(t, home, 1280, 800)
	b.visit("/")
	b.waitForText("6 open: 2 critical, 2 errors, 2 warnings", "Ingest up to date")
	callAPI(t, home, "POST", "/rules/order-warning/pause", "", "", nil)
	b.waitForText("6 open: 2 critical, 2 errors, 2 warnings", "Rule order-warning is paused")
	for _, width := range []int64{1920, 1280, 700, 390} {
		b.resize(width, 800)
		wrong := evaluate[[]string](b, `(() => {
			const wrong = [], box = document.querySelector(".asides").getBoundingClientRect(), head = document.querySelector("h1").getBoundingClientRect();
			const range = document.createRange();
			range.selectNodeContents(document.querySelector("h1 [role=status]"));
			const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top))).size;
			if (innerWidth >= 700 && lines > 1) wrong.push("the headline has " + lines + " lines");
			if (head.bottom > box.top + 1) wrong.push("the facts begin at " + box.top + ", the headline ends at " + head.bottom);
			if (getComputedStyle(document.querySelector(".asides")).overflowX !== "clip") wrong.push("nothing hides a dot outside of the box");
			let above = -1, shown = 0;
			for (const fact of document.querySelectorAll(".asides > span")) {
				const at = fact.getBoundingClientRect(), dot = getComputedStyle(fact, "::before");
				const end = at.left + parseFloat(dot.left) + parseFloat(dot.width);
				const isFirst = at.top > above + 5, isHidden = end < box.left;
				if (isFirst !== isHidden) wrong.push("the dot before " + fact.innerText + " is " + (isHidden ? "hidden" : "at the start of a line"));
				if (!isHidden) shown++;
				above = at.top;
			}
			if (innerWidth >= 1280 && shown < 3) wrong.push(shown + " dots");
			return wrong;
		})()`)
		for _, w := range wrong {
			t.Errorf("at %d px: %s", width, w)
		}
		b.screenshot(fmt.Sprint("headline-", width))
	}
}

// TestListsSeparatePastFromPresent checks lists that confused: jobs without a check are not among the next ones, a superseded step
// is marked, one version has nothing to compare, times have 24 hours, and a table that is cut off has a shadow.
func TestListsSeparatePastFromPresent(t *testing.T) {
	t.Parallel()
	home := serve(t, "name: nightly\nentity: backup\ntrigger: {heartbeat: {every: 1s, grace: 0s}}\nescalate: [{after: 0s, step: missing, severity: critical}]\nslot: 1s\n",
		strings.Replace(orders, "after: 2h", "after: 2s", 1))
	var address web.PingAddress
	callAPI(t, home, "POST", "/rules/nightly/pings", "application/json", `{"key": "db"}`, &address)
	if reply, err := http.Get(home + strings.TrimPrefix(address.URL, home)); err != nil || reply.Body.Close() != nil || reply.StatusCode != 200 {
		t.Fatalf("ping: %v %v", reply, err)
	}
	send(t, home, "orders.created", `{"id": "1", "total": 1}`)
	b := open(t, home, 1280, 900)
	b.visit("/alerts/all")
	b.waitForText("superseded", "escalated")
	styles := evaluate[map[string]string](b, `Object.fromEntries([...document.querySelectorAll(".alerts li")].filter(e => e.innerText.includes("order")).map(e => [e.innerText.includes("superseded") ? "superseded" : "current", e.className]))`)
	if styles["superseded"] != "waiting" || styles["current"] != "critical" {
		t.Errorf("the rows are %v", styles)
	}
	b.screenshot("superseded")
	b.visit("/jobs")
	b.waitForText("waits for an event")
	b.visit("/")
	b.waitForText("Next checks", "backup db")
	if rows := evaluate[string](b, `[...document.querySelectorAll("table.jobs tbody tr")].map(e => e.innerText).join(" | ")`); strings.Contains(rows, "backup db") || !strings.Contains(rows, "order 1") {
		t.Errorf("the next checks are %q", rows)
	}
	b.screenshot("next-checks")
	b.visit("/rules/nightly/versions")
	if text := b.text(); !strings.Contains(text, "This is the only version.") || strings.Contains(text, "Compare") || strings.Contains(text, "Changes from") {
		t.Errorf("the versions: %s", text)
	}
	b.visit("/alerts/all")
	evaluate[any](b, `document.querySelector(".alerts li a[href^='/alerts/']").click(); 0`)
	b.waitForText("Timeline")
	for _, path := range []string{"", "/health", "/history", "/entities/order?key=1"} {
		if path != "" {
			b.visit(path)
		}
		if text := b.text(); regexp.MustCompile(`\d [AP]M`).MatchString(strings.ReplaceAll(text, "\u202f", " ")) {
			t.Errorf("%s has times of 12 hours: %s", path, text)
		}
	}
	b.resize(390, 800)
	b.visit("/health")
	if shadows := evaluate[[]string](b, `[...document.querySelectorAll("main .scroll")].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => getComputedStyle(e).backgroundAttachment)`); len(shadows) == 0 || strings.Contains(strings.Join(shadows, " "), "scroll, scroll, scroll, scroll") || !strings.Contains(shadows[0], "local") {
		t.Errorf("the tables that are cut off have %q", shadows)
	}
	b.screenshot("shadows")
}

// TestNeverReported checks that a heartbeat without keys is shown as never reported on the overview, the list of rules,
// the rule's page and in its preview, until its first ping, and not again once its job ended.
func TestNeverReported(t *testing.T) {
	t.Parallel()
	home := serve(t, "name: backup-nightly\nentity: backup\ntrigger: {heartbeat: {every: 24h, grace: 1h}}\nescalate: [{after: 0s, step: missing, severity: critical}]\n")
	b := open(t, home, 1440, 900)
	b.visit("/")
	b.waitForText("Rule backup-nightly never got a signal", "never reported")
	if tone := evaluate[string](b, `document.querySelector(".lead").className`); tone != "lead warning" {
		t.Errorf("the headline is %q", tone)
	}
	b.visit("/rules?state=never_reported")
	b.waitForText("backup-nightly", "never reported")
	b.visit("/rules/backup-nightly")
	b.waitForText("never reported", "Never reported: this rule watches nothing until its first signal arrives")
	if n := evaluate[int](b, `document.querySelectorAll("h1 .pill.ok").length`); n != 0 {
		t.Error("the rule's page is green")
	}
	b.checkAccessibility("a rule that nothing reported to")
	b.screenshot("never-reported")
	b.click(`button[value="try"]`)
	b.waitForText("Warning: trigger.heartbeat: nothing is watched until a first ping; name the expected keys in trigger.heartbeat.keys")

	var address web.PingAddress
	callAPI(t, home, "POST", "/rules/backup-nightly/pings", "application/json", `{"key": "crm"}`, &address)
	if reply, err := http.Get(home + strings.TrimPrefix(address.URL, home)); err != nil || reply.Body.Close() != nil || reply.StatusCode != 200 {
		t.Fatalf("ping: %v %v", reply, err)
	}
	b.visit("/")
	b.waitForText("1 pending check", "enabled")
	callAPI(t, home, "DELETE", "/jobs/backup-nightly/crm", "", "", nil)
	b.waitForText("0 pending checks")
	b.visit("/rules/backup-nightly")
	b.waitForText("0 pending", "enabled")
	if text := b.text(); strings.Contains(text, "ever reported") {
		t.Errorf("a ping came, and the page shows:\n%s", text)
	}
}

// TestOverviewShowsRefusals checks that the overview counts dead letters, in total and by rule, with links to them.
func TestOverviewShowsRefusals(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, paymentRule)
	b := open(t, home, 1400, 900)
	b.visit("/")
	b.waitForText("order-unshipped")
	if text := b.text(); strings.Contains(text, "dead letter") && !strings.Contains(text, "Dead letters") || strings.Contains(text, "refused") {
		t.Errorf("no event was refused, and the output is:\n%s", text)
	}
	for range 3 {
		send(t, home, "orders.created", `{"number": 1}`)
	}
	b.waitForText("3 dead letters", "3 refused") // live
	b.checkAccessibility("now, with dead letters")
	b.screenshot("now-refused")
	b.click(`#rule-order-unshipped a[href^="/dead-letters"]`)
	b.waitForText("Dead letters newest first")
	b.visit("/")
	b.click(`.asides a[href="/dead-letters"]`)
	b.waitForText("3 in total")
}

// TestLongKeysLeaveRoom checks that a long key leaves space for the other columns and is available in full as a
// tooltip. The alert of an entity links to it on a narrow screen, too.
func TestLongKeysLeaveRoom(t *testing.T) {
	longtest.Only(t, "it measures the layout")
	t.Parallel()
	home := serve(t, orders)
	long := strings.Repeat("key-", 128)
	publishEvents(t, home, "orders.created", "1", long)
	waitForOpenAlerts(t, home, 2)
	b := open(t, home, 1400, 900)
	for _, width := range []int64{1400, 400} {
		b.resize(width, 900)
		for _, path := range []string{"/", "/alerts"} {
			b.visit(path)
			b.waitForText("is not shipped")
			tallest := evaluate[float64](b, `Math.max(...[...document.querySelectorAll("tbody tr")].map((row) => row.offsetHeight / parseFloat(getComputedStyle(row).lineHeight)))`)
			if tallest > map[int64]float64{1400: 4, 400: 9}[width] {
				t.Errorf("%s, %d px wide, has a row of %.1f lines", path, width, tallest)
			}
			if n := evaluate[int](b, `[...document.querySelectorAll("tr[id^=alert-] a.key")].filter((a) => a.offsetHeight > 0 && a.title === a.textContent).length`); n != 2 {
				t.Errorf("%s, %d px wide: %d of 2 alerts lead to their entity", path, width, n)
			}
			b.checkAccessibility(path + " with a long key")
			b.screenshot("long" + strings.ReplaceAll(path, "/", "-") + map[int64]string{1400: "", 400: "-narrow"}[width])
		}
	}
	b.click(`tr[id^=alert-] a.narrow.key[title="order 1"]`)
	b.waitForText("order 1", "first check")
}

// TestOverviewOffersTriggerEvent checks that the overview without pending checks offers an event that creates a job. It
// is the trigger's event, even if another subject of the rule precedes it in the alphabet.
func TestOverviewOffersTriggerEvent(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t, strings.Replace(orders, "orders.shipped", "orders.arrived", 1)), 1200, 900)
	b.visit("/")
	b.waitForText("Send an event to rule order-unshipped", `deadman event send orders.created '{ "id": "1234", "total": "sample" }'`)
	b.click(".empty a.button")
	b.waitForText("This publishes a real event")
	b.click("button.grave")
	b.waitForText("Event stored", "order 1234")
	b.visit("/")
	b.waitForText("1234")
}

// TestOfferedEventHasFieldsOfTexts checks that the event that the overview offers has the fields that the times, texts and
// labels of the rule read: its alert has no gap.
func TestOfferedEventHasFieldsOfTexts(t *testing.T) {
	t.Parallel()
	home := serve(t, `name: order-unshipped
entity: order
trigger:
  event: orders.created
  key: event.order.id
  since: event.placed_at
  shape: {order: {id: text, sla: number}, placed_at: time, capture_before: time, customer: {name: text}, site: text, total: number}
escalate:
  - {after: 1s, step: first, text: 'order {{key}} of {{event.customer.name}} in {{event.site}}: {{event.total}}'}
  - {after: hours(event.order.sla), step: second}
  - {at: event.capture_before, step: third, text: '{{event.order.id}} lapses {{event.capture_before}}'}
labels: {site: '{{event.site}}', team: shop}
slot: 1s
`)
	_, content := requestPage(t, "GET", home+"/", "")
	_, offered, _ := strings.Cut(html.UnescapeString(content), "deadman event send orders.created '")
	offered, _, found := strings.Cut(offered, "'")
	if !found {
		t.Fatalf("no event is offered: %s", content)
	}
	response, err := http.Post(home+"/api/v1/events/orders.created", "application/json", strings.NewReader(offered))
	if err != nil {
		t.Fatal(err)
	}
	if response.Body.Close(); response.StatusCode >= 300 {
		t.Fatalf("%s is refused: %s", offered, response.Status)
	}
	const want = "order 1234 of sample in sample: 1"
	testwait.Until(t, "the alert is raised with a text without gaps", func() bool {
		_, content = requestPage(t, "GET", home+"/", "")
		return strings.Contains(content, want)
	})
	if !strings.Contains(offered, `"sla": 1`) {
		t.Errorf("the second step has no time with %s", offered)
	}
}

// TestOverviewHasTextOfFewAlerts checks that the row of a rule with one alert has its text although more severe alerts of
// another rule are more than the overview reads.
func TestOverviewHasTextOfFewAlerts(t *testing.T) {
	t.Parallel()
	home := serve(t, stormRule(0), stormRule(1))
	publishStorm(t, home, 0, 60)
	publishStorm(t, home, 1, 1)
	waitForUnacknowledged(t, home, 60+1)
	if _, content := requestPage(t, "GET", home+"/", ""); !strings.Contains(content, "order storm-1-0 is late") {
		t.Errorf("the page has no text of the alert of the second rule: %s", content)
	}
}

// TestOverviewWhileIngestFails checks that the overview without a broker does not report that ingest is up to date, and
// counts the due checks that wait for it.
func TestOverviewWhileIngestFails(t *testing.T) {
	t.Parallel()
	c := config(t.TempDir())
	broker, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: "127.0.0.1:0", Log: c.Log})
	if err != nil {
		t.Fatal(err)
	}
	stopBroker := sync.OnceFunc(broker.Close)
	t.Cleanup(stopBroker)
	c.NATSURL, c.NATSAddr = broker.ClientURL(), ""
	home, _ := run(t, c)
	callAPI(t, home, "POST", "/rules", "application/yaml", strings.Replace(orders, "after: 1s", "after: 10s", 1), nil)
	publishEvents(t, home, "orders.created", "1", "2", "3")
	testwait.Until(t, "three jobs are pending", func() bool {
		var page web.JobPage
		callAPI(t, home, "GET", "/jobs", "", "", &page)
		return len(page.Items) == 3
	})
	b := open(t, home, 1280, 900)
	b.visit("/")
	b.waitForText("Last event read", "Ingest up to date")
	stopBroker()
	b.waitForText("Ingest is failing", "3 due checks not decided, the oldest due", "What to do", "alerts stream")
	if text := b.text(); strings.Contains(text, "up to date") || strings.Contains(text, "alerts_stream") {
		t.Errorf("ingest fails, and the overview is:\n%s", text)
	}
	b.checkAccessibility("the overview without a broker")
	b.screenshot("overview-no-broker")
	b.visit("/health")
	b.waitForText("this node", "nats", "node")
	if text := b.text(); regexp.MustCompile(`\bfit\b`).MatchString(text) {
		t.Errorf("the health page has the word fit:\n%s", text)
	}
	b.screenshot("health-no-broker")
}

// TestSystemAlertsAreShown checks that the open alerts of deadman about itself are above the list of open alerts, with their
// remedies, and counted on the overview. Those that ended are not.
func TestSystemAlertsAreShown(t *testing.T) {
	t.Parallel()
	c := config(t.TempDir())
	s, err := store.Open(t.Context(), store.Options{DataDir: c.DataDir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	write := func(topic, step, text string, all ...alerts.Status) {
		for _, status := range all {
			r := alerts.SystemAlert{Topic: topic, Step: step, Status: status, Severity: alerts.Error, Since: time.Now().Add(-time.Hour).Truncate(time.Minute), Text: text}
			if _, _, err := s.WriteSystemAlert(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("rule/nightly", "ticks", "rule nightly: schedule ticks cannot be applied", alerts.Firing)
	write("sweep", "gap", "due jobs were not decided", alerts.Firing, alerts.Resolved)
	write("rule/nightly", "tick", "rule nightly: a tick was skipped", alerts.Firing)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	home, _ := run(t, c)
	callAPI(t, home, "POST", "/rules", "application/yaml", orders, nil)
	publishEvents(t, home, "orders.created", "1")
	waitForOpenAlerts(t, home, 1)
	b := open(t, home, 1280, 900)
	b.visit("/")
	b.waitForText("1 open: 1 warning", "1 open system alert")
	if tone := evaluate[string](b, `document.querySelector(".lead").className`); tone != "lead warning" {
		t.Errorf("the headline is %q", tone)
	}
	b.click(`.asides a[href="/alerts#system"]`)
	b.waitForText("About deadman itself", "schedule ticks cannot be applied", "order 1 (7) is not shipped")
	if text := b.text(); strings.Contains(text, "a tick was skipped") || strings.Contains(text, "were not decided") || strings.Index(text, "schedule ticks") > strings.Index(text, "order 1") {
		t.Errorf("the page of open alerts is:\n%s", text)
	}
	b.checkAccessibility("open alerts, with system alerts")
	b.screenshot("system-alerts")
	b.visit("/alerts?entity=order")
	b.waitForText("order 1 (7) is not shipped")
	if strings.Contains(b.text(), "About deadman itself") {
		t.Error("the list of an entity has system alerts")
	}
	b.resize(390, 844)
	b.visit("/alerts")
	b.screenshotVisible("system-alerts-phone")
	b.click(`#system .narrow a`)
	b.waitForText("Condition ticks")
}
