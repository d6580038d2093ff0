package web_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/web"
)

// Snooze by filter moves the checks of all unacknowledged open alerts that match, and no others.
func TestAlertsAreSnoozedByFilter(t *testing.T) {
	s := newFixture(t)
	const many = 3
	for i := range many {
		key := fmt.Sprintf("k%d", i)
		s.createJob(key, time.Second, `{}`)
		s.alert(key, "order waits", time.Minute)
	}
	s.createJob("quiet", time.Hour, `{}`) // without an alert
	s.createJob("acked", time.Second, `{}`)
	acked := s.alert("acked", "order acked waits", time.Minute)
	if a := requestPath(t, s.Server, "POST", "/api/v1/alerts/"+acked.ID.String()+"/ack", `{}`); a.StatusCode != 200 {
		t.Fatal(a.body)
	}
	var did web.SnoozeAllResult
	decodeAnswer(t, requestPath(t, s.Server, "POST", "/api/v1/alerts/snooze", `{"match": {"rule": "order-unshipped", "severity": "warning"}, "for": "3h"}`), &did)
	if did.Snoozed != many || did.Ineffective != 0 || did.Before != 1 || did.Ended != 0 || did.Remaining != 0 || did.Next != "" {
		t.Errorf("%+v", did)
	}
	end := time.Now().Add(3*time.Hour - time.Minute)
	for key, moved := range map[string]bool{"k0": true, "k2": true, "quiet": false, "acked": false} {
		job := get[web.Job](t, s.Server, "/api/v1/jobs/order-unshipped/"+key)
		if job.NextCheckAt.After(end) != moved {
			t.Errorf("the next check of %s is at %s", key, job.NextCheckAt)
		}
	}
	for body, want := range map[string]string{
		`{"for": "1h", "match": {}}`:                           "it selects no alerts",
		`{"match": {"all": true}}`:                             "no end is set",
		`{"for": "1h", "match": {"all": true, "rule": "x"}}`:   "cannot be combined",
		`{"for": "1h", "match": {"all": true}, "cursor": "x"}`: "the cursor belongs to another list",
	} {
		if a := requestPath(t, s.Server, "POST", "/api/v1/alerts/snooze", body); a.StatusCode < 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", body, a.StatusCode, a.body)
		}
	}
}

// Cancel by filter ends all pending jobs that match, more than a page of them, and no others. A token with a prefix cancels
// jobs of its rules only.
func TestJobsAreCancelledByFilter(t *testing.T) {
	s := newFixture(t, closedNode)
	admin := s.newToken("root", "", access.Admin)
	const many = 501
	for i := range many {
		s.createJob(fmt.Sprintf("a%03d", i), time.Hour, `{}`)
	}
	s.createJob("b1", time.Hour, `{}`)
	cancel := func(body string, header []string) (did web.CancelAllResult) {
		t.Helper()
		decodeAnswer(t, requestPath(t, s.Server, "POST", "/api/v1/jobs/cancel", body, header...), &did)
		return did
	}
	tenant := s.newToken("acme", "acme-", access.Rules)
	if did := cancel(`{"match": {"all": true}}`, tenant); did.Cancelled != 0 {
		t.Errorf("a tenant cancels %d jobs", did.Cancelled)
	}
	if a := requestPath(t, s.Server, "POST", "/api/v1/jobs/cancel", `{"match": {"all": true}}`, s.newToken("caller", "", access.OnCall)...); a.StatusCode != 403 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	for _, body := range []string{`{"match": {}}`, `{}`, `{"match": {"all": true, "key": "b1"}}`, `{"match": {"all": true}, "reason": "` + strings.Repeat("x", 501) + `"}`} {
		if a := requestPath(t, s.Server, "POST", "/api/v1/jobs/cancel", body, admin...); a.StatusCode != 422 {
			t.Errorf("%s: %d %s", body, a.StatusCode, a.body)
		}
	}
	if did := cancel(`{"match": {"rule": "order-unshipped", "key_prefix": "a"}, "dry_run": true}`, admin); did != (web.CancelAllResult{Matched: many}) {
		t.Errorf("a dry run: %+v", did)
	}
	if did := cancel(`{"match": {"rule": "order-unshipped", "key_prefix": "a"}, "reason": "shipped by hand"}`, admin); did != (web.CancelAllResult{Matched: many, Cancelled: many}) {
		t.Errorf("%+v", did)
	}
	left := requestPath(t, s.Server, "GET", "/api/v1/jobs", "", admin...)
	if !strings.Contains(left.body, `"key":"b1"`) || strings.Contains(left.body, `"key":"a`) {
		t.Errorf("%.300s", left.body)
	}
	if ended := requestPath(t, s.Server, "GET", "/api/v1/history?limit=1", "", admin...); !strings.Contains(ended.body, "shipped by hand") {
		t.Errorf("%.500s", ended.body)
	}
}

// decodeAnswer decodes a successful answer.
func decodeAnswer(t *testing.T, a answer, into any) {
	t.Helper()
	if a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	failOn(t, json.Unmarshal([]byte(a.body), into))
}
