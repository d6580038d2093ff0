package futurejobs

import (
	"errors"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// postponeEffect returns a heartbeat that sets the job's next check; a new time requires a write.
func postponeEffect(next time.Time, isNew bool) Effect {
	return effectOf(orderRule(), Heartbeat{Play: func(j *Job) (HeartbeatResult, error) {
		switch {
		case j == nil:
			return HeartbeatResult{Begin: &Job{Version: 1, Since: noon, FirstCheckAt: next}}, nil
		case len(j.Alerts) > 0:
			end := &End{Outcome: checks.Resolved, Close: func(Job) alerts.Draft { return alerts.Draft{Status: alerts.Resolved} }}
			return HeartbeatResult{End: end, Begin: &Job{Version: 1, Since: noon, FirstCheckAt: next}}, nil
		}
		after := *j
		after.Since = next.Add(-time.Hour)
		return HeartbeatResult{Job: &after, Next: next, MustWrite: isNew}, nil
	}})
}

func TestHeartbeatOfSameSlotWritesNothing(t *testing.T) {
	_, pending := pendingState()
	slot := noon.Add(3 * time.Hour)
	if net := foldEffects([]Effect{postponeEffect(slot, false)}, pending, noon); net.Coalesced != 1 || len(net.Change) != 0 {
		t.Errorf("a beat that leaves the slot: %+v", net)
	}
	if net := foldEffects([]Effect{postponeEffect(slot, true)}, pending, noon); net.Postponed != 1 || len(net.Change) != 1 {
		t.Errorf("a heartbeat with a new time: %+v", net)
	}
	later := slot.Add(time.Hour)
	net := foldEffects([]Effect{postponeEffect(later, false), postponeEffect(later, false), postponeEffect(later.Add(time.Minute), false)}, pending, noon)
	if net.Postponed != 3 || len(net.Change) != 1 || !net.Change[0].NextCheckAt.Equal(later.Add(time.Minute)) {
		t.Errorf("beats of one run: %+v, want the last in one write", net)
	}
}

func TestHeartbeatIsNeverWrittenBehindSweep(t *testing.T) {
	_, pending := pendingState()
	now := noon.Add(10 * time.Hour)
	net := foldEffects([]Effect{postponeEffect(noon.Add(5*time.Hour), false)}, pending, now)
	if want := now.Add(time.Minute); len(net.Change) != 1 || !net.Change[0].NextCheckAt.Equal(want) {
		t.Errorf("%+v, want a check at %s", net.Change, want)
	}
}

func TestHeartbeatInPauseCountsAtItsEnd(t *testing.T) {
	rule, pending := pendingState()
	slot := noon.Add(5 * time.Hour)
	net := foldEffects([]Effect{effectOf(rule, Pause{}).at(noon), postponeEffect(slot, false)}, pending, noon)
	if j := net.Change[0]; !j.NextCheckAt.Equal(FarFuture) || !j.PausedNext.Equal(slot) {
		t.Errorf("due at %s, after the pause at %s", j.NextCheckAt, j.PausedNext)
	}
	paused := net.Change[0]
	if net := foldEffects([]Effect{postponeEffect(slot, false)}, map[Ref]Job{paused.Ref: paused}, noon); net.Coalesced != 1 {
		t.Errorf("another beat of the slot in the pause: %+v", net)
	}
}

func TestHeartbeatAfterAlertRestartsJob(t *testing.T) {
	_, pending := alertingState()
	slot := noon.Add(5 * time.Hour)
	net := foldEffects([]Effect{postponeEffect(slot, false), postponeEffect(slot, false)}, pending, noon)
	switch {
	case len(net.End) != 1 || net.End[0].Outcome != checks.Resolved || len(net.End[0].Alerts) != 1:
		t.Errorf("ended %+v", net.End)
	case len(net.Create) != 1 || len(net.Change) != 0 || !net.Create[0].NextCheckAt.Equal(slot) || net.Create[0].CreatedAt != noon:
		t.Errorf("begun %+v", net.Create)
	}
}

func TestHeartbeatThatFailsBecomesDeadLetter(t *testing.T) {
	rule, pending := pendingState()
	bad := Heartbeat{Play: func(*Job) (HeartbeatResult, error) { return HeartbeatResult{}, errors.New("no room") }}
	net := foldEffects([]Effect{effectOf(rule, bad).at(noon)}, pending, noon)
	if len(net.DeadLetters) != 1 || net.DeadLetters[0].Part != Triggers || len(net.Change) != 0 {
		t.Errorf("net %+v", net)
	}
	nothing := Heartbeat{Play: func(*Job) (HeartbeatResult, error) { return HeartbeatResult{}, nil }}
	if net := foldEffects([]Effect{effectOf(rule, nothing)}, nil, noon); net.Missed != 1 {
		t.Errorf("a heartbeat without a job that begins none: %+v", net)
	}
}
