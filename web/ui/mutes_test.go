package ui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"deadman/web"
)

// TestMutes checks that muting a group fills in its field, that a refused mute returns with its errors, that muted
// alerts are marked, and that a mute can be ended.
func TestMutes(t *testing.T) {
	t.Parallel()
	home := serve(t, paymentRule)
	publishEvents(t, home, "payments.asked", "1")
	waitForOpenAlerts(t, home, 1)
	b := open(t, home, 1400, 900)
	b.visit("/mutes")
	b.waitForText("No active mutes.")
	b.visit("/alerts?by=site")
	b.click(`a[aria-label^="Mute site"]`)
	b.waitForText("New mute")
	b.checkAccessibility("mute something")
	b.screenshot("mute")
	if got := evaluate[string](b, `document.querySelector("[name=labels]").value`); got != "site=<b>\u202enorth" {
		t.Errorf("the label that is filled in is %q", got)
	}

	// Without a reason, or with too many labels, the mute is refused and the form keeps its values.
	evaluate[any](b, `document.querySelector("[name=reason]").required = false; 0`)
	b.do(chromedp.SendKeys(chromedp.CSS("[name=labels]"), strings.Repeat("\n", 1)+strings.Join(strings.Split("abcdefghijklmnopqrstu", ""), "\n")))
	b.do(chromedp.SendKeys(chromedp.CSS("[name=reason]"), "<script>the belt"))
	b.allowedStatus = "422"
	b.click("button[value=make]")
	b.waitForText("The mute was not created:", "the limit is 20")
	b.checkAccessibility("a mute that can't be")
	evaluate[any](b, `document.querySelector("[name=labels]").value = document.querySelector("[name=labels]").value.split("\n").find((l) => l.includes("site=")).replace(/^[a-z](?=site=)/, ""); 0`)
	b.click("button[value=make]")
	b.waitForText("1 mute was created.", "In effect", "site: <b>⟨U+202E⟩north", "<script>the belt", "by loopback")
	b.checkAccessibility("mutes")
	b.screenshot("mutes")

	b.visit("/")
	b.waitForText("A mute is in effect")
	if !evaluate[bool](b, `document.querySelector("#alerts + .card a.tag[href='/mutes#mute-1']") !== null`) {
		t.Error("the overview does not show that the alert is muted")
	}
	b.checkAccessibility("an overview with a mute")
	b.visit("/alerts")
	b.waitForText("1 alert, oldest", "1 muted")
	b.click("a.tag")
	b.waitForText("<script>the belt")
	b.click(`button[aria-label="End mute 1"]`)
	b.waitForText("1 mute was ended.", "No active mutes.", "Past mutes")
	var page web.Page[web.Mute]
	if callAPI(t, home, "GET", "/mutes", "", "", &page); len(page.Items) != 1 || page.Items[0].EndedBy != "loopback" {
		t.Errorf("%+v", page.Items)
	}
	if callAPI(t, home, "GET", "/mutes?active=true", "", "", &page); len(page.Items) != 0 {
		t.Errorf("active: %+v", page.Items)
	}
	if _, content := requestPage(t, "GET", home+"/", ""); strings.Contains(content, "mute is in effect") {
		t.Error("the overview has a mute that ended")
	}
	b.visit("/alerts")
	b.waitForText("1 alert, oldest")
	if strings.Contains(b.text(), "muted") {
		t.Error("the mute has ended, and the alert is shown as muted")
	}
}

// TestMuteOfWildcardValue checks that muting a group whose value has a * warns of the wider match, with the number of alerts,
// before the form is sent.
func TestMuteOfWildcardValue(t *testing.T) {
	t.Parallel()
	home := serve(t, teamRule("one", "a*"), teamRule("two", "abc"), teamRule("three", "b"))
	publishEvents(t, home, "orders.created", "1")
	waitForOpenAlerts(t, home, 3)
	for _, c := range []struct{ query, wantText string }{
		{"label.team=a*", "Matches <b>2 open alerts</b> and 2 rules. The <code>*</code> in <bdi>team: a*</bdi> matches any text."},
		{"label.team=abc", "Matches <b>1 open alert</b> and 1 rule.</p>"},
		{"label.team=none", "Matches no open alerts and no rules.</p>"},
		{"label.taem=b", "Warning: <bdi>neither a rule nor an open alert has the label taem; did you mean team?</bdi>."},
	} {
		if _, content := requestPage(t, "GET", home+"/mutes?"+c.query, ""); !strings.Contains(content, c.wantText) {
			t.Errorf("%s: %s", c.query, content)
		}
	}
	if _, content := requestPage(t, "POST", home+"/mutes", "do=make&labels=team=a*&for=1h&reason="); !strings.Contains(content, "Matches <b>2 open alerts</b>") {
		t.Errorf("shown again: %s", content)
	}
	requestPage(t, "POST", home+"/mutes", "do=make&labels=team=a*&for=1h&reason=x")
	if _, content := requestPage(t, "GET", home+"/mutes?did=created&done=1&made=1", ""); !strings.Contains(content, "1 mute was created.") || !strings.Contains(content, "Matches <b>2 open alerts</b> and 2 rules.") {
		t.Errorf("after its creation: %s", content)
	}
	if _, content := requestPage(t, "GET", home+"/alerts?by=team", ""); !strings.Contains(content, `href="/mutes?label.team=a%2A#new"`) {
		t.Errorf("the inbox leads elsewhere: %s", content)
	}
}

// TestMuteBeginsLater checks that the form creates a mute with a start in the future, that the page lists it as pending and
// the overview does not have it, and that a start in the past returns to the form.
func TestMuteBeginsLater(t *testing.T) {
	t.Parallel()
	home := serve(t, paymentRule)
	post := func(starts string) string {
		_, content := requestPage(t, "POST", home+"/mutes", "do=make&rule=payment*&for=1h&reason=upgrade&starts="+starts)
		return content
	}
	for starts, want := range map[string]string{"2001-01-01T00:00": "is in the past", "soon": "is not a UTC time such as"} {
		if content := post(starts); !strings.Contains(content, want) || !strings.Contains(content, `name="starts" value="`+starts+`"`) {
			t.Errorf("a start %s: %s", starts, content)
		}
	}
	if content := post(time.Now().Add(3 * time.Hour).UTC().Format("2006-01-02T15:04")); !strings.Contains(content, "and 1 rule.") {
		t.Errorf("the page after the creation has no reach of the new mute: %s", content)
	}
	if _, content := requestPage(t, "GET", home+"/mutes?did=created&done=1&made=1", ""); !strings.Contains(content, "Pending mutes") ||
		!strings.Contains(content, "No active mutes.") || strings.Contains(content, "Past mutes") || !strings.Contains(content, "1 rule.") {
		t.Errorf("the page of mutes: %s", content)
	}
	if _, content := requestPage(t, "GET", home+"/", ""); strings.Contains(content, "mute is in effect") {
		t.Error("the overview has a mute that begins later")
	}
	requestPage(t, "POST", home+"/mutes", "do=end&mute=1")
	if _, content := requestPage(t, "GET", home+"/mutes", ""); strings.Contains(content, "Pending mutes") || !strings.Contains(content, "Past mutes") {
		t.Errorf("after its end: %s", content)
	}
}

// teamRule returns a rule with a team label on its alerts.
func teamRule(name, team string) string {
	return "name: " + name + `
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 1s, step: only, severity: warning}]
slot: 1s
labels: {team: "` + team + `"}
`
}
