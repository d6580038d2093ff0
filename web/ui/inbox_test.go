package ui_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"deadman/web"
)

const paymentRule = `name: payment-missing
entity: payment
labels: {site: "<b>\u202enorth"}
trigger: {event: payments.asked, key: event.id}
resolve: {event: payments.made, key: event.id}
escalate:
  - {after: 1s, step: late, severity: error, text: "payment {{key}} is missing"}
  - {after: 4h, step: very-late, severity: critical}
  - {every: 24h, times: 3, step: reminder}
slot: 1s
`

// waitForOpenAlerts waits until n alerts are open.
func waitForOpenAlerts(t *testing.T, home string, n int) (open []web.Alert) {
	t.Helper()
	for deadline := time.Now().Add(within); ; pausePoll(t.Context()) {
		var page web.Page[web.Alert]
		callAPI(t, home, "GET", "/alerts?open=true&limit=500", "", "", &page)
		if len(page.Items) == n {
			return page.Items
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d alerts are open, want %d", len(page.Items), n)
		}
	}
}

// publishEvents sends an event for each id.
func publishEvents(t *testing.T, home, subject string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		body, err := json.Marshal(map[string]any{"id": id, "total": 7})
		if err != nil {
			t.Fatal(err)
		}
		send(t, home, subject, string(body))
	}
}

// acknowledgedOf returns the actors and notes of acknowledgements, by key.
func acknowledgedOf(t *testing.T, home string) map[string]string {
	t.Helper()
	var page web.Page[web.Alert]
	callAPI(t, home, "GET", "/alerts?open=true&limit=500", "", "", &page)
	notes := map[string]string{}
	for _, a := range page.Items {
		if a.Acknowledged != nil {
			notes[a.Key] = a.Acknowledged.Note
		}
	}
	return notes
}

// TestInbox checks that open alerts are grouped, that one, several and a whole group can be acknowledged, and that
// this can be undone.
func TestInbox(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, paymentRule)
	publishEvents(t, home, "orders.created", "1", "2", hostileKey)
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprint("p-", i))
	}
	publishEvents(t, home, "payments.asked", many...)
	waitForOpenAlerts(t, home, 23)
	b := open(t, home, 1400, 900)
	b.visit("/alerts")
	b.waitForText("23 open: 20 errors, 3 warnings", "payment-missing", "20 alerts, oldest", "and 5 more", "order-unshipped")
	b.checkAccessibility("inbox")
	b.screenshot("inbox")
	if first := evaluate[string](b, `document.querySelector(".group h2").innerText`); first != "payment-missing" {
		t.Errorf("the first group is %s, and payment-missing is the loudest", first)
	}

	// Several.
	for _, key := range []string{"1", "2"} {
		b.do(chromedp.Click(chromedp.CSS(fmt.Sprintf(`input[aria-label="Select order %s (7) is not shipped"]`, key))))
	}
	b.do(chromedp.SendKeys(chromedp.CSS(".tools input[name=note]"), "I am on it\r")) // Enter acknowledges the chosen, not a group
	b.waitForText("2 alerts were acknowledged.", "2 acknowledged", "until resolved")
	if got := fmt.Sprint(acknowledgedOf(t, home)); got != "map[1:I am on it 2:I am on it]" {
		t.Errorf("acknowledged are %s", got)
	}

	// A group, including its hidden alerts but not newer ones.
	b.visit("/alerts?by=entity")
	b.do(chromedp.Click(chromedp.CSS("[data-live]"))) // pause live updates
	publishEvents(t, home, "payments.asked", "unseen")
	waitForOpenAlerts(t, home, 24)
	b.click(`button[aria-label="Acknowledge all 20 of payment"]`)
	b.waitForText("20 alerts were acknowledged.")
	if got := acknowledgedOf(t, home); len(got) != 22 || got["unseen"] != "" {
		t.Errorf("acknowledged are %v", got)
	}
	b.checkAccessibility("inbox of acknowledged alerts")
	b.screenshot("inbox-acknowledged")

	// Undo, with the names of alerts that ended meanwhile.
	b.visit("/alerts?rule=order-unshipped")
	for _, key := range []string{"1", "2"} {
		b.do(chromedp.Click(chromedp.CSS(fmt.Sprintf(`tr.known input[aria-label="Select order %s (7) is not shipped"]`, key))))
	}
	callAPI(t, home, "DELETE", "/jobs/order-unshipped/2", "", "", nil)
	evaluate[any](b, `document.querySelectorAll("tr.known").length`)
	b.click("button[value=unack]")
	b.waitForText("Some actions failed", "1 alert was unacknowledged.", "1 alert could not be unacknowledged", "order 2 (7) is not shipped")
	if got := acknowledgedOf(t, home); len(got) != 20 {
		t.Errorf("acknowledged are %v", got)
	}

	// All of a filter, but not of alerts newer than the page.
	b.visit("/alerts?entity=payment")
	b.do(chromedp.Click(chromedp.CSS("[data-live]")))
	b.waitForText("Remove all 20 acknowledgements")
	evaluate[any](b, "window.scrollTo(0, 0)") // the bar of the inbox stays in view and would cover the group
	b.checkAccessibility("inbox with the acknowledgements of a filter")
	b.screenshot("inbox-unacknowledge")
	publishEvents(t, home, "payments.asked", "newest")
	for _, a := range waitForOpenAlerts(t, home, 24) {
		if a.Key == "newest" {
			callAPI(t, home, "POST", "/alerts/"+a.ID.String()+"/ack", "application/json", `{"note": "later"}`, nil)
		}
	}
	b.click("button[value=unack-all]")
	b.waitForText("20 alerts were unacknowledged.")
	if got := fmt.Sprint(acknowledgedOf(t, home)); got != "map[newest:later]" {
		t.Errorf("acknowledged are %s", got)
	}

	// By a label, in dark mode and in a narrow window.
	b.setDarkMode(true)
	b.visit("/alerts?by=site")
	b.waitForText("<b>⟨U+202E⟩north", "no site")
	b.screenshot("inbox-dark")
	narrow := open(t, home, 400, 800)
	narrow.visit("/alerts")
	narrow.waitForText("open: ")
	narrow.screenshot("inbox-narrow")
	for _, at := range []string{"/alerts", "/alerts/all", "/mutes"} {
		narrow.visit(at)
		if wide := evaluate[int](narrow, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
			t.Errorf("%s is %d px too wide for 400 px", at, wide)
		}
	}
}

// TestSnoozeWithoutEffect checks that the result of a snooze counts the jobs whose next check is later in any case, for
// chosen jobs, for a group of alerts and in the API.
func TestSnoozeWithoutEffect(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, paymentRule)
	publishEvents(t, home, "payments.asked", "p-1", "p-2")
	open := waitForOpenAlerts(t, home, 2)
	group := url.Values{"by": {"rule"}, "snooze": {"payment-missing"}, "seen": {open[0].ID.String()}, "back": {"/alerts"}}
	if status, page := requestPage(t, "POST", home+"/alerts", group.Encode()); status != 200 || !strings.Contains(page, "0 jobs were snoozed; 2 unchanged, as their next checks are later.") {
		t.Errorf("a group: %d %s", status, page)
	}
	if _, page := requestPage(t, "GET", home+"/alerts?severity=error", ""); !strings.Contains(page, `href="/mutes?rule=payment-missing&amp;severity=error#new"`) {
		t.Errorf("the mute of a group lacks the filter of the page: %s", page)
	}
	if _, page := requestPage(t, "GET", home+"/alerts", ""); strings.Contains(page, "snoozed until") {
		t.Errorf("a snooze without effect is marked: %s", page)
	}
	// A snooze of one job beyond its next check has an effect; a shorter one replaces it.
	callAPI(t, home, "POST", "/jobs/payment-missing/p-1/snooze", "application/json", `{"for": "6h"}`, nil)
	var did web.SnoozeAllResult
	callAPI(t, home, "POST", "/alerts/snooze", "application/json", `{"match": {"rule": "payment-missing"}, "for": "1h"}`, &did)
	if did.Snoozed != 2 || did.Ineffective != 1 {
		t.Errorf("in the API: %+v", did)
	}
	jobs := url.Values{"do": {"snooze"}, "for": {"2h"}, "job": {"payment-missing/p-1", "payment-missing/p-2"}, "back": {"/jobs"}}
	if status, page := requestPage(t, "POST", home+"/jobs", jobs.Encode()); status != 200 || !strings.Contains(page, "1 job was snoozed; 1 unchanged, as its next check is later.") {
		t.Errorf("jobs: %d %s", status, page)
	}
}

// TestAlertPage checks that the page of an alert has its job's story, the future steps, and the audited actions.
func TestAlertPage(t *testing.T) {
	t.Parallel()
	home := serve(t, paymentRule)
	publishEvents(t, home, "payments.asked", "1")
	a := waitForOpenAlerts(t, home, 1)[0]
	b := open(t, home, 1400, 900)
	b.visit("/alerts/" + a.ID.String())
	b.waitForText("job started", "next check", "very-late", "every 1d, 3 times", "Stream of alerts")
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=note]"), "<i>looking"))
	b.click("button[value=ack]")
	b.waitForText("Acknowledged by", "<i>looking", "acknowledged by loopback", "further steps are suppressed by the acknowledgement")
	b.checkAccessibility("an alert")
	b.screenshot("alert")
	callAPI(t, home, "DELETE", "/jobs/payment-missing/1", "", "", nil)
	b.visit("/alerts/" + a.ID.String())
	b.waitForText("cancelled by loopback")
	for _, gone := range []string{"next check", "very-late", "Remove acknowledgement"} {
		if strings.Contains(b.text(), gone) {
			t.Errorf("the wait is over, and the page shows %q:\n%s", gone, b.text())
		}
	}
}

// TestStepsAhead checks that the page of an alert lists the steps that an acknowledgement and a snooze leave, the next one
// with its time.
func TestStepsAhead(t *testing.T) {
	t.Parallel()
	home := serve(t, paymentRule)
	publishEvents(t, home, "payments.asked", "1")
	at := "/alerts/" + waitForOpenAlerts(t, home, 1)[0].ID.String()
	const suppressed = "further steps are suppressed by the acknowledgement"
	check := func(what string, in time.Duration, wanted []string, unwanted ...string) {
		t.Helper()
		_, page := requestPage(t, "GET", home+at, "")
		for _, text := range wanted {
			if !strings.Contains(page, text) {
				t.Errorf("%s: the page lacks %q", what, text)
			}
		}
		for _, text := range unwanted {
			if strings.Contains(page, text) {
				t.Errorf("%s: the page has %q", what, text)
			}
		}
		var j web.Job
		callAPI(t, home, "GET", "/jobs/payment-missing/1", "", "", &j)
		if next := j.NextAlert.At; in > 0 && (time.Until(next)-in).Abs() > 10*time.Minute || in > 0 && !strings.Contains(page, next.UTC().Format(time.RFC3339)) {
			t.Errorf("%s: the next step is at %s, or the page lacks its time", what, next)
		}
	}
	const very, reminder = "<b>very-late</b>", "<b>reminder</b>"
	check("at first", 4*time.Hour, []string{very, reminder}, suppressed, "after 4h", "Snoozed")
	ack := func(body string) { callAPI(t, home, "POST", at+"/ack", "application/json", body, nil) }
	ack(`{"for": "6h"}`)
	check("for 6 hours", 6*time.Hour, []string{suppressed, very, reminder})
	ack(`{}`)
	check("until resolved", 0, []string{suppressed, "until resolved"}, very, reminder)
	callAPI(t, home, "DELETE", at+"/ack", "", "", nil)
	callAPI(t, home, "POST", "/jobs/payment-missing/1/snooze", "application/json", `{"for": "30h"}`, nil)
	check("snoozed", 0, []string{"Snoozed until", reminder, "every 1d, 3 times"}, suppressed, very)
}

// TestSuppressedSteps checks that the page of an alert lists a step that an acknowledgement suppressed, with the time of the
// step and the actor, while the job is pending and after its end.
func TestSuppressedSteps(t *testing.T) {
	t.Parallel()
	home := serve(t, `name: payment-missing
entity: payment
trigger: {event: payments.asked, key: event.id}
resolve: {event: payments.made, key: event.id}
escalate:
  - {after: 1s, step: late, severity: error, text: "payment {{key}} is missing"}
  - {after: 1m, step: very-late, severity: critical}
  - {after: 3m, step: later-still, severity: critical}
slot: 1s
`)
	since := time.Now().Add(-50 * time.Second).UTC().Truncate(time.Millisecond)
	callAPI(t, home, "POST", "/jobs", "application/json", fmt.Sprintf(`{"rule": "payment-missing", "key": "1/a", "since": %q}`, since.Format(time.RFC3339Nano)), nil)
	a := waitForOpenAlerts(t, home, 1)[0]
	callAPI(t, home, "POST", "/alerts/"+a.ID.String()+"/ack", "application/json", `{}`, nil)
	line := func(of web.Alert) string {
		_, page := requestPage(t, "GET", home+"/alerts/"+of.ID.String(), "")
		for text := range strings.SplitSeq(page, "\n") {
			if strings.Contains(text, "suppressed: acknowledged by loopback") {
				return text
			}
		}
		return ""
	}
	var got string
	for deadline := time.Now().Add(within); got == "" && time.Now().Before(deadline); pausePoll(t.Context()) {
		got = line(a)
	}
	due := since.Add(time.Minute).Truncate(time.Second) // its slot is this second or the next one
	if !strings.Contains(got, "<b><bdi>very-late</bdi></b>") || !strings.Contains(got, due.Format(time.RFC3339)) && !strings.Contains(got, due.Add(time.Second).Format(time.RFC3339)) {
		t.Errorf("step very-late, due at %s: %q", due, got)
	}
	b := open(t, home, 1400, 900)
	b.visit("/alerts/" + a.ID.String())
	b.waitForText("very-late, suppressed: acknowledged by loopback")
	b.checkAccessibility("an alert with a suppressed step")
	b.screenshot("suppressed-step")
	callAPI(t, home, "DELETE", "/jobs/payment-missing?key="+url.QueryEscape("1/a"), "", "", nil)
	if ended := line(a); ended != got || strings.Contains(ended, "later-still") {
		t.Errorf("the job has ended: %q, want %q", ended, got)
	}
}

// TestAlertLogLinks checks that links in notifications lead to the narrowed alert log.
func TestAlertLogLinks(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	publishEvents(t, home, "orders.created", "1")
	waitForOpenAlerts(t, home, 1)
	b := open(t, home, 1200, 900)
	for query, want := range map[string]string{
		"rule=order-unshipped&status=firing&decided_after=" + url.QueryEscape(time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)): "order 1 (7) is not shipped",
		"rule=order-unshipped&status=resolved": "No alerts match these filters.",
		"decided_before=2020-01-01T00:00:00Z":  "No alerts match these filters.",
	} {
		b.visit("/alerts?" + query)
		b.waitForText("Alerts all, newest first", want)
	}
	b.visit("/alerts/all?within=1h")
	b.waitForText("order 1 (7) is not shipped")
	b.checkAccessibility("what was said")
	b.screenshot("said")
}
