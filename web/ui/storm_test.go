package ui_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/web"
)

// The storm: criticals of one rule, then many newer warnings of eight rules.
const (
	stormRules     = 8
	stormWarnings  = 5000
	stormCriticals = 4
)

// stormRule returns the rule with the number n; rule 0 raises criticals.
func stormRule(n int) string {
	severity := "warning"
	if n == 0 {
		severity = "critical"
	}
	return fmt.Sprintf(`name: storm-%d
entity: order
labels: {team: team-%d}
trigger: {event: storm.%d, key: event.id}
resolve: {event: storm.over, key: event.id}
escalate: [{after: 1s, step: late, severity: %s, text: "order {{key}} is late"}]
slot: 1s
`, n, n%3, n, severity)
}

// TestStorm checks that the pages count all of 5,004 open alerts, show the most severe ones, and acknowledge whole rules.
func TestStorm(t *testing.T) {
	t.Parallel()
	var all []string
	for n := range stormRules + 1 {
		all = append(all, stormRule(n))
	}
	home := serve(t, all...)
	publishStorm(t, home, 0, stormCriticals)
	waitForUnacknowledged(t, home, stormCriticals)
	for n := 1; n <= stormRules; n++ {
		publishStorm(t, home, n, stormWarnings/stormRules)
	}
	waitForUnacknowledged(t, home, stormWarnings+stormCriticals)

	b := open(t, home, 1400, 900)
	b.visit("/")
	b.waitForText("5,004 open: 4 critical, 5,000 warnings", "All systems of deadman operational", "storm-0 4 critical: order storm-0-", "and 3 more", "storm-8 625 warnings")
	b.checkAccessibility("the overview in a storm")
	for _, width := range []int64{400, 1440} {
		b.resize(width, 900)
		b.screenshot(fmt.Sprintf("storm-overview-%d", width))
	}
	checkStormLists(t, b)
	b.visit("/alerts")
	b.waitForText("5,004 open: 4 critical, 5,000 warnings", "storm-8", "625 alerts", "and 617 more", "order storm-0-3 is late", "order storm-1-")
	if first := evaluate[string](b, `document.querySelector(".group h2").innerText`); first != "storm-0" {
		t.Errorf("the first group is %s, and storm-0 has the criticals", first)
	}
	b.checkAccessibility("the inbox in a storm")
	b.screenshot("storm-inbox")
	checkShownCounts(t, b, home, "rule")

	b.click(`button[aria-label="Snooze 1 h: all 625 of storm-3"]`)
	b.waitForText("0 jobs were snoozed; 625 unchanged, as their next checks are later.")
	for rule, want := range map[string]int{"storm-3": 625, "storm-4": 0} {
		if n := auditEntries(t, home, "job.snooze", "job/"+rule+"/*"); n != want {
			t.Errorf("%d jobs of %s were snoozed, want %d", n, rule, want)
		}
	}
	acknowledgeGroup(b, "/alerts", "storm-3")
	b.waitForText("5,004 open: 4 critical, 4,375 warnings, 625 acknowledged", "575 more not shown")
	for _, by := range []string{"rule", "severity", "entity", "team"} {
		b.visit("/alerts?by=" + by)
		b.waitForText("5,004 open: 4 critical, 4,375 warnings, 625 acknowledged", "order storm-0-0 is late")
		checkShownCounts(t, b, home, by)
	}
	acknowledgeGroup(b, "/alerts?by=team", "team-1")
	b.waitForText("5,004 open: 4 critical, 2,500 warnings, 2,500 acknowledged")
	acknowledgeGroup(b, "/alerts?severity=warning&by=severity", "warning")
	b.waitForText("All open alerts that match these filters are acknowledged.")
	b.visit("/alerts")
	b.waitForText("5,004 open: 4 critical, 5,000 acknowledged", "4,950 more not shown")
	b.click(`button[aria-label="Acknowledge all 4 of storm-0"]`)
	b.waitForText("5,004 open: all acknowledged", "All open alerts are acknowledged.")
	if first := evaluate[string](b, `document.querySelector("tr.known .pill").innerText`); first != "critical" {
		t.Errorf("the first acknowledged alert is %s, and storm-0 has the criticals", first)
	}
	b.visit("/")
	b.waitForText("5,004 open: all acknowledged", "storm-0 4 acknowledged: order storm-0-", "storm-8 625 acknowledged")
	if first := evaluate[string](b, `document.querySelector("#alerts + div tbody tr").innerText`); !strings.Contains(first, "storm-0") {
		t.Errorf("the first row is %s, and storm-0 has the criticals", first)
	}
	if colour, plain := evaluate[string](b, `getComputedStyle(document.querySelector("#rule-storm-0 td:nth-child(3) a")).color`), evaluate[string](b, `getComputedStyle(document.querySelector("#rule-storm-0 td:nth-child(2) a")).color`); colour != plain {
		t.Errorf("the acknowledged alerts of a rule are %s, and its pending checks %s", colour, plain)
	}
	if open := openCounts(t, home, ""); open.Unacknowledged != 0 || open.Acknowledged != stormWarnings+stormCriticals {
		t.Errorf("open alerts at the end: %+v", open)
	}
	b.visit("/mutes?severity=warning")
	b.waitForText("Matches 5,000 open alerts and 8 rules.")
	b.visit("/mutes?key=storm-4-*")
	b.waitForText("Matches 625 of the 5,000 newest open alerts and 9 rules.")
}

// checkStormLists checks that the overview has one row for the alerts of a rule, and the list of rules their severity.
func checkStormLists(t *testing.T, b *tab) {
	t.Helper()
	if rows := evaluate[int](b, `document.querySelectorAll("#alerts + .card tbody tr").length`); rows != 8 {
		t.Errorf("the overview has %d rows of alerts, want 8 of 9 rules", rows)
	}
	b.visit("/rules")
	for rule, want := range map[string]string{"storm-0": "loud critical", "storm-8": "loud warning"} {
		if got := evaluate[string](b, `document.querySelector("#rule-`+rule+` a[href^='/alerts']").className`); got != want {
			t.Errorf("the open alerts of %s have the style %q, want %q", rule, got, want)
		}
	}
	b.screenshot("storm-rules")
}

// publishStorm publishes trigger events of a rule.
func publishStorm(t *testing.T, home string, rule, n int) {
	t.Helper()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"rule": "storm-%d", "key": "storm-%d-%d", "event": {"id": "storm-%d-%d"}}`+"\n", rule, rule, i, rule, i)
	}
	callAPI(t, home, "POST", "/jobs/bulk", "application/x-ndjson", lines.String(), nil)
}

// waitForUnacknowledged waits until n alerts are open and not acknowledged.
func waitForUnacknowledged(t *testing.T, home string, n int64) {
	t.Helper()
	for deadline := time.Now().Add(within); ; pausePoll(t.Context()) {
		open := openCounts(t, home, "")
		if open.Unacknowledged == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d alerts are open, want %d", open.Unacknowledged, n)
		}
	}
}

// openCounts returns the counts of the open alerts that a query selects.
func openCounts(t *testing.T, home, query string) web.OpenAlertCounts {
	t.Helper()
	var groups web.AlertGroups
	callAPI(t, home, "GET", "/alerts/groups?"+query, "", "", &groups)
	return groups.Total
}

// checkShownCounts compares the number of alerts that each group of the inbox shows with the pages of the list of open
// alerts.
func checkShownCounts(t *testing.T, b *tab, home, by string) {
	t.Helper()
	want := make(map[string]string)
	counts := make(map[string]int)
	query := url.Values{"open": {"true"}, "acknowledged": {"false"}, "limit": {"500"}}
	for {
		var page web.Page[web.Alert]
		callAPI(t, home, "GET", "/alerts?"+query.Encode(), "", "", &page)
		for _, a := range page.Items {
			counts[a.Record().Field(by)]++
		}
		if page.Next == "" {
			break
		}
		query.Set("cursor", page.Next)
	}
	for value, n := range counts {
		want[value] = strconv.Itoa(n)
	}
	shown := make(map[string]string)
	text := evaluate[string](b, `JSON.stringify(Object.fromEntries([...document.querySelectorAll(".group")].map((g) =>
		[g.querySelector("h2").innerText, g.querySelector(".meta").innerText.split(" ")[0].replaceAll(",", "")])))`)
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("alerts by %s (-listed +shown):\n%s", by, diff)
	}
}

// auditEntries returns the number of audit entries of an action on objects.
func auditEntries(t *testing.T, home, action, object string) (n int) {
	t.Helper()
	for cursor, more := "", true; more; more = cursor != "" {
		var page web.Page[json.RawMessage]
		callAPI(t, home, "GET", "/audit?limit=500&action="+action+"&object="+url.QueryEscape(object)+"&cursor="+url.QueryEscape(cursor), "", "", &page)
		n, cursor = n+len(page.Items), page.Next
	}
	return n
}

// acknowledgeGroup acknowledges all alerts of a group, and again if the time of a request is over before, as on a busy
// machine.
func acknowledgeGroup(b *tab, path, group string) {
	b.Helper()
	for again := true; again; {
		b.visit(path)
		b.click(`button[aria-label^="Acknowledge all"][aria-label$=" of ` + group + `"]`)
		b.waitForText("alerts were acknowledged.")
		again = strings.Contains(b.text(), "repeat it for the others")
	}
}
