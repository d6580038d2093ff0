package ui_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"deadman/web"
)

// officeHours is a calendar with a night shift from Friday to Saturday.
const officeHours = `# head office
zone: Europe/Berlin
hours:
  mon-thu: ["08:00-12:00", "13:00-17:30"]
  fri: "22:00-06:00"
holidays: ["12-25"]
`

// officeRule uses the calendar office.
const officeRule = "name: ticket-unanswered\nentity: ticket\ntrigger: {event: tickets.opened, key: event.id}\nescalate: [{after: 4h, of: office, step: lead}]\n"

// setText replaces the text of the form.
func (b *tab) setText(text string) {
	b.Helper()
	evaluate[any](b, fmt.Sprintf(`document.getElementById("text").value = %q; document.getElementById("text").dispatchEvent(new Event("input", {bubbles: true})); 0`, text))
}

// TestCalendars creates, changes and deletes a calendar on the pages. A refused text returns to the form with its errors, and
// a newer version is not overwritten unseen.
func TestCalendars(t *testing.T) {
	t.Parallel()
	home := serve(t)
	b := open(t, home, 1400, 900)
	b.visit("/rules")
	b.click(`nav.tabs a[href="/calendars"]`)
	b.waitForText("No calendars yet.")
	b.click(`a[href="/new-calendar"]`)
	b.do(chromedp.SendKeys(chromedp.CSS("#name"), "office"))
	b.setText(strings.Replace(officeHours, "13:00-17:30", "13:00-25:30", 1))
	b.waitForText("Preview nothing is saved", "1 error:", "line 4", "25:30") // before it is saved
	b.checkAccessibility("a calendar with an error")
	for _, width := range []int64{400, 1440} {
		b.resize(width, 900)
		b.screenshot(fmt.Sprintf("calendar-error-%d", width))
	}
	b.setText(officeHours)
	b.waitForText("Thursday\t08:00-12:00 13:00-17:30", "Next holidays: ")
	b.screenshot("calendar-preview")
	b.setText(strings.Replace(officeHours, "13:00-17:30", "13:00-25:30", 1))
	b.allowedStatus = "4"
	b.click("button.main")
	b.waitForText("The calendar was not saved:", "line 4", "25:30")
	b.screenshot("calendar-refused")
	b.checkAccessibility("a refused calendar")
	b.do(chromedp.Click(chromedp.CSS("a[data-line]")))
	const selected = `(() => { const f = document.activeElement; return f.value.slice(f.selectionStart, f.selectionEnd); })()`
	if got := evaluate[string](b, selected); got != `"13:00-25:30"]` {
		t.Errorf("the link to the error selects %q", got)
	}
	b.setText(officeHours)
	b.click("button.main")
	b.waitForText("Calendar saved.", "version 1", "Thursday\t08:00-12:00 13:00-17:30", "Saturday\tfrom the day before", "Sunday\tclosed", "No rule uses this calendar.")
	if got := evaluate[string](b, `[...document.querySelectorAll(".week tbody tr")].map((r) => [...r.querySelectorAll(".open")].map((s) => s.getAttribute("x") + "+" + s.getAttribute("width")).join()).join("|")`); got != "480+240,780+270|480+240,780+270|480+240,780+270|480+240,780+270|1320+120|0+360|" {
		t.Errorf("the drawn week is %s", got)
	}

	// A version that another user saves meanwhile is shown, and replaced by the next save.
	b.click(`a[href$="/edit"]`)
	b.setText("zone: Berlin\n")
	b.click("button.main")
	b.waitForText("The calendar was not saved:", "version 1")
	callAPI(t, home, "PUT", "/calendars/office", "application/yaml", officeHours+"# theirs\n", nil)
	b.setText(officeHours + "# mine\n")
	b.click("button.main")
	b.waitForText("Version 2 was saved while you were editing, by loopback.", "# theirs")
	b.checkAccessibility("a newer calendar")
	b.screenshot("calendar-overtaken")
	b.click("button.main")
	b.waitForText("Calendar saved.", "version 3", "# mine")
	testCalendarDeletion(t, b, home)
}

// testCalendarDeletion checks that a calendar is deleted only while no rule uses it.
func testCalendarDeletion(t *testing.T, b *tab, home string) {
	t.Helper()
	b.click("form.row button")
	b.waitForText("Delete calendar office?")
	b.checkAccessibility("deleting a calendar")
	callAPI(t, home, "PUT", "/rules/ticket-unanswered", "application/yaml", officeRule, nil)
	b.click("button.grave")
	b.waitForText("The calendar was not deleted", "ticket-unanswered")
	b.screenshot("calendar-not-deleted")
	b.visit("/calendars/office")
	b.waitForText("Rules use this calendar, so it cannot be deleted.")
	for _, path := range []string{"/calendars", "/calendars/office"} {
		b.visit(path)
		b.click(`main a[href="/rules/ticket-unanswered"]`)
		b.waitForText("tickets.opened")
	}
	callAPI(t, home, "DELETE", "/rules/ticket-unanswered", "", "", nil)
	b.visit("/calendars/office")
	b.click("form.row button")
	b.click("button.grave")
	b.waitForText("Calendar deleted.", "No calendars yet.")
	b.visit("/calendars/office")
	b.waitForText("No calendar office")
}

// TestCalendarsOfToken checks that a token with a prefix sees, checks and saves its own calendars, uses those of no tenant,
// and sees no others.
func TestCalendarsOfToken(t *testing.T) {
	t.Parallel()
	home, secret := runWithLogin(t)
	admin := map[string]string{"Authorization": "Bearer " + secret}
	token := func(name string) (made struct{ Secret string }) {
		callAs(t, home, "POST", "/tokens", `{"name": "`+name+`", "scopes": ["rules"], "prefix": "`+name+`-*", "subjects": ["`+name+`.>"]}`, admin, &made)
		return made
	}
	acme, zenith := token("acme"), token("zenith")
	var done any
	for name, secret := range map[string]string{"office": secret, "zenith-office": zenith.Secret} {
		callAs(t, home, "PUT", "/calendars/"+name, officeHours, map[string]string{"Authorization": "Bearer " + secret, "Content-Type": "application/yaml"}, &done)
	}

	b := open(t, home, 1400, 900)
	b.visit("/login?token=" + acme.Secret)
	b.click(".login button")
	b.visit("/calendars")
	b.waitForText("office", "Europe/Berlin")
	if text := b.text(); strings.Contains(text, "zenith") {
		t.Errorf("the list has a calendar of another prefix:\n%s", text)
	}
	b.allowedStatus = "4"
	b.visit("/calendars/zenith-office")
	b.waitForText("No calendar zenith-office")
	b.visit("/new-calendar")
	b.setText("zone: Berlin\n")
	b.waitForText("1 error:", "Berlin")
	b.setText(officeHours)
	b.waitForText("Saturday\tfrom the day before")
	b.do(chromedp.SendKeys(chromedp.CSS("#name"), "acme-office"))
	b.click("button.main")
	b.waitForText("Calendar saved.", "acme-office", "version 1")
	b.screenshot("calendar-tenant")
	b.visit("/calendars/office/edit")
	b.setText("zone: UTC\n")
	b.waitForText(`which do not include "office"`)
	b.click("button.main")
	b.waitForText("The calendar was not saved:")
	b.checkAccessibility("a calendar that another owns")
}

// TestCalendarPages checks the pages of calendars, of the database and of a file, in light and dark at both widths. A calendar of
// a file is read-only.
func TestCalendarPages(t *testing.T) {
	t.Parallel()
	c := config(t.TempDir())
	c.Calendars = filepath.Join(t.TempDir(), "calendars.yaml")
	if err := os.WriteFile(c.Calendars, []byte("calendars:\n  shop: {zone: Asia/Tokyo, days: tue-sun, hours: \"10:00-19:00\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	home, _ := run(t, c)
	callAPI(t, home, "PUT", "/calendars/office", "application/yaml", officeHours, nil)
	callAPI(t, home, "PUT", "/rules/ticket-unanswered", "application/yaml", officeRule, nil)
	for _, width := range []int64{1440, 400} {
		b := open(t, home, width, 900)
		for _, dark := range []bool{false, true} {
			b.setDarkMode(dark)
			for _, path := range []string{"/calendars", "/calendars/office", "/calendars/office/edit", "/calendars/shop", "/calendars/shop/edit", "/new-calendar"} {
				b.visit(path)
				name := fmt.Sprintf("calendars-%s-%d-%v", url.PathEscape(path), width, dark)
				b.screenshot(name)
				b.checkAccessibility(name)
				if wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
					t.Errorf("%s is %d px too wide", name, wide)
				}
			}
		}
	}
	for _, path := range []string{"/calendars/shop", "/calendars/shop/edit"} {
		_, content := requestPage(t, "GET", home+path, "")
		if !strings.Contains(content, "This calendar is read-only") || strings.Contains(content, "<button class=\"main\">Save") || strings.Contains(content, "Delete…") {
			t.Errorf("%s: %s", path, content)
		}
	}
	if status, content := requestPage(t, "POST", home+"/calendars/shop/edit", url.Values{"text": {"zone: UTC"}, "version": {"1"}}.Encode()); status < 400 || !strings.Contains(content, "The calendar was not saved") {
		t.Errorf("%d %s", status, content)
	}
	var all web.Page[web.Calendar]
	if callAPI(t, home, "GET", "/calendars", "", "", &all); len(all.Items) != 2 || all.Items[1].Zone != "Asia/Tokyo" {
		t.Errorf("%+v", all.Items)
	}
}
