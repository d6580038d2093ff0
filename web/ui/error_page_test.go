package ui_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// requestPage requests a page as a browser without scripts does, and returns its content.
func requestPage(t *testing.T, method, address, form string) (status int, content string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, content, _ = strings.Cut(string(text), "<main")
	content, _, _ = strings.Cut(content, "</main>")
	return answer.StatusCode, content
}

// TestUnknownAddresses checks that a mistyped address gets a page with the error, once and in plain words, and with
// links to continue.
func TestUnknownAddresses(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, "name: report-due\nentity: report\ntrigger: {schedule: \"@stored\", emit: {subject: reports.due}}\n")
	for _, c := range []struct {
		path     string
		status   int
		wantText string
		wantLink string
	}{
		{"/alerts/nope", 400, "No alert nope<", "/alerts"},
		{"/alerts/01234567-89ab-7def-8123-456789abcdef", 404, "No alert 01234567-89ab-7def-8123-456789abcdef<", "/alerts"},
		{"/alerts?cursor=x", 400, "Invalid page address<", "/alerts"},
		{"/alerts/all?decided_after=x", 400, "Decided after: &#34;x&#34; is not a time", "/alerts/all"},
		{"/entities/order", 400, "Which order?<", "/jobs"},
		{"/entities/order?key=%00", 400, "Key: not valid UTF-8", "/jobs"},
		{"/entities/%00?key=a", 400, "No entity ⟨U&#43;0000⟩<", "/jobs"},
		{"/rules/nope", 404, "No rule nope<", "/rules"},
		{"/rules/nope/versions", 404, "No rule nope<", "/rules"},
		{"/rules/nope/ticks?id=nope", 404, "No rule nope<", "/rules"},
		{"/rules/report-due/ticks?id=absent", 404, "No schedule absent<", "/rules"},
		{"/rules/report-due/schedules?id=absent", 404, "No schedule absent<", "/rules"},
		{"/rules/report-due/ticks?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", 400, "is not after from", "/rules"},
		{"/rules?state=x", 400, "State: &#34;x&#34; is not one of enabled", "/rules"},
		{"/jobs?cursor=x", 400, "Invalid page address<", "/jobs"},
		{"/mutes?cursor=x", 400, "Invalid page address<", "/mutes"},
		{"/mutes/nope", 404, "Nothing exists at /mutes/nope<", "/mutes"},
		{"/history?cursor=x", 400, "Invalid page address<", "/history"},
		{"/dead-letters/nope", 400, "No dead letter nope<", "/dead-letters"},
	} {
		status, content := requestPage(t, "GET", home+c.path, "")
		if status != c.status || strings.Count(content, c.wantText) != 1 || !strings.Contains(content, `<a class="button" href="`+c.wantLink+`">`) {
			t.Errorf("%s: %d %s", c.path, status, content)
		}
		for _, word := range []string{"path.", "query.", "Bad Request", "Not Found"} {
			if strings.Contains(content, word) {
				t.Errorf("%s: the page has the API's word %s: %s", c.path, word, content)
			}
		}
	}
}

// TestRefusedForms checks that errors of forms use the form's labels and not the API's locations.
func TestRefusedForms(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	publishEvents(t, home, "orders.created", "1")
	for _, c := range []struct{ path, form, wantText string }{
		{"/mutes", "do=make&rule=a&for=1h&reason=", "Reason: enter 1 to 500 characters."},
		{"/mutes", "do=make&rule=a&for=foo&reason=b", "Duration: &#34;foo&#34; is not a duration"},
		{"/mutes", "do=make&rule=a&for=9000d&reason=b", "Duration: "},
		{"/jobs", "do=snooze&for=foo&job=order-unshipped/1", "could not be snoozed: <bdi>Duration: &#34;foo&#34; is not a duration"},
		{"/rules/order-unshipped", "do=try&event=[1&at=2026-01-31T15:04", "The trigger event is not JSON."},
		{"/rules/order-unshipped/send", "sure=yes&subject=orders.created&event={", "The event was not sent: <bdi>The body is not JSON."},
		{"/rules/order-unshipped/send", "sure=yes&subject=a..b&event={}", "The event was not sent: <bdi>Subject: "},
	} {
		_, content := requestPage(t, "POST", home+c.path, c.form)
		if strings.Count(content, c.wantText) != 1 {
			t.Errorf("%s %s: not %q once: %s", c.path, c.form, c.wantText, content)
		}
		for _, word := range []string{"path.", "query.", "body.", "body:", "expected ", "Content-Type"} {
			if strings.Contains(content, word) {
				t.Errorf("%s %s: the page has the API's word %s: %s", c.path, c.form, word, content)
			}
		}
	}
}
