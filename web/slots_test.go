package web_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
	"deadman/web"
)

// tickingRule is a rule with two keys; both are checked five minutes after the tick.
const tickingRule = `
name: import-missing
entity: import
trigger: {schedule: "58 * * * *", keys: [customers, products]}
escalate: [{after: 5m}]
`

// getSlots requests the load.
func getSlots(t *testing.T, s *fixture, query url.Values) (slots web.Slots) {
	t.Helper()
	a := requestPath(t, s.Server, "GET", "/api/v1/slots?"+query.Encode(), "")
	if a.StatusCode != 200 {
		t.Fatalf("%s: %s", a.Status, a.body)
	}
	failOn(t, json.Unmarshal([]byte(a.body), &slots))
	return slots
}

func checkSlots(t *testing.T, want []web.Slot, got web.Slots) {
	t.Helper()
	if diff := cmp.Diff(want, got.Items); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSlots checks that past checks, pending jobs and planned ticks are in the bucket of their slot.
func TestSlots(t *testing.T) {
	s := newFixture(t, func(o *web.Options, s *fixture) { o.Now = func() time.Time { return s.now } })
	documents, err := rules.Parse([]byte(tickingRule), "")
	failOn(t, err)
	document, err := documents[0].Canonical()
	failOn(t, err)
	_, err = s.store.Save(t.Context(), rules.RuleVersion{Name: "import-missing", Entity: "import", Document: document}, rules.AnyVersion)
	failOn(t, err)
	failOn(t, s.rules.Catalog.Refresh(t.Context()))
	hour := s.now.Truncate(time.Hour)
	failOn(t, s.store.AddLoads(t.Context(), []futurejobs.SlotLoad{
		{At: hour, RuleID: s.rule.ID, PastLoad: futurejobs.PastLoad{Checks: 3, Alerts: 2, MaxLateness: 1500 * time.Millisecond, Ticks: 5, MissedTicks: 2, MaxTickLateness: 250 * time.Millisecond}},
		{At: hour, PastLoad: futurejobs.PastLoad{Checks: 4, MaxLateness: time.Second}},
	}))
	at := hour.Add(2*time.Hour + 10*time.Minute).Sub(s.now)
	s.createJob("a", at, `{}`)
	s.createJob("b", at+time.Minute, `{}`)
	query := url.Values{"from": {hour.Format(time.RFC3339)}, "to": {hour.Add(3 * time.Hour).Format(time.RFC3339)}, "bucket": {"1h"}}

	all := getSlots(t, s, query)
	ticks := 2 // of the tick in the current hour, if it is yet to come
	if s.now.Sub(hour) >= 58*time.Minute {
		ticks = 0
	}
	want := []web.Slot{
		{From: hour, Checks: 7, Alerts: 2, MaxLateness: 1.5, Applied: 5, Missed: 2, MaxDelay: 0.25},
		{From: hour.Add(time.Hour), Ticks: ticks},
		{From: hour.Add(2 * time.Hour), Planned: 2, Ticks: 2},
	}
	checkSlots(t, want, all)
	if !all.From.Equal(hour) || !all.To.Equal(hour.Add(3*time.Hour)) || all.Bucket != 3600 {
		t.Errorf("the span is %s to %s in buckets of %v s", all.From, all.To, all.Bucket)
	}

	query.Set("rule", s.rule.Name)
	want = []web.Slot{{From: hour, Checks: 3, Alerts: 2, MaxLateness: 1.5, Applied: 5, Missed: 2, MaxDelay: 0.25}, {From: hour.Add(time.Hour)}, {From: hour.Add(2 * time.Hour), Planned: 2}}
	checkSlots(t, want, getSlots(t, s, query))

	day := getSlots(t, s, nil)
	if n := len(day.Items); n < 25*60 || n > 25*60+1 || day.Items[0].From.After(s.now.Add(-time.Hour)) {
		t.Errorf("without a word there are %d buckets from %s", n, day.Items[0].From)
	}
}

// TestSlotsAreBounded checks that an invalid span is refused, with a remedy.
func TestSlotsAreBounded(t *testing.T) {
	s := newFixture(t)
	for query, want := range map[string]string{
		"bucket=90s": "whole minutes",
		"bucket=7m":  "divide a day",
		"bucket=x":   "whole minutes",
		"from=2026-01-01T00:00:00Z&to=2026-01-31T00:00:00Z":           "more than 3000 buckets",
		"from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z":           "not after from",
		"from=1970-01-01T00:00:00Z&to=2999-01-31T00:00:00Z&bucket=1d": "more than 3000 buckets",
	} {
		if a := requestPath(t, s.Server, "GET", "/api/v1/slots?"+query, ""); a.StatusCode != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %s %s, want %q", query, a.Status, a.body, want)
		}
	}
	if a := requestPath(t, s.Server, "GET", "/api/v1/slots?rule=nowhere", ""); a.StatusCode != 404 {
		t.Errorf("a rule that is not there: %s", a.Status)
	}
	for _, to := range []string{"2026-01-10T00:00:30Z", "2026-01-10T00:00:00Z"} {
		span := getSlots(t, s, url.Values{"to": {to}, "bucket": {"1m"}})
		if len(span.Items) == 0 || span.To.Sub(span.From) < time.Hour {
			t.Errorf("until %s there are %d buckets from %s to %s", to, len(span.Items), span.From, span.To)
		}
	}
}
