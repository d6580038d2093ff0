package futurejobs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/guards"
)

// answeringHandler is a handler with one answer that counts its calls.
type answeringHandler struct {
	answer checks.Answer
	err    error
	checks int
	last   checks.Check
}

func (a *answeringHandler) Check(_ context.Context, c checks.Check) (checks.Answer, error) {
	a.checks++
	a.last = c
	return a.answer, a.err
}

func TestLateJobFollowsCatchUp(t *testing.T) {
	for _, c := range []struct {
		name    string
		do      LateAction
		late    time.Duration
		deleted bool
		checks  int
		outcome checks.Outcome
		next    time.Duration
		status  alerts.Status
	}{
		{name: "in time", do: Expire, late: time.Hour, checks: 1, next: 2 * time.Hour},
		{name: "run", do: Run, late: 5 * time.Hour, checks: 1, next: 5*time.Hour + time.Minute},
		{name: "skip", do: Skip, late: 5 * time.Hour, next: 5*time.Hour + time.Minute},
		{name: "expire", do: Expire, late: 5 * time.Hour, outcome: checks.Expired, status: alerts.Expired},
		{name: "deleted", deleted: true, outcome: checks.RuleDeleted},
		{name: "deleted and late", do: Expire, late: 5 * time.Hour, deleted: true, outcome: checks.RuleDeleted},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := orderRule()
			handler := &answeringHandler{answer: checks.Answer{Next: noon.Add(2 * time.Hour)}}
			rule.Handler, rule.Deleted = handler, c.deleted
			rule.CatchUp = CatchUp{After: time.Hour, Do: c.do}
			rule.Limits = guards.Limits{Timeout: time.Second}
			d := rule.Check(t.Context(), Job{ID: 1, CreatedAt: noon, NextCheckAt: noon, CheckCount: 2}, noon.Add(c.late))
			if handler.checks != c.checks || d.Outcome != c.outcome || d.Ends() != (c.outcome != "") {
				t.Errorf("queried %d times, outcome %q", handler.checks, d.Outcome)
			}
			if !d.Ends() && !d.Job.NextCheckAt.Equal(noon.Add(c.next)) {
				t.Errorf("next at %s, want %s", d.Job.NextCheckAt, noon.Add(c.next))
			}
			if (c.status == "") != (len(d.Alerts) == 0) || c.status != "" && d.Alerts[0].Status != c.status {
				t.Errorf("alerts %+v", d.Alerts)
			}
			if c.checks == 0 && c.outcome != checks.RuleDeleted && d.Reason == "" {
				t.Error("no reason is left")
			}
			if c.checks == 0 && d.Job.CheckCount != 2 {
				t.Error("it counts as a check")
			}
		})
	}
}

func TestManualCheckTakesNoStep(t *testing.T) {
	rule := orderRule()
	rule.Limits = guards.Limits{Timeout: time.Second}
	job := Job{ID: 1, Ref: Ref{RuleID: 1, Key: "1"}, Rev: 5, NextCheckAt: noon.Add(time.Hour)}
	closing := alerts.Draft{Status: alerts.Resolved, Text: "closed"}
	for _, c := range []struct {
		name   string
		answer checks.Answer
		err    error
		ends   bool
	}{
		{name: "still waiting", answer: checks.Answer{Next: noon.Add(2 * time.Hour), Step: 1, Alerts: []alerts.Draft{{Status: alerts.Firing}}}},
		{name: "the last step would be taken", answer: checks.Answer{Outcome: checks.Exhausted, Step: 2}},
		{name: "it happened", answer: checks.Answer{Outcome: checks.Cleared, Alerts: []alerts.Draft{closing}, State: []byte(`{"found":1}`)}, ends: true},
		{name: "the source is down", err: errors.New("no route")},
	} {
		t.Run(c.name, func(t *testing.T) {
			handler := &answeringHandler{answer: c.answer, err: c.err}
			rule.Handler = handler
			effect, ends, err := rule.CheckNow(t.Context(), job, noon)
			if ends != c.ends || !errors.Is(err, c.err) || !handler.last.Manual {
				t.Fatalf("ends %t, %v", ends, err)
			}
			if !ends {
				return
			}
			end := effect.Action.(End)
			if end.Outcome != checks.Cleared || *effect.Rev != 5 || end.Close(job).Text != "closed" || string(end.State) != `{"found":1}` {
				t.Errorf("effect %+v", effect)
			}
		})
	}
}

// A manual check does not hang if the handler ignores its deadline.
func TestManualCheckTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		defer close(never)
		rule := orderRule()
		rule.Limits.Timeout = 2 * time.Second
		rule.Handler = checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
			<-never
			return checks.Answer{}, nil
		})
		startedAt := time.Now()
		_, ends, err := rule.CheckNow(t.Context(), Job{ID: 1, Ref: Ref{RuleID: 1, Key: "1"}}, noon)
		if ends || !errors.Is(err, errAbandoned) || time.Since(startedAt) > 3*time.Second {
			t.Errorf("after %s: %v, %v", time.Since(startedAt), ends, err)
		}
	})
}

func TestManualCheckSkipsAtMostOnceHandlers(t *testing.T) {
	rule, handler := orderRule(), &answeringHandler{answer: checks.Answer{Outcome: checks.Cleared}}
	rule.Limits, rule.Handler = guards.Limits{Timeout: time.Second}, checks.WithAtMostOnce(handler)
	_, ends, err := rule.CheckNow(t.Context(), Job{ID: 1, Ref: Ref{RuleID: 1, Key: "1"}}, noon)
	if ends || err == nil || !strings.Contains(err.Error(), "at_most_once") || handler.checks > 0 {
		t.Errorf("ends %t, %v, queried %d times", ends, err, handler.checks)
	}
}

func TestAttemptsFollowRulesInterval(t *testing.T) {
	rule := orderRule()
	rule.Limits = guards.Limits{Attempts: 4, Interval: 10 * time.Minute, Jitter: time.Hour}
	seen := map[time.Duration]bool{}
	for id := range int64(50) {
		for undecided, least := range map[int]time.Duration{1: 10 * time.Minute, 2: 20 * time.Minute, 3: 40 * time.Minute} {
			got := rule.retryDelay(&Job{ID: id, UndeterminedChecks: undecided})
			if got < least || got > least+time.Hour {
				t.Errorf("attempt %d of job %d waits %s", undecided, id, got)
			}
			if undecided == 1 {
				seen[got] = true
			}
		}
	}
	if len(seen) < 45 {
		t.Errorf("50 jobs wait %d different times", len(seen))
	}
	rule.Limits.Attempts, rule.Limits.Jitter = 100, 0
	if got := rule.retryDelay(&Job{UndeterminedChecks: 99}); got != Day {
		t.Errorf("attempt 99 waits %s", got)
	}
}
