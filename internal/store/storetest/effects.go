package storetest

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// actionEffect returns the effect of an action on the job of a key, for an event at an instant; the zero time means a manual
// action.
func actionEffect(w *fixture, rule *futurejobs.Rule, key string, at time.Time, action futurejobs.Action) futurejobs.Effect {
	e := futurejobs.Effect{Rule: rule, Ref: w.ref(rule, key), Action: action}
	if !at.IsZero() {
		e.Event = &futurejobs.Event{Stream: "ORDERS", Subject: "orders.changed", Seq: 8, At: at}
	}
	return e
}

// startWithState returns the effect of an update of a key.
func startWithState(w *fixture, rule *futurejobs.Rule, key, state string) futurejobs.Effect {
	return actionEffect(w, rule, key, w.slot(), futurejobs.Update{
		Merge: func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage(state), nil },
	})
}

// pendingJob returns the pending job of a key, even if paused.
func pendingJob(w *fixture, key string) futurejobs.Job {
	w.t.Helper()
	return must[futurejobs.ListedJob](w.t)(w.Job(w.ctx(), w.rule.Name, key)).Job
}

func updatesKeepNextCheck(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	before := w.one("a")
	got := w.applyManually(startWithState(w, w.rule, "a", `{"status":"PACKED"}`), startWithState(w, w.rule, "unknown", `{}`))
	if got.Updated != 1 || got.Missed != 1 {
		t.Errorf("applied %+v, want one update and one miss", got)
	}
	want := before
	want.State = json.RawMessage(`{"status":"PACKED"}`)
	if diff := cmp.Diff(want, w.one("a")); diff != "" {
		t.Errorf("the job (-want +got):\n%s", diff)
	}
	// The running check stays valid, and its settlement keeps the update.
	if settled := w.settle(w.reschedule(before, w.slot().Add(time.Hour))); !settled.Jobs[before.ID] {
		t.Error("an update made a decision drop")
	}
	if got := w.one("a"); string(got.State) != `{"status":"PACKED"}` || got.Rev != before.Rev+1 {
		t.Errorf("after the settle: state %s, rev %d", got.State, got.Rev)
	}
	if got := w.one("b"); got.State != nil {
		t.Errorf("the other job has the state %s", got.State)
	}
}

func pausesStopJobTime(t *testing.T, w *fixture) {
	slot, from := w.slot(), w.slot().Add(-3*time.Hour)
	w.start(slot, "a", "b")
	before := w.one("a")
	if got := w.applyManually(actionEffect(w, w.rule, "a", from, futurejobs.Pause{}), actionEffect(w, w.rule, "a", from, futurejobs.Pause{})); got.Paused != 1 || got.Missed != 1 {
		t.Errorf("applied %+v, want one pause", got)
	}
	want := before
	want.Rev, want.NextCheckAt, want.PausedNext = before.Rev+1, futurejobs.FarFuture, slot
	want.Pauses = []checks.Pause{{From: from}}
	got := pendingJob(w, "a")
	got.Trail = "" // see trailsRecordEffects
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paused (-want +got):\n%s", diff)
	}
	if settled := w.settle(w.exhausted(before)); len(settled.Jobs) != 0 || len(w.unpublished()) != 0 {
		t.Errorf("a job that was paused meanwhile was settled: %+v", settled)
	}
	if jobs := w.all(); len(jobs) != 1 || jobs[0].Key != "b" {
		t.Errorf("due within a year: %v, want b alone", jobs)
	}
	listed := keysOf(pages(t, futurejobs.Filter{Limit: 1}, w.Jobs), func(l futurejobs.ListedJob) string { return l.Key })
	if diff := cmp.Diff([]string{"b", "a"}, listed); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	if overdue := pages(t, futurejobs.Filter{DueBefore: slot.AddDate(7000, 0, 0)}, w.Jobs); len(overdue) != 1 {
		t.Errorf("%d jobs due in thousands of years, want b alone", len(overdue))
	}
	if g := must[store.Gauges](t)(w.Gauges(w.ctx())); g.Pending != 2 || g.Due != 0 || !g.OldestDue.IsZero() {
		t.Errorf("gauges: %+v", g)
	}

	to := from.Add(90*time.Minute + time.Second)
	if got := w.applyManually(actionEffect(w, w.rule, "a", to, futurejobs.Resume{})); got.Resumed != 1 {
		t.Errorf("applied %+v, want one resume", got)
	}
	want.Rev, want.PausedNext, want.Pauses = before.Rev+2, time.Time{}, []checks.Pause{{From: from, To: to}}
	want.NextCheckAt = slot.Add(91 * time.Minute)
	if diff := cmp.Diff(want, w.one("a")); diff != "" {
		t.Errorf("resumed (-want +got):\n%s", diff)
	}
}

func pausedJobsEnd(t *testing.T, w *fixture) {
	slot := w.slot()
	w.start(slot, "a")
	w.applyManually(actionEffect(w, w.rule, "a", slot, futurejobs.Pause{}))
	w.applyManually(
		w.ending(w.rule, "a"),
		w.starting(w.rule, "born", slot), actionEffect(w, w.rule, "born", slot, futurejobs.Pause{}), w.ending(w.rule, "born"),
		w.starting(w.rule, "new", slot), actionEffect(w, w.rule, "new", slot, futurejobs.Pause{}),
	)
	for _, e := range w.ended() {
		if !e.NextCheckAt.Equal(slot) {
			t.Errorf("history of %s: next check at %s, want when it would have been, %s", e.Key, e.NextCheckAt, slot)
		}
	}
	if j := pendingJob(w, "new"); !j.PausedAt().Equal(slot) || !j.PausedNext.Equal(slot) || j.Rev != 0 {
		t.Errorf("begun and paused: %+v", j)
	}
	checkBalance(w, 3)
}

func restartsResetJob(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	w.settle(w.reschedule(w.one("a"), w.slot().Add(time.Hour)))
	old := w.one("a")
	first := w.slot().Add(2 * time.Hour)
	got := w.applyManually(actionEffect(w, w.rule, "a", w.slot(), futurejobs.Start{
		Job: w.job(w.rule, "a", first), Restart: true, Close: resolvedEnd.Close,
	}))
	if got.Restarted != 1 || got.Created != 1 || got.Ended != 1 || len(got.Alerts) != 1 {
		t.Errorf("applied %+v", got)
	}
	if j := w.one("a"); j.ID <= old.ID || j.Rev != 0 || !j.FirstCheckAt.Equal(first) || len(j.Alerts) != 0 {
		t.Errorf("the new job: %+v, the old: %+v", j, old)
	}
	ended := w.ended()
	if len(ended) != 1 || ended[0].ID != old.ID || ended[0].Outcome != checks.Restarted || len(ended[0].Alerts) != 2 {
		t.Errorf("history: %+v", ended)
	}
	if settled := w.settle(w.exhausted(old)); len(settled.Jobs) != 0 {
		t.Error("the job before was settled")
	}
	checkBalance(w, 2)
}

func manualActionsChangeJobs(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c")
	a := w.one("a")
	until := w.slot().Add(5*time.Hour + time.Second)
	stale := a.Rev + 1
	missed := actionEffect(w, w.rule, "b", time.Time{}, futurejobs.Snooze{Until: until})
	missed.Rev = &stale
	newer := *w.rule
	newer.Version = 7
	got := w.applyManually(
		actionEffect(w, w.rule, "a", time.Time{}, futurejobs.Snooze{Until: until}), missed,
		actionEffect(w, &newer, "c", time.Time{}, futurejobs.MoveToVersion{Next: func(futurejobs.Job) time.Time { return w.slot().Add(time.Hour) }}),
	)
	if got.Changed != 2 || got.Missed != 1 {
		t.Errorf("applied %+v, want two changes and a miss", got)
	}
	if j := w.one("a"); !j.NextCheckAt.Equal(w.slot().Add(5*time.Hour+time.Minute)) || j.Rev != a.Rev+1 || !j.FirstCheckAt.Equal(a.FirstCheckAt) || !j.SnoozedUntil.Equal(until) {
		t.Errorf("snoozed: %+v", j)
	}
	if j := w.one("b"); j.Rev != 0 || !j.SnoozedUntil.IsZero() || !j.NextCheckAt.Equal(w.slot()) {
		t.Errorf("asked for another rev: %+v", j)
	}
	if j := w.one("c"); j.Version != 7 || j.Rev != 1 || !j.NextCheckAt.Equal(w.slot().Add(time.Hour)) {
		t.Errorf("moved: %+v", j)
	}
	if settled := w.settle(w.exhausted(a)); len(settled.Jobs) != 0 {
		t.Error("a job that was snoozed meanwhile was settled")
	}
	sooner := w.slot().Add(time.Minute)
	w.applyManually(actionEffect(w, w.rule, "c", time.Time{}, futurejobs.Snooze{Until: sooner}))
	if j := w.one("c"); !j.NextCheckAt.Equal(w.slot().Add(time.Hour)) || !j.SnoozedUntil.Equal(sooner) {
		t.Errorf("a snooze brought a check forward: %+v", j)
	}
}

// addMember returns the action that adds a member to a set of three.
func addMember(member string, early time.Duration) futurejobs.AddMember {
	return futurejobs.AddMember{
		Set: 1, Member: member, Need: func(futurejobs.Job) (int, error) { return 3, nil },
		End: futurejobs.End{Outcome: "complete", Early: early},
	}
}

func setsCollectMembers(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	before := w.one("a")
	for _, member := range []string{"x", "y", "x"} {
		w.applyManually(actionEffect(w, w.rule, "a", w.slot(), addMember(member, 0)))
	}
	j := w.one("a")
	if j.Members.Count(1) != 2 || j.Members.Count(0) != 0 || j.Rev != before.Rev {
		t.Errorf("%d members, rev %d", j.Members.Count(1), j.Rev)
	}
	w.settle(w.reschedule(before, w.slot().Add(time.Minute)))
	if n := w.one("a").Members.Count(1); n != 2 {
		t.Errorf("a settle left %d members", n)
	}
	if got := w.applyManually(actionEffect(w, w.rule, "a", w.slot(), addMember("z", 0))); got.Ended != 1 {
		t.Errorf("the last member ends nothing: %+v", got)
	}
	if e := w.ended(); len(e) != 1 || e[0].Outcome != "complete" {
		t.Errorf("history: %+v", e)
	}
}

// failedUpdatesBecomeDeadLetters checks that an effect that fails becomes a dead letter, and that the other effects of the
// batch are applied.
func failedUpdatesBecomeDeadLetters(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	bad := actionEffect(w, w.rule, "a", w.slot(), futurejobs.Update{
		Merge: func(json.RawMessage) (json.RawMessage, error) { return nil, errors.New("too large") },
	})
	got := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), batch(w, 7, 9, bad, w.starting(w.rule, "b", w.slot()))))
	if got.Refused != 1 || got.Created != 1 {
		t.Errorf("applied %+v", got)
	}
	letters := pages(t, futurejobs.Filter{}, w.DeadLetters)
	if len(letters) != 1 || letters[0].Reason != "too large" || letters[0].Rule != w.rule.Name || letters[0].Event.Seq != 8 {
		t.Errorf("letters: %+v", letters)
	}
}
