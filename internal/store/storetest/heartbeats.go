package storetest

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// postponeEffect returns the effect of a heartbeat at an instant that moves the next check of its job to a slot.
func postponeEffect(w *fixture, key string, at, next time.Time) futurejobs.Effect {
	return actionEffect(w, w.rule, key, at, futurejobs.Heartbeat{Play: func(j *futurejobs.Job) (futurejobs.HeartbeatResult, error) {
		body := json.RawMessage(strconv.Quote("beat"))
		if j == nil {
			return futurejobs.HeartbeatResult{Begin: &futurejobs.Job{Version: w.rule.Version, Since: at, FirstCheckAt: next, Event: body}}, nil
		}
		after := *j
		after.Since, after.Event, after.Step, after.CheckCount, after.UndeterminedChecks = at, body, 0, 0, 0
		return futurejobs.HeartbeatResult{Job: &after, Next: next}, nil
	}})
}

func heartbeatsPostponeJob(t *testing.T, w *fixture) {
	slot := w.slot()
	beat := func(at, next time.Time) {
		t.Helper()
		w.applyManually(postponeEffect(w, "a", at, next))
	}
	beat(slot, slot.Add(time.Hour))
	begun := w.one("a")
	decided := w.reschedule(begun, slot.Add(2*time.Hour))
	decided.Job.Step, decided.Job.CheckCount, decided.Job.UndeterminedChecks = 1, 4, 2
	w.settle(decided)

	at := slot.Add(90*time.Minute + time.Microsecond)
	beat(at, slot.Add(3*time.Hour))
	want := w.one("a")
	if want.Step != 0 || want.CheckCount != 0 || want.UndeterminedChecks != 0 || !want.Since.Equal(at) || string(want.Event) != `"beat"` ||
		!want.NextCheckAt.Equal(slot.Add(3*time.Hour)) || !want.FirstCheckAt.Equal(begun.FirstCheckAt) || want.Rev != begun.Rev+2 {
		t.Errorf("put off: %+v", want)
	}
	if settled := w.settle(w.exhausted(begun)); len(settled.Jobs) != 0 {
		t.Error("a check from before a heartbeat was settled")
	}

	beat(at.Add(time.Minute), slot.Add(3*time.Hour)) // in the same slot
	if diff := cmp.Diff(want, w.one("a")); diff != "" {
		t.Errorf("a beat that changes nothing wrote (-want +got):\n%s", diff)
	}

	// The alert is closed, and another job starts under the same key.
	back := actionEffect(w, w.rule, "a", at, futurejobs.Heartbeat{Play: func(*futurejobs.Job) (futurejobs.HeartbeatResult, error) {
		return futurejobs.HeartbeatResult{
			End: &futurejobs.End{Outcome: checks.Resolved, Reason: "it is back", Close: func(futurejobs.Job) alerts.Draft {
				return alerts.Draft{Status: alerts.Resolved}
			}},
			Begin: &futurejobs.Job{Version: w.rule.Version, Since: at, FirstCheckAt: slot.Add(4 * time.Hour)},
		}, nil
	}})
	if got := w.applyManually(back); got.Ended != 1 || got.Created != 1 {
		t.Errorf("applied %+v, want one end and one beginning", got)
	}
	if ended := w.ended(); len(ended) != 1 || ended[0].ID != begun.ID || ended[0].Reason != "it is back" {
		t.Errorf("history %+v", ended)
	}
	if again := w.one("a"); again.ID == begun.ID || !again.Since.Equal(at) {
		t.Errorf("the job after the end: %+v", again)
	}
}

// heartbeatsOfSlotAreOneWrite counts the changes of rows by their revisions: each write adds one.
func heartbeatsOfSlotAreOneWrite(t *testing.T, w *fixture) {
	const keys, each = 50, 10
	slot := w.slot()
	var first, more []futurejobs.Effect
	for key := range keys {
		first = append(first, postponeEffect(w, strconv.Itoa(key), slot, slot.Add(time.Hour)))
	}
	w.applyManually(first...)
	for i := range keys * each {
		at := slot.Add(time.Duration(i) * time.Millisecond)
		more = append(more, postponeEffect(w, strconv.Itoa(i%keys), at, slot.Add(2*time.Hour)))
	}
	half := w.applyManually(more[:len(more)/2]...)
	rest := w.applyManually(more[len(more)/2:]...)
	if half.Postponed != keys*each/2 || half.Coalesced != 0 {
		t.Errorf("a batch of beats in which the slot changes: %+v, want all of them in one write", half)
	}
	if rest.Postponed != 0 || rest.Coalesced != keys*each/2 {
		t.Errorf("the next batch: %+v, want nothing written", rest)
	}
	for key := range keys {
		if j := w.one(strconv.Itoa(key)); j.Rev != 1 {
			t.Fatalf("job %d was written %d times for %d beats, want once", key, j.Rev, each)
		}
	}
}
