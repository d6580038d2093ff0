package futurejobs

import (
	"testing"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/guards"
)

// firingJob returns a job of orderRule with one alert and its next check at six.
func firingJob() (rule *Rule, job Job, alert alerts.ID) {
	rule, pending := pendingState()
	job = pending[Ref{RuleID: 1, Key: "1"}]
	alert = alerts.Decision{JobID: job.ID, At: noon}.ID()
	job.Alerts, job.Step, job.NextCheckAt = []alerts.ID{alert}, 1, noon.Add(6*time.Hour)
	return rule, job, alert
}

func applyAck(rule *Rule, job Job, ack Ack, now time.Time) FoldResult {
	return foldEffects([]Effect{effectOf(rule, Acknowledge{ack})}, map[Ref]Job{job.Ref: job}, now)
}

func TestAcknowledgementAdvancesNextCheck(t *testing.T) {
	now := noon.Add(4 * time.Hour)
	for name, c := range map[string]struct {
		upcoming time.Time
		paused   bool
		want     time.Time
	}{
		"unacknowledged":       {time.Time{}, false, noon.Add(6 * time.Hour)},
		"as it was":            {noon.Add(6 * time.Hour), false, noon.Add(6 * time.Hour)},
		"never later":          {noon.Add(8 * time.Hour), false, noon.Add(6 * time.Hour)},
		"sooner":               {noon.Add(5 * time.Hour), false, noon.Add(5 * time.Hour)},
		"not behind the sweep": {noon.Add(3 * time.Hour), false, noon.Add(4*time.Hour + time.Minute)},
		"while time is still":  {noon.Add(5 * time.Hour), true, FarFuture},
	} {
		t.Run(name, func(t *testing.T) {
			rule, job, alert := firingJob()
			if c.paused {
				job.pause(noon.Add(3 * time.Hour))
			}
			rule.Upcoming = func(j Job, at time.Time) time.Time {
				if !at.Equal(now) || !j.AckedUntil.Equal(now.Add(time.Hour)) {
					t.Errorf("called for a job that is acknowledged until %s, at %s", j.AckedUntil, at)
				}
				return c.upcoming
			}
			net := applyAck(rule, job, Ack{Alert: alert, By: "ada", Until: now.Add(time.Hour)}, now)
			if len(net.Change) != 1 || !net.Change[0].NextCheckAt.Equal(c.want) {
				t.Fatalf("changed %+v, want a next check at %s", net.Change, c.want)
			}
			if c.paused && !net.Change[0].PausedNext.Equal(c.upcoming) {
				t.Errorf("after the pause it is checked at %s", net.Change[0].PausedNext)
			}
			if len(net.Acks) != 1 || net.Acks[0].JobID != job.ID || !net.Acks[0].Ack.At.Equal(now) {
				t.Errorf("acknowledged: %+v", net.Acks)
			}
		})
	}
}

func TestLastAcknowledgementCounts(t *testing.T) {
	rule, job, alert := firingJob()
	now := noon.Add(4 * time.Hour)
	for _, until := range []time.Time{checks.Forever, noon.Add(5 * time.Hour)} {
		job.AckedUntil = until
		net := applyAck(rule, job, Ack{Alert: alert, By: "grace", Until: until, Note: "mine"}, now)
		if len(net.Change) != 1 || len(net.Acks) != 1 || net.Acks[0].Ack.By != "grace" || net.Acks[0].Ack.Note != "mine" {
			t.Errorf("until %s again, by another user: %+v", until, net)
		}
	}
	job.AckedUntil = time.Time{}
	if net := applyAck(rule, job, Ack{Alert: alert}, now); len(net.Change)+len(net.Acks)+net.Missed > 0 {
		t.Errorf("removed without an acknowledgement: %+v", net)
	}
	other := alerts.Decision{JobID: job.ID + 1, At: noon}.ID()
	if net := applyAck(rule, job, Ack{Alert: other, Until: checks.Forever}, now); net.Missed != 1 || len(net.Change) > 0 {
		t.Errorf("an alert of another job: %+v", net)
	}
	ended := []Effect{effectOf(rule, Acknowledge{Ack{Alert: alert, Until: checks.Forever}}), effectOf(rule, End{Outcome: checks.Resolved})}
	if net := foldEffects(ended, map[Ref]Job{job.Ref: job}, now); len(net.Acks) > 0 || len(net.End) != 1 {
		t.Errorf("acknowledged and resolved in one go: %+v", net)
	}
}

func TestCheckThatHoldsStepIsNotCounted(t *testing.T) {
	rule, job, _ := firingJob()
	rule.Limits.MaxChecks = 3
	job.CheckCount = 2
	now := job.NextCheckAt
	answer := checks.Answer{Next: now.Add(time.Hour), Nominal: true, Step: 1, Held: true}
	if d := decideJob(rule, job, CheckTimes{}, answer, nil, now); d.Ends() || d.Job.CheckCount != 2 || d.Job.CheckAttempts != 1 {
		t.Errorf("held: ended %q after %d counted of %d", d.Outcome, d.Job.CheckCount, d.Job.CheckAttempts)
	}
	answer.Held = false
	if d := decideJob(rule, job, CheckTimes{}, answer, nil, now); d.Outcome != checks.Outcome(guards.MaxChecks) {
		t.Errorf("not held: ended %q, want %q", d.Outcome, checks.Outcome(guards.MaxChecks))
	}
}

func TestHandlerReceivesAcknowledgement(t *testing.T) {
	rule, job, _ := firingJob()
	job.AckedUntil = noon.Add(8 * time.Hour)
	if c := rule.checkOf(&job, noon); !c.AckedUntil.Equal(job.AckedUntil) {
		t.Errorf("the check receives %s", c.AckedUntil)
	}
}
