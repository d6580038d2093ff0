package web_test

import (
	"strings"
	"testing"
	"time"

	"deadman/web"
)

// TestJobsOfRules checks that a list of rules has their job counts after the first count.
func TestJobsOfRules(t *testing.T) {
	s := newFixture(t)
	s.saveRule(strings.ReplaceAll(unshippedRule, "order-unshipped", "order-unpaid"))
	for _, key := range []string{"1", "2", "3"} {
		s.createJob(key, time.Hour, `{}`)
	}
	s.alert("1", "1 is late", 2*time.Hour)
	jobs, deadline := make(map[string]*web.RuleJobs), time.Now().Add(10*time.Second)
	for range time.Tick(10 * time.Millisecond) {
		for _, r := range get[web.Page[web.Rule]](t, s.Server, "/api/v1/rules").Items {
			jobs[r.Name] = r.Jobs
		}
		if jobs["order-unpaid"] != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the jobs are not counted")
		}
	}
	got := jobs["order-unshipped"]
	if got.Pending != 3 || got.OpenAlerts != 1 || got.Undetermined != 0 || got.GaveUp != 0 || got.NextCheckAt.IsZero() || got.CountedAt.IsZero() {
		t.Errorf("%+v", got)
	}
	if none := jobs["order-unpaid"]; none.Pending != 0 || !none.NextCheckAt.IsZero() || none.CountedAt.IsZero() {
		t.Errorf("of a rule that waits for nothing: %+v", none)
	}
}
