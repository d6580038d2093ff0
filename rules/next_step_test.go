package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// The next step of a job is that of its version; the events that resolve it are those of the newest version. What is
// unknown has a reason.
func TestNextStepsOfJobs(t *testing.T) {
	s := openStore(t)
	text := func(name, more string) string {
		return "name: " + name + "\nentity: order\ntrigger: {event: orders.created, key: event.id}\nslot: 1m\n" + more
	}
	saveRule(t, s, 0, text("late", "resolve: {event: orders.shipped, key: event.id}\nescalate: [{after: 1h, step: first, severity: warning}, {after: 2h, step: second, severity: critical}]\n"))
	late := saveRule(t, s, 0, text("late", "resolve: [{event: orders.shipped, key: event.id}, {event: orders.gone, key: event.id}]\nescalate: [{after: 3h, step: newer}]\n"))
	computed := saveRule(t, s, 0, text("computed", "while: state.open\nescalate: [{after: hours(event.sla ?? 1), step: due}]\n"))
	handled := saveRule(t, s, 0, text("handled", "handler: mine\n"))
	beats := saveRule(t, s, 0, "name: beats\nentity: host\ntrigger: {heartbeat: {every: 1h, grace: 5m}}\nescalate: [{after: 0s, step: gone, severity: error}, {every: 10m, times: 2, step: nag}]\n")
	catalog := rules.NewCatalog(s, shards)
	if err := catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := func(v rules.RuleVersion, version int32, step int, next time.Duration) futurejobs.ListedJob {
		return futurejobs.ListedJob{Rule: v.Name, Job: futurejobs.Job{
			Ref: futurejobs.Ref{RuleID: v.RuleID, Key: "1"}, Version: version, Since: tenOClock, Step: step, NextCheckAt: tenOClock.Add(next),
		}}
	}
	with := func(l futurejobs.ListedJob, change func(*futurejobs.ListedJob)) futurejobs.ListedJob {
		change(&l)
		return l
	}
	at := tenOClock.Add
	both := []string{"orders.shipped", "orders.gone"}
	first := job(late, 1, 0, time.Hour)
	for name, c := range map[string]struct {
		job  futurejobs.ListedJob
		want rules.NextStep
	}{
		"its own version":  {first, rules.NextStep{Name: "first", Severity: "warning", At: at(time.Hour), Unless: both}},
		"newer version":    {job(late, 2, 0, 3*time.Hour), rules.NextStep{Name: "newer", Severity: "warning", At: at(3 * time.Hour), Unless: both}},
		"a recheck before": {job(late, 1, 0, 20*time.Minute), rules.NextStep{Name: "first", Severity: "warning", At: at(time.Hour), Unless: both}},
		"a late retry":     {job(late, 1, 0, 150*time.Minute), rules.NextStep{Name: "second", Severity: "critical", At: at(150 * time.Minute), Unless: both}},
		"snoozed": {
			with(first, func(l *futurejobs.ListedJob) { l.SnoozedUntil = at(90 * time.Minute) }),
			rules.NextStep{Name: "first", Severity: "warning", At: at(90 * time.Minute), Unless: both},
		},
		"acknowledged for a time": {
			with(job(late, 1, 1, 2*time.Hour), func(l *futurejobs.ListedJob) { l.AckedUntil = at(5 * time.Hour) }),
			rules.NextStep{Name: "second", Severity: "critical", At: at(5 * time.Hour), Unless: both},
		},
		"acknowledged until resolved": {with(job(late, 1, 1, 2*time.Hour), func(l *futurejobs.ListedJob) { l.AckedUntil = checks.Forever }), rules.NextStep{}},
		"no step left":                {job(late, 1, 2, 9*time.Hour), rules.NextStep{}},
		"no step left, at the end":    {job(late, 1, 2, 7*24*time.Hour+2*time.Hour), rules.NextStep{Ends: true}},
		"a version that is gone":      {job(late, 9, 0, time.Hour), rules.NextStep{Unknown: "version 9 of the rule is not available"}},
		"a handler":                   {job(handled, 1, 0, time.Hour), rules.NextStep{Unknown: "a handler decides"}},
		"paused": {
			with(first, func(l *futurejobs.ListedJob) {
				l.Pauses, l.PausedNext = []checks.Pause{{From: tenOClock}}, at(time.Hour)
			}),
			rules.NextStep{Unknown: "the job is paused", Unless: both},
		},
		"an event that is missing": {
			with(job(computed, 1, 0, time.Hour), func(l *futurejobs.ListedJob) { l.Omitted = true }),
			rules.NextStep{Unknown: "too large for this list", While: "state.open"},
		},
		"a computed time": {
			with(job(computed, 1, 0, time.Hour), func(l *futurejobs.ListedJob) { l.Event = []byte(`{"sla": 4}`) }),
			rules.NextStep{Name: "due", Severity: "warning", At: at(4 * time.Hour), While: "state.open"},
		},
		"a large event of a literal time": {
			with(first, func(l *futurejobs.ListedJob) { l.Omitted = true }),
			rules.NextStep{Name: "first", Severity: "warning", At: at(time.Hour), Unless: both},
		},
		"a heartbeat":            {job(beats, 1, 0, 65*time.Minute), rules.NextStep{Name: "gone", Severity: "error", At: at(65 * time.Minute), Unless: []string{"ping"}}},
		"a reminder":             {job(beats, 1, 1, 75*time.Minute), rules.NextStep{Name: "nag 1 of 2", Severity: "warning", At: at(75 * time.Minute), Unless: []string{"ping"}}},
		"a heartbeat's last one": {job(beats, 1, 3, 24*time.Hour), rules.NextStep{}},
	} {
		got := catalog.NextSteps(tenOClock).Of(t.Context(), c.job)
		if c.want.Unknown != "" && strings.Contains(got.Unknown, c.want.Unknown) {
			c.want.Unknown = got.Unknown
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The expressions of all jobs of a list have one budget: beyond it, next steps are unknown.
func TestNextStepsOfCostlyList(t *testing.T) {
	s := openStore(t)
	v := saveRule(t, s, 0, "name: costly\nentity: order\ntrigger: {event: orders.created, key: event.id}\nescalate: [{after: 'hours(len(filter(event.list, # % 3 == 0)) > 1 ? 1 : 2)', step: due}]\n")
	catalog := rules.NewCatalog(s, shards)
	if err := catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := futurejobs.ListedJob{Rule: "costly", Job: futurejobs.Job{Ref: futurejobs.Ref{RuleID: v.RuleID, Key: "1"}, Version: 1, Since: tenOClock, NextCheckAt: tenOClock.Add(time.Hour)}}
	job.Event = []byte(`{"list": [` + strings.Repeat("3, ", 3000) + `3]}`)
	known, steps := 0, catalog.NextSteps(tenOClock)
	for range futurejobs.MaxLimit {
		switch next := steps.Of(t.Context(), job); {
		case next.Name == "due":
			known++
		case !strings.Contains(next.Unknown, "cost too much together"):
			t.Fatalf("%+v", next)
		}
	}
	if known == 0 || known == futurejobs.MaxLimit {
		t.Errorf("%d of %d next steps are known", known, futurejobs.MaxLimit)
	}
}
