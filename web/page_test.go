package web_test

import (
	"bufio"
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/web"
	"deadman/web/ui"
)

func TestPage(t *testing.T) {
	s := newFixture(t)
	if a := requestPath(t, s.Server, "GET", "/", ""); a.StatusCode != 200 || !strings.Contains(a.body, "All systems of deadman operational, no pending checks") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	evil := `<script>alert("x")</script>`
	s.createJob(evil+"/&", time.Hour, `{}`)
	s.alert(evil+"/&", evil+" is late", 90*time.Minute)

	a := requestPath(t, s.Server, "GET", "/", "")
	for _, part := range []string{"&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt; is late", "order-unshipped", "1 of 2"} {
		if !strings.Contains(a.body, part) {
			t.Errorf("there is no %s", part)
		}
	}
	link := regexp.MustCompile(`href="(/entities/order\?key=[^"]*)"`).FindStringSubmatch(a.body)
	if link == nil {
		t.Fatalf("no link to the entity: %s", a.body)
	}
	if e := requestPath(t, s.Server, "GET", strings.ReplaceAll(link[1], "&amp;", "&"), ""); e.StatusCode != 200 || !strings.Contains(e.body, "is late") {
		t.Errorf("the link leads to %d %s", e.StatusCode, e.body)
	}
	if policy := a.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy: %s", policy)
	}
	if found := regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|<script(?: [^>]*)?>[^<]|javascript:`).FindString(a.body); found != "" {
		t.Errorf("the page has what its policy forbids: %s", found)
	}
	for _, asset := range regexp.MustCompile(`(?:href|src)="(/static/[^"]*)"`).FindAllStringSubmatch(a.body, -1) {
		got := requestPath(t, s.Server, "GET", asset[1], "")
		if got.StatusCode != 200 || !strings.Contains(got.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %s", asset[1], got.StatusCode, got.Header.Get("Cache-Control"))
		}
	}
}

// TestPageOfBrokenNode checks that the overview works on a broken node, since users open it then.
func TestPageOfBrokenNode(t *testing.T) {
	s := newFixture(t)
	pages, err := ui.New(ui.Options{Log: discardLog, Now: time.Now})
	failOn(t, err)
	broken := newBareNode(t, web.Options{Lists: s.store, Catalog: s.rules.Catalog, Rules: s.rules, Pages: pages, Health: func(context.Context) []web.Condition {
		return []web.Condition{{Name: "nats", Detail: "not <connected>"}, {Name: "database", OK: true}}
	}})
	if a := requestPath(t, broken, "GET", "/", ""); a.StatusCode != 200 || !strings.Contains(a.body, "Conditions failed: nats<") || !strings.Contains(a.body, "not &lt;connected&gt;") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	failOn(t, s.store.Close())
	if a := requestPath(t, s.Server, "GET", "/", ""); a.StatusCode != 200 || !strings.Contains(a.body, "Lists cannot be read") || strings.Contains(a.body, "No pending checks") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// TestPagesUseVisitorsPermissions checks that a page shows and does only as much as its visitor's token permits.
func TestPagesUseVisitorsPermissions(t *testing.T) {
	s := newFixture(t, closedNode)
	s.createJob("1234", time.Hour, `{}`)
	if a := requestPath(t, s.Server, "GET", "/jobs", "", "Accept", "text/html"); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/login?next=%2Fjobs" {
		t.Errorf("without a token: %d %s", a.StatusCode, a.body)
	}
	reads := s.newToken("reader", "", access.Read)
	if a := requestPath(t, s.Server, "GET", "/jobs", "", reads...); a.StatusCode != 200 || !strings.Contains(a.body, "order 1234") {
		t.Errorf("with a token: %d %s", a.StatusCode, a.body)
	}
	form := append(reads, "Content-Type", "application/x-www-form-urlencoded")
	requestPath(t, s.Server, "POST", "/jobs", "do=cancel&sure=yes&job=order-unshipped/1234", form...)
	if a := requestPath(t, s.Server, "GET", "/jobs", "", reads...); !strings.Contains(a.body, "order 1234") {
		t.Error("a token that may read cancelled a job")
	}
	form = append(s.newToken("writer", "", access.Read, access.Rules), "Content-Type", "application/x-www-form-urlencoded")
	if a := requestPath(t, s.Server, "POST", "/jobs", "do=cancel&sure=yes&job=order-unshipped/1234", form...); a.Header.Get("Location") != "/jobs?did=cancelled&done=1" {
		t.Errorf("cancelled: %d %v", a.StatusCode, a.Header)
	}
	if a := requestPath(t, s.Server, "GET", "/jobs", "", reads...); strings.Contains(a.body, "order 1234") {
		t.Error("the job was not cancelled")
	}
}

// TestPagesAreLive checks that each update of a page arrives once on its stream.
func TestPagesAreLive(t *testing.T) {
	s := newFixture(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/jobs?live=1", http.NoBody)
	failOn(t, err)
	r.Header.Set("Accept", "text/html, text/event-stream")
	answer, err := http.DefaultClient.Do(r)
	failOn(t, err)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	until := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("the stream ended before %q: %v", text, lines.Err())
	}
	until("No pending checks")
	s.createJob("1234", time.Hour, `{}`)
	until("order 1234")
}
