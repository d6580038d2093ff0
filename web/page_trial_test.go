package web_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// importRule is a rule with jobs that the next tick restarts, closing their alerts.
const importRule = `name: import-missing
entity: import
trigger: {schedule: "0 */2 * * *", keys: [a, b]}
resolve: {event: imports.done, key: event.id}
escalate:
  - {after: 30m, step: late}
  - {after: 90m, step: escalated}
`

// TestPreviewPageReportsAlertsAndEvents checks that a preview distinguishes raised from closed alerts, and names the
// simulated tick and key of a schedule.
func TestPreviewPageReportsAlertsAndEvents(t *testing.T) {
	s := newFixture(t)
	for name, c := range map[string]struct {
		form     url.Values
		wantText string
	}{
		"resolved": {url.Values{"text": {importRule}, "at": {"2026-03-02T13:00:00"}, "later": {"3h"}}, "3 h later: 2 alerts raised: late, escalated; 1 resolved."},
		"firing":   {url.Values{"text": {importRule}, "at": {"2026-03-02T13:00:00"}, "later": {"1h"}}, "1 h later: 1 alert raised: late."},
		"nothing":  {url.Values{"text": {importRule}, "at": {"2026-03-02T13:00:00"}, "later": {"0s"}}, "0s later: no alert so far."},
	} {
		t.Run(name, func(t *testing.T) {
			got := visibleWords(postForm(t, s, "/try-rule", c.form).body)
			for _, wantText := range []string{c.wantText, "One tick, 2026-03-02 14:00:00 UTC, key a"} {
				if !strings.Contains(got, wantText) {
					t.Errorf("it does not contain %q: %s", wantText, got)
				}
			}
		})
	}
	got := visibleWords(postForm(t, s, "/try-rule", url.Values{"text": {unshippedRule}, "event": {`{"id": "7"}`}, "later": {"7d"}}).body)
	if !strings.Contains(got, "2 alerts raised: primary, escalated.") || !strings.Contains(got, "Key 7") || strings.Contains(got, "tick") {
		t.Errorf("of an event: %s", got)
	}
}

// visibleWords returns the text of a page.
func visibleWords(page string) string {
	return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, "")), " ")
}
