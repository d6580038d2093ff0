package web_test

import (
	"encoding/json"
	"slices"
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

// TestNeverReported checks that a heartbeat without keys is never_reported until its first job, and no other rule is.
func TestNeverReported(t *testing.T) {
	s := newFixture(t)
	s.saveRule("name: beat\nentity: host\ntrigger: {heartbeat: {event: beats, key: event.id, every: 1h}}\nescalate: [{after: 0s, step: missing}]\n")
	s.saveRule("name: beat-key\nentity: host\ntrigger: {heartbeat: {event: beats, key: event.id, every: 1h, keys: [a]}}\nescalate: [{after: 0s, step: missing}]\n")
	listed := func(query string) (names []string) {
		for _, r := range get[web.Page[web.Rule]](t, s.Server, "/api/v1/rules"+query).Items {
			if query != "" || r.NeverReported {
				names = append(names, r.Name)
			}
		}
		return names
	}
	for deadline := time.Now().Add(10 * time.Second); len(listed("")) == 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if got := listed(""); !slices.Equal(got, []string{"beat"}) {
		t.Errorf("never reported: %q, want beat", got)
	}
	if got := listed("?state=never_reported"); !slices.Equal(got, []string{"beat"}) {
		t.Errorf("in the state never_reported: %q", got)
	}
	if got := listed("?state=enabled"); !slices.Equal(got, []string{"beat-key", "order-unshipped"}) {
		t.Errorf("in the state enabled: %q", got)
	}
}

// TestLintWarnsOfUnwatchedHeartbeats checks that lint warns of a heartbeat without keys, and of no other.
func TestLintWarnsOfUnwatchedHeartbeats(t *testing.T) {
	s := newFixture(t)
	for keys, warnings := range map[string]int{"": 1, ", keys: [a]": 0} {
		text := "name: beat\nentity: host\ntrigger: {heartbeat: {every: 1h" + keys + "}}\nescalate: [{after: 0s, step: missing}]\n"
		a := requestPath(t, s.Server, "POST", "/api/v1/rules/lint", text)
		var result web.LintResult
		if err := json.Unmarshal([]byte(a.body), &result); err != nil || !result.Valid || len(result.Warnings) != warnings {
			t.Errorf("keys %q: %s (%v), want %d warnings", keys, a.body, err, warnings)
		}
	}
}
