package ui_test

import (
	"fmt"
	"html"
	"regexp"
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

// TestManualPages checks the layout of pages of the documentation, and the search by title.
func TestManualPages(t *testing.T) {
	t.Parallel()
	home := serve(t)
	for _, width := range []int64{1440, 400} {
		b := open(t, home, width, 900)
		for _, dark := range []bool{false, true} {
			b.setDarkMode(dark)
			for _, path := range []string{"/docs", "/docs/concepts", "/docs/reference/rule-escalation", "/docs/reference/cli", "/docs?q=calendar"} {
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
	b.visit("/docs?q=nothing+of+this")
	b.waitForText("No title contains “nothing of this”.")
}
