package futurejobs

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"deadman/alerts"
	"deadman/checks"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func orderRule() *Rule {
	return &Rule{ID: 1, Version: 1, Name: "order-unshipped", Entity: "order", Grid: Grid(time.Minute), MaxSeverity: alerts.Critical}
}

func start(rule *Rule, key string, first time.Time) Effect {
	return Effect{Rule: rule, Ref: Ref{RuleID: rule.ID, Key: key}, Action: Start{
		Job: Job{Version: rule.Version, Since: noon, FirstCheckAt: first},
	}}
}

func end(rule *Rule, key string) Effect {
	return Effect{Rule: rule, Ref: Ref{RuleID: rule.ID, Key: key}, Action: End{
		Outcome: checks.Resolved,
		Close:   func(Job) alerts.Draft { return alerts.Draft{Status: alerts.Resolved, Severity: alerts.Critical} },
	}}
}

// at sets the event of the effect.
func (e Effect) at(at time.Time) Effect {
	e.Event = &Event{Stream: "S", Subject: "s", At: at}
	return e
}

func (e Effect) withAction(a Action) Effect {
	e.Action = a
	return e
}

func foldEffects(effects []Effect, pending map[Ref]Job, now time.Time) FoldResult {
	return Fold(effects, FoldInput{Pending: pending}, now)
}

func TestFoldNeverWritesBehindSweep(t *testing.T) {
	rule := orderRule()
	late := noon.Add(-time.Hour)
	net := foldEffects([]Effect{start(rule, "1", late)}, nil, noon)
	job := net.Create[0]
	if !job.FirstCheckAt.Equal(late) {
		t.Errorf("first check moved to %s", job.FirstCheckAt)
	}
	if want := noon.Add(time.Minute); !job.NextCheckAt.Equal(want) {
		t.Errorf("next check at %s, want the first slot after now, %s", job.NextCheckAt, want)
	}
}

func TestFoldClosesOpenAlerts(t *testing.T) {
	rule := orderRule()
	alertID := alerts.Decision{JobID: 7, CreatedAt: noon, Check: 1, Status: alerts.Firing, At: noon}.ID()
	pending := map[Ref]Job{{RuleID: 1, Key: "1"}: {ID: 7, Ref: Ref{RuleID: 1, Key: "1"}, CreatedAt: noon, Alerts: []alerts.ID{alertID}}}

	net := foldEffects([]Effect{end(rule, "1")}, pending, noon.Add(time.Hour))
	if len(net.End) != 1 || len(net.End[0].Alerts) != 1 {
		t.Fatalf("net effect %+v", net)
	}
	closing := net.End[0].Alerts[0]
	if closing.Status != alerts.Resolved || len(closing.Closes) != 1 || closing.Closes[0] != alertID {
		t.Errorf("closing alert %+v does not name %s", closing, alertID)
	}
	if got := net.End[0].Job.Alerts; len(got) != 2 || got[1] != closing.ID {
		t.Errorf("the job's alerts are %v", got)
	}
	if closing.ID.String() <= alertID.String() {
		t.Errorf("the closing alert sorts before what it closes")
	}
	// The nominal time of an alert that an event resolves is that of the event, so that a replay has the same.
	job := pending[Ref{RuleID: 1, Key: "1"}]
	job.Origin = alerts.OriginOf(noon, 1)
	pending[job.Ref] = job
	late := end(rule, "1")
	late.Event = &Event{Seq: 9, At: noon.Add(5 * time.Minute)}
	closing = foldEffects([]Effect{late}, pending, noon.Add(time.Hour)).End[0].Alerts[0]
	if !closing.Slot.Equal(late.Event.At) || !closing.DecidedAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("nominal time %s, decided at %s", closing.Slot, closing.DecidedAt)
	}

	pending[Ref{RuleID: 1, Key: "1"}] = Job{ID: 7, Ref: Ref{RuleID: 1, Key: "1"}}
	if quiet := foldEffects([]Effect{end(rule, "1")}, pending, noon); len(quiet.End[0].Alerts) != 0 {
		t.Errorf("the end of a job without alerts raises %+v", quiet.End[0].Alerts)
	}
}

// Any run of effects has the same result as playing them one at a time.
func TestFoldIsPlayOneByOne(t *testing.T) {
	rule := orderRule()
	rapid.Check(t, func(t *rapid.T) {
		pending := map[Ref]Job{}
		for _, k := range rapid.SliceOfDistinct(rapid.IntRange(0, 3), rapid.ID[int]).Draw(t, "pending") {
			ref := Ref{RuleID: 1, Key: fmt.Sprint(k)}
			pending[ref] = Job{Ref: ref, ID: int64(k) + 1}
		}
		steps := rapid.SliceOfN(rapid.IntRange(0, 7), 0, 12).Draw(t, "effects")

		waiting := map[string]bool{}
		for ref := range pending {
			waiting[ref.Key] = true
		}
		var effects []Effect
		kept, created, ended, missed := 0, 0, 0, 0
		for _, s := range steps {
			key := fmt.Sprint(s / 2)
			switch {
			case s%2 == 0 && waiting[key]:
				kept++
			case s%2 == 0:
				created++
				waiting[key] = true
			case waiting[key]:
				ended++
				delete(waiting, key)
			default:
				missed++
			}
			if s%2 == 0 {
				effects = append(effects, start(rule, key, noon.Add(time.Hour)))
			} else {
				effects = append(effects, end(rule, key))
			}
		}

		net := foldEffects(effects, pending, noon)
		if net.Kept != kept || net.Missed != missed || net.Created != created || net.Ended != ended ||
			len(net.Create)+len(net.StartedAndEnded) != created || len(net.End)+len(net.StartedAndEnded) != ended {
			t.Fatalf("net: kept %d, missed %d, created %d, ended %d; one by one: %d, %d, %d, %d",
				net.Kept, net.Missed, len(net.Create)+len(net.StartedAndEnded), len(net.End)+len(net.StartedAndEnded), kept, missed, created, ended)
		}
		left := map[string]bool{}
		for ref := range pending {
			left[ref.Key] = true
		}
		for _, d := range net.End {
			delete(left, d.Job.Key)
		}
		for _, j := range net.Create {
			if left[j.Key] {
				t.Fatalf("%s would be there twice", j.Key)
			}
			left[j.Key] = true
		}
		if len(left) != len(waiting) {
			t.Fatalf("left %v, one by one %v", left, waiting)
		}
	})
}

func TestFoldLeavesLaterWaitAlone(t *testing.T) {
	rule := orderRule()
	ref := Ref{RuleID: rule.ID, Key: "1"}
	waits := map[Ref]Job{ref: {ID: 7, Ref: ref, Since: noon, NextCheckAt: noon.Add(time.Hour)}}
	for at, ended := range map[time.Time]int{noon.Add(-time.Second): 0, noon: 1, noon.Add(time.Second): 1} {
		outOfOrder := end(rule, "1").at(at)
		outOfOrder.OutOfOrder = true
		if net := foldEffects([]Effect{outOfOrder}, waits, noon.Add(time.Minute)); len(net.End) != ended || net.Missed != 1-ended {
			t.Errorf("what happened at %s: %d ended, %d missed", at, len(net.End), net.Missed)
		}
	}
	again := start(rule, "1", noon).at(noon.Add(-time.Hour))
	again.OutOfOrder = true
	again.Action = Start{Job: Job{FirstCheckAt: noon}, Restart: true}
	if net := foldEffects([]Effect{again}, waits, noon.Add(time.Minute)); len(net.End)+len(net.Create) != 0 {
		t.Errorf("an old trigger restarted a newer job: %+v", net)
	}
}

// An event's transaction began before a check ended, and waited for its settlement: its alert comes after that of the
// check when alerts are republished. A check dated by a clock that was set back since does not matter.
func TestEventIsDecidedAfterCheckThatItWaitedFor(t *testing.T) {
	rule := orderRule()
	for ahead, want := range map[time.Duration]time.Duration{
		-time.Minute: 0, 0: time.Microsecond, 3 * time.Millisecond: 3001 * time.Microsecond, time.Hour: 0,
	} {
		for name, last := range map[string]CheckTimes{"completed": {CompletedAt: noon.Add(ahead)}, "failed": {FailedAt: noon.Add(ahead)}} {
			job := Job{Ref: Ref{RuleID: rule.ID, Key: "1"}, ID: 1, Since: noon.Add(-time.Hour), Alerts: []alerts.ID{{1}}, Last: last}
			net := foldEffects([]Effect{end(rule, "1")}, map[Ref]Job{job.Ref: job}, noon)
			if len(net.End) != 1 || len(net.End[0].Alerts) != 1 {
				t.Fatalf("%+v", net.End)
			}
			if got := net.End[0].Alerts[0].DecidedAt; !got.Equal(noon.Add(want)) {
				t.Errorf("a check %s %s after the event's transaction began: decided at %s, want %s later", name, ahead, got, want)
			}
		}
	}
}
