package ui_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"deadman/web"
	"deadman/web/ui"
)

// hostile maps the purpose of an attack to a text that users may enter.
var hostile = map[string]string{
	"run":            `<script>window.broken = 1</script><img src=x onerror="window.broken = 1">`,
	"break out":      "\"'`>&</td></table></main>{{7*7}}",
	"go elsewhere":   "javascript:alert(1)//../..%2f?a=b#c",
	"drive terminal": "\x1b[31mred\x1b[0m\x07\b",
	"turn around":    "\u202egnp.exe\u202c\u2066x\u2069",
	"hide":           "a\u200b\u200c\u200d\ufeff\u00adb",
	"pile up":        "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349\u035a\u032f\u031e\u0320\u034dA\u0301\u0301\u0301",
	"be wide":        strings.Repeat("W", 512),
	"be emoji":       strings.Repeat("👩‍👩‍👧‍👦🏳️‍🌈", 6),
}

// hostileRule has the longest valid name, and copies texts of events into its alerts.
var hostileRule = `name: ` + strings.Repeat("w", 63) + `
description: "<script>window.broken = 1</script> ` + strings.Repeat("D", 300) + `"
entity: order
trigger: {event: hostile.created, key: event.id}
resolve: {event: hostile.shipped, key: event.id}
escalate:
  - {after: 1s, step: primary, severity: critical, text: "{{key}} <script>window.broken = 1</script> {{event.note}}"}
  - {after: 2h, step: escalated, severity: critical}
slot: 1s
labels: {team: "<b onclick=alert(1)>\u202E` + strings.Repeat("L", 200) + `"}
`

// hostileHeartbeat makes the keys of the same events those of heartbeats.
const hostileHeartbeat = "name: hostile-heartbeat\nentity: host\ntrigger: {heartbeat: {event: hostile.created, key: event.id, every: 24h}}\n"

// hostileCalendar is the longest valid name of a calendar.
var hostileCalendar = strings.Repeat("c", 63)

// hostileCalendarText has hostile texts in its comments.
func hostileCalendarText() string {
	text := "zone: America/Argentina/ComodRivadavia\nhours: [\"00:00-01:00\", \"22:00-23:00\"]\n"
	for _, purpose := range []string{"run", "break out", "turn around", "hide", "pile up", "be wide", "be emoji"} {
		text += "# " + hostile[purpose] + "\n"
	}
	return text
}

// writeHostileTexts places hostile texts in every field that pages show. It returns an alert and a dead letter for the pages.
func writeHostileTexts(t *testing.T, home string) (alert web.Alert, letter web.DeadLetter) {
	t.Helper()
	for _, key := range hostile {
		send(t, home, "hostile.created", text(t, map[string]any{"id": key, "note": key, key: []string{key}}))
	}
	send(t, home, "hostile.created", text(t, map[string]any{"no": hostile["run"] + hostile["turn around"], "wide": hostile["be wide"]}))
	var raised web.Page[web.Alert]
	for deadline := time.Now().Add(within); len(raised.Items) < len(hostile); {
		if time.Now().After(deadline) {
			t.Fatalf("of %d alerts there are %d", len(hostile), len(raised.Items))
		}
		pausePoll(t.Context())
		callAPI(t, home, "GET", "/alerts?limit=100", "", "", &raised)
	}
	for _, a := range raised.Items {
		callAPI(t, home, "POST", "/alerts/"+a.ID.String()+"/ack", "application/json", text(t, map[string]any{"note": a.Key[:min(len(a.Key), 400)], "for": "1h"}), nil)
		if a.Key == hostile["run"] {
			alert = a
		}
	}
	for _, end := range []string{"", "# 2\n"} {
		callAPI(t, home, "PUT", "/calendars/"+hostileCalendar, "application/yaml", hostileCalendarText()+end, nil)
	}
	callAPI(t, home, "PUT", "/rules/hostile-office", "application/yaml", "name: hostile-office\nentity: order\ntrigger: {event: hostile.never, key: event.id}\nescalate: [{after: 1h, of: "+hostileCalendar+", step: only}]\n", nil)
	callAPI(t, home, "POST", "/mutes", "application/json", text(t, map[string]any{
		"match": map[string]any{"rule": "nothing"}, "for": "1h", "reason": hostile["run"] + hostile["turn around"] + hostile["be wide"][:200],
	}), nil)
	callAPI(t, home, "DELETE", "/jobs/"+alert.Rule+"?"+url.Values{"key": {hostile["be emoji"]}}.Encode(), "", "", nil)
	var letters web.Page[web.DeadLetter]
	callAPI(t, home, "GET", "/dead-letters", "", "", &letters)
	if len(letters.Items) == 0 {
		t.Fatal("no event was refused")
	}
	return alert, letters.Items[0]
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// everyPage returns the addresses to test for each route of the UI. A route without addresses fails the test, so that
// every new page is tested with hostile texts.
func everyPage(t *testing.T, alert web.Alert, letter web.DeadLetter) map[string][]string {
	t.Helper()
	entities := make([]string, 0, len(hostile))
	for _, key := range hostile {
		entities = append(entities, "/entities/order?"+url.Values{"key": {key}}.Encode())
	}
	known := map[string][]string{
		"/": {"/"}, "/jobs": {"/jobs", "/jobs?" + url.Values{"key": {hostile["break out"]}}.Encode()}, "/entities/{entity}": entities,
		"/rules": {"/rules"}, "/rules/{name}": {"/rules/" + alert.Rule}, "/rules/{name}/send": {"/rules/" + alert.Rule + "/send"}, "/rules/{name}/versions": {"/rules/" + alert.Rule + "/versions"}, "/rules/{name}/schedules": {"/rules/" + alert.Rule + "/schedules"}, "/rules/{name}/ticks": {"/rules/" + alert.Rule + "/ticks"}, "/rules/{name}/edit": {"/rules/" + alert.Rule + "/edit"}, "/new-rule": {"/new-rule"},
		"/calendars": {"/calendars"}, "/calendars/{name}": {"/calendars/" + hostileCalendar}, "/calendars/{name}/edit": {"/calendars/" + hostileCalendar + "/edit"}, "/new-calendar": {"/new-calendar"},
		"/alerts": {"/alerts"}, "/alerts/all": {"/alerts/all"}, "/alerts/{id}": {"/alerts/" + alert.ID.String()}, "/mutes": {"/mutes"},
		"/heartbeats": {"/heartbeats", "/heartbeats?" + url.Values{"key": {hostile["break out"]}}.Encode()},
		"/history":    {"/history"}, "/dead-letters": {"/dead-letters"}, "/dead-letters/{id}": {fmt.Sprintf("/dead-letters/%d", letter.ID)}, "/health": {"/health"}, "/sessions": {"/sessions"},
		"/find": {"/find?" + url.Values{"q": {hostile["run"] + hostile["turn around"]}}.Encode()},
		"/docs": {"/docs", "/docs?" + url.Values{"q": {hostile["run"] + hostile["turn around"]}}.Encode()}, "/docs/*": {"/docs/reference/calendars"},
	}
	pages, err := ui.New(ui.Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	router := chi.NewRouter()
	pages.Mount(router, http.NotFoundHandler())
	pages.MountManual(router)
	all := make(map[string][]string)
	err = chi.Walk(router, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method != http.MethodGet || route == "/suggestions" || route == "/docs/pictures/*" { // data for fields, and pictures
			return nil
		}
		if all[route] = known[route]; len(all[route]) == 0 {
			return fmt.Errorf("the page %s is not tested with hostile texts; add it to everyPage", route)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// secret matches invisible characters with an effect. Text areas may contain them unescaped.
const secret = `/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/`

// broken is a script that returns the defects of a page.
const broken = `(() => {
  const wrong = [], one = (what, n) => { if (n !== 1) wrong.push(n + " " + what); };
  if (window.broken) wrong.push("a text was run");
  for (const e of document.querySelectorAll("main td.text"))
    if (e.clientWidth > 0 && e.clientWidth < 60 && e.innerText.trim().length > 8) wrong.push("a text in a column of " + e.clientWidth + " px: " + e.innerText.slice(0, 60));
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) wrong.push(wide + " px too wide: " + [...document.querySelectorAll("main *")].filter((e) => !e.closest(".scroll, pre, .cm-editor") && e.getBoundingClientRect().right > innerWidth).slice(0, 3).map((e) => e.outerHTML.slice(0, 90)).join(" | "));
  one("h1", document.querySelectorAll("h1").length);
  one("main", document.querySelectorAll("main").length);
  one("header", document.querySelectorAll("body > header").length);
  one("navigation of pages", document.querySelectorAll("header nav[aria-label]").length);
  if (!/\S.* · deadman$/.test(document.title)) wrong.push("the title is " + document.title);
  if (document.querySelector("body a")?.getAttribute("href") !== "#main") wrong.push("the first link does not skip to the content");
  if (document.querySelector("main script:not([src^='/static/']), main [onerror], main [onclick], main img")) wrong.push("a text became an element");
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walk.nextNode());) if (!n.parentElement.closest("textarea") && ` + secret + `.test(n.data.replace(/\n/g, ""))) { wrong.push("unseen characters in " + JSON.stringify(n.data.slice(0, 60))); break; }
  for (const a of document.querySelectorAll("a[href]")) if (new URL(a.getAttribute("href"), location).origin !== location.origin) wrong.push("a link to " + a.getAttribute("href"));
  return wrong;
})()`

// TestHostileTexts checks that untrusted texts are shown as text on every page, at any width and at twice the font
// size, and that each link leads to a page.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	home := serve(t, hostileRule, hostileHeartbeat)
	alert, letter := writeHostileTexts(t, home)
	all := everyPage(t, alert, letter)
	b, links := open(t, home, 400, 800), make(map[string]string)
	b.visit("/heartbeats")
	b.waitForText(hostile["break out"])
	b.allowedStatus = "404" // of an entity without any remaining data
	for route, addresses := range all {
		for i, path := range addresses {
			for _, width := range []int64{400, 1400} {
				b.resize(width, 900)
				b.visit(path)
				for _, w := range evaluate[[]string](b, broken) {
					t.Errorf("%s (%s) at %d px: %s", route, path[:min(len(path), 60)], width, w)
				}
				b.screenshot(fmt.Sprintf("hostile-%s-%d-%d", url.PathEscape(route), i, width))
			}
			for _, at := range evaluate[[]string](b, `[...document.querySelectorAll("main a[href]")].map((a) => new URL(a.getAttribute("href"), location).href.split("#")[0])`) {
				links[at] = path
			}
		}
		evaluate[any](b, `document.documentElement.style.fontSize = "32px"`)
		if wide := evaluate[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
			t.Errorf("%s is %d px too wide with letters of twice the size", route, wide)
		}
	}
	for _, key := range hostile {
		b.visit("/entities/order?" + url.Values{"key": {key}}.Encode())
		b.waitForText("order")
		if got := evaluate[string](b, `document.querySelector("h1").textContent`); !strings.Contains(got, ui.Visible(key)) {
			t.Errorf("the page of %q begins with %q", key, got)
		}
	}
	for at, from := range links {
		if status, wantText := requestPath(t, at); status >= 400 {
			t.Errorf("%s has a link to %s, which is answered with %d: %s", from, at, status, wantText)
		}
	}
}

// requestPath requests an address and returns the status and the page.
func requestPath(t *testing.T, at string) (status int, page string) {
	t.Helper()
	status, text := requestText(t, at)
	_, page, _ = strings.Cut(text, "<main")
	return status, page
}
