package ui_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"deadman/internal/access"
	"deadman/internal/testwait"
	"deadman/web"
)

// TestJobsInvalidFilters checks that an invalid filter is reported, and that blanks around a key belong to it.
func TestJobsInvalidFilters(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	const key = " lead trail "
	callAPI(t, home, "POST", "/jobs", "application/json", text(t, map[string]any{"rule": "order-unshipped", "key": key, "since": time.Now().Add(time.Hour)}), nil)
	for query, want := range map[string]string{
		"due=day&to=2999-01-01T00:00":              "use either Due or From and To, not both",
		"due=overdue&from=2999-01-01T00:00":        "use either Due or From and To, not both",
		"to=tomorrow":                              "is not a UTC time",
		"to=2999-01-01T00:00&due=":                 `id="job-order-unshipped/%20lead%20trail%20"`,
		url.Values{"key": {key}}.Encode():          `id="job-order-unshipped/%20lead%20trail%20"`,
		url.Values{"key": {" lead *"}}.Encode():    `id="job-order-unshipped/%20lead%20trail%20"`,
		url.Values{"key": {"lead trail"}}.Encode(): "No pending checks match these filters.",
	} {
		if status, content := requestPage(t, "GET", home+"/jobs?"+query, ""); status != 200 || !strings.Contains(content, want) {
			t.Errorf("%s: %q is not there: %d %s", query, want, status, content)
		}
	}
}

// TestFailedJobActions checks that a failing action on a job does not stop the others, and is reported with
// name and reason on both the list and the entity's page.
func TestFailedJobActions(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	publishEvents(t, home, "orders.created", "1", "2", "3")
	waitForOpenAlerts(t, home, 3)
	callAPI(t, home, "DELETE", "/jobs/order-unshipped/2", "", "", nil)
	for _, c := range []struct {
		form string
		want []string
	}{
		{"do=check&job=order-unshipped/1&job=order-unshipped/2", []string{"1 job was checked: still pending.", "1 job could not be checked: "}},
		{"do=snooze&for=1h&job=order-unshipped/2&job=order-unshipped/1", []string{"0 jobs were snoozed; 1 unchanged, as its next check is later.", "1 job could not be snoozed: "}},
		{"do=cancel&sure=yes&job=order-unshipped/1&job=order-unshipped/2", []string{"1 job was cancelled.", "1 job could not be cancelled: "}},
		{"do=snooze&for=1h&job=order-unshipped/2&back=" + url.QueryEscape("/entities/order?key=2"), []string{"1 job could not be snoozed: ", `href="/entities/order?key=2"`}},
	} {
		status, content := requestPage(t, "POST", home+"/jobs", c.form)
		for _, want := range append(c.want, "the job has ended; see the history", `<bdi class="key">order-unshipped/2</bdi>`) {
			if status != 200 || strings.Count(content, want) != 1 {
				t.Errorf("%s: %s is not there once: %d %s", c.form, want, status, content)
			}
		}
	}
	var over web.Page[web.EndedJob]
	if callAPI(t, home, "GET", "/history?key=1", "", "", &over); len(over.Items) != 1 || over.Items[0].Reason != "by "+access.Loopback {
		t.Errorf("the history does not name who cancelled it: %+v", over.Items)
	}
	if status, content := requestPage(t, "GET", home+"/entities/order?key=1", ""); status != 200 || !strings.Contains(content, "<bdi>by "+access.Loopback+"</bdi>") {
		t.Errorf("the page does not name who cancelled it: %d %s", status, content)
	}
	var left web.Page[web.Job]
	if callAPI(t, home, "GET", "/jobs", "", "", &left); len(left.Items) != 1 || left.Items[0].Key != "3" {
		t.Errorf("what is waited for is %+v", left.Items)
	}
	if status, content := requestPage(t, "POST", home+"/jobs", "do=snooze&for=nonsense&job=order-unshipped/3"); status != 200 || !strings.Contains(content, "nonsense") {
		t.Errorf("a span that is none: %d %s", status, content)
	}
	if status, content := requestPage(t, "POST", home+"/jobs", "do=snooze&for=1h"); status != 400 || !strings.Contains(content, "No jobs selected.") {
		t.Errorf("nothing chosen: %d %s", status, content)
	}
	// The result of a check is shown on the list and on the entity's page.
	if status, content := requestPage(t, "POST", home+"/jobs", "do=check&job=order-unshipped/3&back=/jobs"); status != 200 || !strings.Contains(content, "1 job was checked: still pending.") {
		t.Errorf("a check: %d %s", status, content)
	}
	if status, content := requestPage(t, "POST", home+"/jobs", "do=check&job=order-unshipped/3&back="+url.QueryEscape("/entities/order?key=3")); status != 200 || !strings.Contains(content, "The job was checked: still pending; next check <time") {
		t.Errorf("a check of an entity: %d %s", status, content)
	}
	for path, known := range map[string]bool{
		"/jobs?rule=nope": false, "/history?rule=nope": false, "/alerts?rule=nope": false, "/alerts/all?rule=nope": false,
		"/jobs?rule=order-unshipped&key=none": true, "/alerts/all?rule=order-unshipped&key=none": true,
	} {
		if status, content := requestPage(t, "GET", home+path, ""); status != 200 || strings.Contains(content, "No rule is named <b><bdi>nope</bdi></b>.") == known {
			t.Errorf("%s: %d, the page does not fit a rule that exists: %t", path, status, known)
		}
	}
	// A complete action redirects back with a message.
	if status, content := requestPage(t, "POST", home+"/jobs", "do=snooze&for=1h&job=order-unshipped/3&back="+url.QueryEscape("/entities/order?key=3")); status != 200 || !strings.Contains(content, "The job is unchanged, as its next check is later: <time ") {
		t.Errorf("done: %d %s", status, content)
	}
	var rests web.Job
	callAPI(t, home, "GET", "/jobs/order-unshipped/3", "", "", &rests)
	if !rests.SnoozeIneffective || rests.NextCheckAt.Sub(rests.SnoozedUntil) < 50*time.Minute {
		t.Errorf("the snooze brought the check forward, or the page does not name the later time: %+v", rests)
	}
	if last := len(rests.Trail) - 1; last < 0 || rests.Trail[last].Kind != "snooze" || rests.Trail[last].By != access.Loopback {
		t.Errorf("the trail does not end with who snoozed it: %+v", rests.Trail)
	}
	if status, content := requestPage(t, "POST", home+"/jobs", "do=snooze&for=1d&job=order-unshipped/3&back="+url.QueryEscape("/entities/order?key=3")); status != 200 || !strings.Contains(content, "The job was snoozed.") {
		t.Errorf("put off: %d %s", status, content)
	}
	if callAPI(t, home, "GET", "/jobs/order-unshipped/3", "", "", &rests); rests.NextCheckAt.Before(rests.SnoozedUntil) {
		t.Errorf("not put off: %+v", rests)
	}
}

// TestPendingChecksAreCounted checks that the list of pending checks has their number, of all rules and of one, and marks the
// jobs that raise no alert because they are acknowledged.
func TestPendingChecksAreCounted(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, paymentRule)
	publishEvents(t, home, "orders.created", "1", "2")
	publishEvents(t, home, "payments.asked", "p-1")
	open := waitForOpenAlerts(t, home, 3)
	callAPI(t, home, "POST", "/alerts/"+open[0].ID.String()+"/ack", "application/json", `{}`, nil)
	for path, want := range map[string]string{
		"/jobs": "<small>3 pending checks, next due first</small>", "/jobs?rule=order-unshipped": "<small>2 pending checks, next due first</small>",
		"/jobs?rule=payment-missing": "<small>1 pending check, next due first</small>", "/jobs?key=1": "<small>next due first</small>",
	} {
		content, deadline := "", time.Now().Add(within)
		for !strings.Contains(content, want) { // the counts are cached
			if time.Now().After(deadline) {
				t.Fatalf("%s has no %q", path, want)
			}
			_, content = requestPage(t, "GET", home+path, "")
			pausePoll(t.Context())
		}
		if n := strings.Count(content, `<td class="text wide"><span class="faint">none, acknowledged`); path == "/jobs" && n != 1 {
			t.Errorf("%d jobs are marked as acknowledged, want 1", n)
		}
	}
}

// TestManualCheckEndsJob checks that a manual check can end a job, and that the page reports it.
func TestManualCheckEndsJob(t *testing.T) {
	t.Parallel()
	home := serve(t, `name: parcel-out
entity: parcel
trigger: {event: parcels.sent, key: event.id}
while: state.status == "OUT"
escalate:
  - {after: 1h, step: late}
`)
	for _, status := range []string{"IN", "OUT"} {
		for _, at := range []string{"a", "b"} {
			send(t, home, "parcels.sent", `{"id": "`+status+at+`", "status": "`+status+`"}`)
		}
	}
	for deadline := time.Now().Add(within); ; pausePoll(t.Context()) {
		var all web.Page[web.Job]
		if callAPI(t, home, "GET", "/jobs", "", "", &all); len(all.Items) == 4 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not all parcels are waited for")
		}
	}
	for form, want := range map[string]string{
		"do=check&job=parcel-out/INa&back=" + url.QueryEscape("/entities/parcel?key=INa"): "The job was checked: ended as cleared.",
		"do=check&job=parcel-out/INb&job=parcel-out/OUTa&job=parcel-out/OUTb&back=/jobs":  "3 jobs were checked: 1 ended, 2 still pending.",
	} {
		if status, content := requestPage(t, "POST", home+"/jobs", form); status != 200 || !strings.Contains(content, want) {
			t.Errorf("%s: it does not contain %q: %d %s", form, want, status, content)
		}
	}
}

// TestTabsOfPendingChecks checks that the list of pending checks has tabs by the time that checks are due, which keep the
// other filters, and that a row of many alerts on the overview counts the snoozed ones.
func TestTabsOfPendingChecks(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, strings.NewReplacer("after: 1s", "after: 3d", "after: 4h", "after: 4d").Replace(paymentRule))
	publishEvents(t, home, "orders.created", "1", "2", "3", "4")
	publishEvents(t, home, "payments.asked", "p-1")
	waitForOpenAlerts(t, home, 4)
	b := open(t, home, 1280, 900)
	b.visit("/jobs")
	b.waitForText("order 1", "payment p-1")
	if tabs := evaluate[string](b, `[...document.querySelectorAll(".tabs a")].map((a) => a.innerText + (a.getAttribute("aria-current") ? "*" : "")).join(", ")`); tabs != "All*, Due, Within 1 hour, Within 1 day" {
		t.Errorf("the tabs are %q", tabs)
	}
	b.visit("/jobs?rule=order-unshipped&from=2026-01-01T00:00")
	b.click(`.tabs a[href="/jobs?due=day&rule=order-unshipped"]`)
	b.visit("/jobs")
	b.click(`.tabs a[href="/jobs?due=day"]`)
	b.waitForText("order 1")
	if text := b.text(); strings.Contains(text, "payment p-1") || strings.Contains(text, "From (UTC)") {
		t.Errorf("the checks of a day are:\n%s", text)
	}
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=key]"), "2\r"))
	testwait.Until(t, "the list has order 2 alone", func() bool { // the link to clear the filters comes before the rows
		text := b.text()
		return strings.Contains(text, "Clear filters") && strings.Contains(text, "order 2") && !strings.Contains(text, "order 1")
	})
	if tab := evaluate[string](b, `document.querySelector(".tabs [aria-current]").innerText`); tab != "Within 1 day" {
		t.Errorf("the filter leaves the tab for %q", tab)
	}
	b.checkAccessibility("the tabs of pending checks")
	b.screenshot("jobs-tabs")

	for _, key := range []string{"1", "2"} {
		callAPI(t, home, "POST", "/jobs/order-unshipped/"+key+"/snooze", "application/json", `{"for": "6h"}`, nil)
	}
	b.visit("/")
	b.waitForText("4 warnings", "2 snoozed")
	b.checkAccessibility("the overview with snoozed alerts")
	b.screenshot("overview-snoozed")
}
