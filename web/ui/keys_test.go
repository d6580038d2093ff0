package ui_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"deadman/web"
)

// TestKeys checks the keys of lists: j and k move, a acknowledges and s snoozes the row, or the selected rows, and ?
// shows the keys. In a field they are text.
func TestKeys(t *testing.T) {
	t.Parallel()
	home := serve(t, strings.Replace(orders, "after: 2h", "after: 30m", 1)) // a snooze of 1 h has an effect
	publishEvents(t, home, "orders.created", "1", "2", "3")
	waitForOpenAlerts(t, home, 3)
	acknowledged := func() (keys []string) {
		var all web.Page[web.Job]
		callAPI(t, home, "GET", "/jobs", "", "", &all)
		for _, j := range all.Items {
			if j.Acknowledged != nil {
				keys = append(keys, j.Key)
			}
		}
		return keys
	}
	b := open(t, home, 1200, 900)
	b.visit("/alerts")
	row := func() string {
		return evaluate[string](b, `document.activeElement.closest("tr")?.querySelector("a.key").textContent ?? ""`)
	}
	shown := evaluate[[]string](b, `[...document.querySelectorAll("#inbox tr td.wide a.key")].map((link) => link.textContent)`)
	for i, step := range []struct {
		key  string
		want int
	}{{"j", 0}, {"j", 1}, {"j", 2}, {"j", 2}, {"k", 1}} {
		b.do(chromedp.KeyEvent(step.key))
		if got := row(); got != shown[step.want] {
			t.Fatalf("after key %d, %s, the row is %q, want %q", i, step.key, got, shown[step.want])
		}
	}
	b.waitForNavigation(chromedp.KeyEvent("a"))
	b.waitForText("1 alert was acknowledged.")
	if got := acknowledged(); fmt.Sprint(got) != "["+strings.TrimPrefix(shown[1], "order ")+"]" {
		t.Errorf("%v are acknowledged, want %s", got, shown[1])
	}
	b.do(chromedp.KeyEvent("j"))
	snoozed := strings.TrimPrefix(row(), "order ")
	b.waitForNavigation(chromedp.KeyEvent("s"))
	b.waitForText("1 job was snoozed.")
	var j web.Job
	if callAPI(t, home, "GET", "/jobs/order-unshipped/"+snoozed, "", "", &j); time.Until(j.SnoozedUntil) < 50*time.Minute {
		t.Errorf("%s is snoozed until %s", snoozed, j.SnoozedUntil)
	}
	for _, page := range []string{"/alerts", "/"} {
		b.visit(page)
		b.waitForText("snoozed until " + evaluate[string](b, `document.querySelector(".tag time")?.textContent ?? "?"`))
		if marked := evaluate[string](b, `[...document.querySelectorAll("tr")].filter((row) => row.innerText.includes("snoozed until")).map((row) => row.querySelector("a.key").textContent).join()`); marked != "order "+snoozed {
			t.Errorf("%s marks %q as snoozed", page, marked)
		}
		b.screenshot("snoozed")
	}

	b.visit("/jobs")
	b.do(chromedp.Click(chromedp.CSS(`input[data-all]`)))
	b.waitForNavigation(chromedp.KeyEvent("a"))
	b.waitForText("2 alerts were acknowledged.")
	if got := acknowledged(); len(got) != 3 {
		t.Errorf("%v are acknowledged", got)
	}

	b.visit("/jobs")
	b.do(chromedp.KeyEvent("?"))
	b.waitForText("snooze the row")
	b.checkAccessibility("keys")
	b.screenshot("keys")
	b.do(chromedp.KeyEvent("\x1b"))
	if open := evaluate[bool](b, `document.getElementById("keys").open`); open {
		t.Error("Esc does not close the help")
	}
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=key]"), "jkas?"))
	if got := evaluate[string](b, `document.querySelector("input[name=key]").value`); got != "jkas?" {
		t.Errorf("the field has %q", got)
	}
}

// TestSuggestions checks that the fields of filters suggest rules, entities and keys, as far as the other fields allow.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, strings.NewReplacer("order-unshipped", "parcel-late", "entity: order", "entity: parcel", "orders.", "parcels.").Replace(orders))
	publishEvents(t, home, "orders.created", "1001", "1002", "2001")
	publishEvents(t, home, "parcels.created", "1003")
	waitForOpenAlerts(t, home, 4)
	for query, want := range map[string]string{
		"field=rule&text=":                           `["order-unshipped","parcel-late"]`,
		"field=rule&text=LATE":                       `["parcel-late"]`,
		"field=entity&text=par":                      `["parcel"]`,
		"field=key&text=10":                          `["1001","1002","1003"]`,
		"field=key&text=10*&rule=order-unshipped":    `["1001","1002"]`,
		"field=key&text=10&entity=parcel":            `["1003"]`,
		"field=key&text=":                            `[]`,
		"field=find&text=order":                      `["order-unshipped"]`,
		"field=find&text=2":                          `["2001"]`,
		"field=key&text=" + strings.Repeat("1", 513): `[]`,
	} {
		if status, got := requestText(t, home+"/suggestions?"+query); status != http.StatusOK || strings.TrimSpace(got) != want {
			t.Errorf("%s: %d %s, want %s", query, status, got, want)
		}
	}
	if status, got := requestPage(t, "GET", home+"/suggestions?"+url.Values{"field": {"x"}}.Encode(), ""); status != http.StatusBadRequest {
		t.Errorf("an unknown field: %d %s", status, got)
	}
	b := open(t, home, 1200, 900)
	b.visit("/jobs")
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=rule]"), "parcel-late"))
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=key]"), "1"))
	for deadline := time.Now().Add(within); ; pausePoll(b.ctx) {
		if got := evaluate[string](b, `[...document.getElementById("suggest-key").options].map((o) => o.value).join()`); got == "1003" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("suggested are %q", got)
		}
	}
	b.checkAccessibility("suggestions")
}

// requestText returns the status and the text of an address.
func requestText(t *testing.T, address string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(all)
}
