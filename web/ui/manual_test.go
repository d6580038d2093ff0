package ui_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestManualLinksResolve follows all links of the documentation from its first page: each leads to a page of the node with the
// linked heading, or to the internet.
func TestManualLinksResolve(t *testing.T) {
	t.Parallel()
	home := serve(t)
	pages := make(map[string]string)
	links := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	var read func(path string)
	read = func(path string) {
		if _, known := pages[path]; known {
			return
		}
		status, content := requestPage(t, "GET", home+path, "")
		pages[path] = content
		if status != 200 {
			t.Errorf("%s: %d", path, status)
			return
		}
		if strings.Contains(path, "/pictures/") || path == "/docs/api" {
			return
		}
		for _, m := range links.FindAllStringSubmatch(content, -1) {
			to, anchor, _ := strings.Cut(html.UnescapeString(m[1]), "#")
			switch {
			case to == "":
				to = path
			case strings.HasPrefix(to, "https://"):
				continue
			case !strings.HasPrefix(to, "/docs"):
				t.Errorf("%s links to %s", path, m[1])
				continue
			}
			read(to)
			if anchor != "" && !strings.Contains(pages[to], `id="`+anchor+`"`) {
				t.Errorf("%s links to %s, and there is no such heading", path, m[1])
			}
		}
	}
	read("/docs")
	if len(pages) < 100 {
		t.Errorf("%d pages were found", len(pages))
	}
	for path, want := range map[string]int{"/docs/none": 404, "/docs/../go.mod": 404, "/docs/docs.go": 404, "/docs/pictures/none.png": 404} {
		if status, _ := requestPage(t, "GET", home+path, ""); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// TestManualPages checks the layout of pages of the documentation, and its search.
func TestManualPages(t *testing.T) {
	t.Parallel()
	home := serve(t)
	for _, width := range []int64{1440, 400} {
		b := open(t, home, width, 900)
		for _, dark := range []bool{false, true} {
			b.setDarkMode(dark)
			for _, path := range []string{"/docs", "/docs/concepts", "/docs/reference/rule-escalation", "/docs/reference/cli", "/docs?q=calendar", "/docs?q=grace"} {
				b.visit(path)
				name := fmt.Sprintf("manual%s-%d-%v", strings.NewReplacer("/", "-", "?", "-").Replace(path), width, dark)
				b.screenshot(name)
				b.checkAccessibility(name)
				if wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
					t.Errorf("%s is %d px too wide", name, wide)
				}
			}
		}
	}
	b := open(t, home, 1200, 900)
	b.visit("/")
	b.click(`nav a[href="/docs"]`)
	b.waitForText("Documentation", "Getting started", "How do I solve a task?")
	b.do(chromedp.SendKeys(chromedp.CSS(".manual [name=q]"), "of and WITHIN"))
	b.click(".manual form button")
	b.waitForText("of and within Escalation")
	b.click(`.manual li a`)
	b.waitForText("With of, only the open time of the calendar counts.")
	if at := evaluate[string](b, "location.pathname + location.hash"); at != "/docs/reference/rule-escalation#of-and-within" {
		t.Errorf("the result leads to %s", at)
	}
	b.visit("/docs?q=xyzzy")
	b.waitForText("No page contains “xyzzy”.")
}

// TestManualSearch searches the text of the documentation: each result shows its page, its heading and an excerpt with the marked
// match, and leads to the heading. Headings come first.
func TestManualSearch(t *testing.T) {
	t.Parallel()
	home := serve(t)
	b := open(t, home, 1200, 900)
	type hit struct{ Title, At, Page, Text, Marks string }
	read := func(query string) []hit {
		t.Helper()
		b.visit("/docs?q=" + url.QueryEscape(query))
		return evaluate[[]hit](b, `[...document.querySelectorAll(".hits li")].map(li => ({
			Title: li.querySelector("a").innerText, At: li.querySelector("a").getAttribute("href"), Page: li.querySelector(".meta")?.innerText ?? "",
			Text: li.querySelector("p")?.innerText ?? "", Marks: [...li.querySelectorAll("mark")].map(m => m.innerText).join(" ")}))`)
	}
	inHeading := func(h hit, word string) bool { return strings.Contains(strings.ToLower(h.Title), word) }
	found := read("grace")
	if len(found) < 5 {
		t.Fatalf("%d results for grace", len(found))
	}
	for i, h := range found {
		if !inHeading(h, "grace") && !strings.Contains(strings.ToLower(h.Page), "grace") && !strings.Contains(strings.ToLower(h.Marks), "grace") {
			t.Errorf("result %d of grace: %+v", i, h)
		}
		if len(h.Text) > 300 {
			t.Errorf("an excerpt of %d bytes", len(h.Text))
		}
	}
	field := slices.IndexFunc(found, func(h hit) bool { return strings.HasPrefix(h.At, "/docs/reference/rule-heartbeats") })
	if field < 0 {
		t.Fatalf("no result leads to the reference of heartbeats: %+v", found)
	}
	headings := 0
	for i, h := range read("calendar") {
		if inHeading(h, "calendar") {
			headings++
		}
		if headings > 0 && headings < i+1 && inHeading(h, "calendar") {
			t.Errorf("the heading %q is result %d, after %d others", h.Title, i, i+1-headings)
		}
	}
	if headings < 3 {
		t.Errorf("%d headings with calendar", headings)
	}
	// Words of a sentence whose heading has none of them, and with the marks of Markdown between them.
	found = read("ATTEMPTS of a message have one message-id")
	if len(found) == 0 || found[0].At != "/docs/reference/notifications#mail" || found[0].Title != "Mail" || found[0].Page != "Notifications" ||
		found[0].Marks != "attempts of a message have one Message-ID" {
		t.Fatalf("%+v", found)
	}
	if found := read("a.*b("); len(found) > 0 {
		t.Errorf("a pattern is text: %+v", found)
	}
	found = read("of and within")
	b.visit(found[0].At)
	if top := evaluate[float64](b, `document.getElementById(location.hash.slice(1)).getBoundingClientRect().top`); top < -5 || top > 900 {
		t.Errorf("%s: the heading is at %.0f px", found[0].At, top)
	}
}
