package web_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/internal/testwait"
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

// TestNewRuleIsNeverReported checks that a heartbeat without keys is never_reported at once: it is newer than the cached
// count.
func TestNewRuleIsNeverReported(t *testing.T) {
	s := newFixture(t)
	counted := func() bool {
		page := get[web.Page[web.Rule]](t, s.Server, "/api/v1/rules")
		return page.Items[0].Jobs != nil
	}
	testwait.Until(t, "the jobs are counted", counted)
	s.saveRule("name: beat\nentity: host\ntrigger: {heartbeat: {event: beats, key: event.id, every: 1h}}\nescalate: [{after: 0s, step: missing}]\n")
	if page := get[web.Page[web.Rule]](t, s.Server, "/api/v1/rules?state=never_reported"); len(page.Items) != 1 || !page.Items[0].NeverReported {
		t.Errorf("right after the save: %+v", page.Items)
	}
	if page := get[web.HeartbeatPage](t, s.Server, "/api/v1/heartbeats"); !slices.Equal(page.NeverReported, []string{"beat"}) {
		t.Errorf("the list of heartbeats: %q", page.NeverReported)
	}
}

// TestLintCautions checks that lint warns of a heartbeat without keys, and of spans that are shorter than the slot.
func TestLintCautions(t *testing.T) {
	s := newFixture(t)
	for rule, warning := range map[string]string{
		"trigger: {schedule: \"@every 2s\", keys: [a]}\nhandler: checks\nslot: 1s":                                                         "3 attempts of a check may take 17s, but ticks are only 2s apart, so ticks are missed",
		"trigger: {schedule: \"* * * * *\", keys: [a]}\nhandler: checks\nslot: 1s":                                                         "",
		"trigger: {heartbeat: {every: 1h}}":                                                                                                "trigger.heartbeat: nothing is watched until a first ping",
		"trigger: {heartbeat: {every: 1h, keys: [a]}}\nescalate: [{after: 0s, step: missing}]":                                             "",
		"trigger: {heartbeat: {every: 30s, keys: [a]}}":                                                                                    "slot: 1m is longer than trigger.heartbeat.every, 30s, so the alert may be raised up to 1m late; set a shorter slot",
		"trigger: {heartbeat: {every: 1m, keys: [a]}}":                                                                                     "",
		"trigger: {event: a, key: event.id}\nescalate: [{after: 59s, step: late}]":                                                         "slot: 1m is longer than escalate[0].after, 59s,",
		"trigger: {event: a, key: event.id}\nescalate: [{after: 59s, step: late}]\nslot: 10s":                                              "",
		"trigger: {event: a, key: event.id}\nescalate: [{after: minutes(event.m), step: late}]\nslot: 10m":                                 "",
		"trigger: {event: a, key: event.id}\nescalate: [{after: 1m, step: late}, {every: 30s, times: 2, step: again}]":                     "slot: 1m is longer than escalate[1].every, 30s,",
		"trigger: {event: a, key: event.id}\nescalate: [{after: 2h, step: late}, {after: 3h, step: later}]":                                "",
		"trigger: {event: a, key: event.id}\nslot: 2m\nescalate: [{after: 2m, step: x}, {at: event.due, step: z}, {after: 90s, step: y}]":  "slot: 2m is longer than escalate[2].after, 1m30s,",
		"trigger: {event: a, key: event.id}\nescalate: [{after: 2h}]\nhold: 1d":                                                            "hold: it has no effect without resolve",
		"trigger: {event: a, key: event.id}\nresolve: {event: b, key: event.id}\nescalate: [{after: 2h}]\nhold: 1d":                        "",
		"trigger: {heartbeat: {event: a.seen, key: event.id, every: 1h, keys: [x]}}\nresolve: {event: a.*, key: event.id}":                 "resolve[0]: every heartbeat also ends the job",
		"trigger: {heartbeat: {event: a.seen, key: event.id, every: 1h, keys: [x]}}\nresolve: {event: a.*, key: event.id, if: event.gone}": "",
		"trigger: {event: a, key: event.id}\nescalate: [{after: 2h}]\nrecheck: date(event.eta)":                                            "recheck: it has no effect without while",
		"trigger: {event: a, key: event.id}\nescalate: [{after: 2h}]\nrecheck: date(event.eta)\nwhile: event.total > 1":                    "",
		"trigger: {event: a, key: event.id}\nescalate: [{after: 2h}]\nlabels: {team: x, severity: bad}":                                    "labels.severity: every alert has a field severity,",
		"trigger: {event: a, key: event.id}\nescalate: [{after: 2h}]\nhold: 0s":                                                            "",
	} {
		a := requestPath(t, s.Server, "POST", "/api/v1/rules/lint", "name: beat\nentity: host\n"+rule+"\n")
		var result web.LintResult
		err := json.Unmarshal([]byte(a.body), &result)
		if err != nil || !result.Valid || (warning == "") != (len(result.Warnings) == 0) || !strings.Contains(strings.Join(result.Warnings, "\n"), warning) {
			t.Errorf("%s: %s (%v), want the warning %q", rule, a.body, err, warning)
		}
	}
}
