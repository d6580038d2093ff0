package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// ticking returns the batch of a tick, from one second to another.
func ticking(w *fixture, after, last uint64, effects ...futurejobs.Effect) futurejobs.EffectBatch {
	return futurejobs.EffectBatch{
		Stream: futurejobs.TickStream(w.rule.ID), After: after, Last: last, LastAt: time.Unix(int64(last), 0), //nolint:gosec // a second since 1970
		RuleSet: w.set, Effects: effects,
	}
}

// ticksHaveCursors checks that ticks have cursors that are not of streams: no sweep depends on their being read. Their
// jobs are counted.
func ticksHaveCursors(t *testing.T, w *fixture) {
	name := futurejobs.TickStream(w.rule.ID)
	all := func() map[string]futurejobs.Cursor {
		return must[map[string]futurejobs.Cursor](t)(w.TickCursors(w.ctx()))
	}
	if len(all()) != 0 {
		t.Errorf("before there are any: %v", all())
	}
	w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: name, LastSeq: 100}))
	w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: name, LastSeq: 200}))
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), ticking(w, 100, 160, w.starting(w.rule, "a", w.slot()), w.starting(w.rule, "b", w.slot()))))
	if _, err := w.Apply(w.ctx(), ticking(w, 100, 160, w.starting(w.rule, "c", w.slot()))); !errors.Is(err, futurejobs.ErrCursorMoved) {
		t.Errorf("a tick that was applied: %v, want ErrMoved", err)
	}
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), ticking(w, 160, 220)))
	want := map[string]futurejobs.Cursor{name: {Stream: name, LastSeq: 220, LastAt: time.Unix(220, 0).UTC(), Created: 2}}
	if diff := cmp.Diff(want, all()); diff != "" {
		t.Errorf("cursors (-want +got):\n%s", diff)
	}
	if streams := must[map[string]futurejobs.Cursor](t)(w.Cursors(w.ctx())); len(streams) != 2 || streams[name].Stream != "" {
		t.Errorf("cursors of streams: %v", streams)
	}
	if through := must[map[string]futurejobs.StreamProgress](t)(w.ReadThrough(w.ctx())); len(through) != 2 { // the fixture's stream, and pings
		t.Errorf("streams: %v", through)
	}
	checkBalance(w, 2)
}

// startsExpire checks that an expired start is only in the history. An early event gives it another outcome, and a kept
// job continues.
func startsExpire(t *testing.T, w *fixture) {
	at := w.slot()
	expired := func(key string, restart bool) futurejobs.Effect {
		j := w.job(w.rule, key, at)
		j.Since = at
		return actionEffect(w, w.rule, key, time.Time{}, futurejobs.StartExpired{Start: futurejobs.Start{Job: j, Early: true, Restart: restart}, Reason: "found late"})
	}
	w.applyManually(eventEffect(w, "early", at, time.Hour))
	w.start(at, "kept", "anew")
	kept := w.one("kept")
	for key, want := range map[string]applyCounts{
		"new": {Created: 1, Ended: 1}, "early": {Created: 1, Ended: 1}, "kept": {Kept: 1}, "anew": {Created: 1, Ended: 2},
	} {
		if got := countsOfApply(w.applyManually(expired(key, key == "anew"))); got != want {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
	}
	outcomes := make(map[string][]string)
	for _, e := range w.ended() {
		outcomes[e.Key] = append(outcomes[e.Key], string(e.Outcome)+" "+e.Reason)
	}
	want := map[string][]string{
		"new": {"expired found late"}, "early": {"resolved the end arrived before the trigger"}, "anew": {"expired found late", "restarted "},
	}
	if diff := cmp.Diff(want, outcomes); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(kept, w.one("kept")); diff != "" || len(w.all()) != 1 {
		t.Errorf("%d jobs are left; what is kept changed:\n%s", len(w.all()), diff)
	}
	checkBalance(w, 5)
}

// dueJobsAreCheckedBeforeTicks checks that a patient batch writes nothing while a job that it would restart is due.
func dueJobsAreCheckedBeforeTicks(t *testing.T, w *fixture) {
	at := w.slot()
	w.start(at, "a", "b")
	j := w.one("a")
	w.settle(w.reschedule(j, at.Add(-24*time.Hour)))
	anew := func(key string) futurejobs.Effect {
		return actionEffect(w, w.rule, key, time.Time{}, futurejobs.Start{Job: w.job(w.rule, key, at), Restart: true})
	}
	patient := futurejobs.EffectBatch{RuleSet: w.set, Effects: []futurejobs.Effect{anew("b"), anew("a")}, FailIfDue: true}
	before := w.all()
	if _, err := w.Apply(w.ctx(), patient); !errors.Is(err, futurejobs.ErrJobDue) {
		t.Errorf("a wait that is due: %v, want ErrDue", err)
	}
	if diff := cmp.Diff(before, w.all()); diff != "" {
		t.Errorf("something was written:\n%s", diff)
	}
	patient.Effects = patient.Effects[:1]
	if got := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), patient)); got.Restarted != 1 {
		t.Errorf("a wait that is not due: %+v", got)
	}
	if got := w.applyManually(anew("a")); got.Restarted != 1 {
		t.Errorf("without patience: %+v", got)
	}
}

// ticksBlockRuleChanges checks that a change of a rule waits for an event that a tick of it publishes, until the tick is
// applied. A tick of a changed rule publishes nothing.
func ticksBlockRuleChanges(t *testing.T, w *fixture) {
	w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: futurejobs.TickStream(w.rule.ID), LastSeq: 100}))
	hold := func() error { return w.HoldTick(w.ctx(), w.rule.ID, w.set) }
	w.must(hold())
	if err := hold(); !errors.Is(err, futurejobs.ErrHeld) {
		t.Errorf("held twice: %v, want ErrHeld", err)
	}
	w.must(w.ReleaseTick(w.ctx(), w.rule.ID))
	w.must(hold())
	deleted := make(chan error, 1)
	go func() {
		_, err := w.Delete(w.ctx(), w.rule.Name, w.rule.Version)
		deleted <- err
	}()
	select {
	case err := <-deleted:
		t.Fatalf("the rule was deleted while it was held: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	must[rules.RuleVersion](t)(w.Save(w.ctx(), rules.RuleVersion{Name: "other", Entity: "order", Document: []byte(`{}`)}, rules.AnyVersion))
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), ticking(w, 100, 160)))
	w.must(<-deleted)
	if err := hold(); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Errorf("of a deleted rule: %v, want ErrRulesChanged", err)
	}
}
