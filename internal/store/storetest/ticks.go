package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/rules/document"
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

// recorded returns the batch of a tick that is recorded, from one second to another.
func recorded(w *fixture, rule *futurejobs.Rule, after, last uint64, tick futurejobs.AppliedTick) futurejobs.EffectBatch {
	b := ticking(w, after, last)
	tick.RuleID, tick.At = rule.ID, b.LastAt
	b.Stream, b.Rules, b.Tick = futurejobs.TickStream(rule.ID), []int32{rule.ID}, &tick
	return b
}

// ticks returns the applied ticks of a rule, in pages of two, without the times of their application.
func ticks(w *fixture, rule *futurejobs.Rule, f futurejobs.TickFilter) (all []futurejobs.AppliedTick) {
	w.t.Helper()
	now := must[time.Time](w.t)(w.Now(w.ctx()))
	for f.Limit = 2; ; {
		page := must[futurejobs.Page[futurejobs.AppliedTick]](w.t)(w.Ticks(w.ctx(), rule.ID, f))
		for _, tick := range page.Items {
			if age := now.Sub(tick.AppliedAt); age < 0 || age > time.Hour {
				w.t.Errorf("the tick at %s was applied at %s, now it is %s", tick.At, tick.AppliedAt, now)
			}
			tick.At, tick.AppliedAt = tick.At.UTC(), time.Time{}
			all = append(all, tick)
		}
		if f.Cursor = page.Next; f.Cursor == "" || len(page.Items) != 2 {
			return all
		}
	}
}

// appliedTicksAreRecorded checks that a tick has one row, written with its cursor: neither a repeated application nor one
// after another cursor changes it, and a batch that is refused leaves none.
func appliedTicksAreRecorded(t *testing.T, w *fixture) {
	rule := w.rule
	w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: futurejobs.TickStream(rule.ID), LastSeq: 100}))
	first := recorded(w, rule, 100, 160, futurejobs.AppliedTick{Outcome: futurejobs.TickStarted, Attempts: 1})
	first.Effects = []futurejobs.Effect{w.starting(rule, "a", w.slot())}
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), first))
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), recorded(w, rule, 160, 340,
		futurejobs.AppliedTick{Outcome: futurejobs.TickEmitted, Missed: 2, Attempts: 3, EventID: "orders-340"})))
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), ticking(w, 340, 400))) // of a node of the version before
	second := time.Unix(340, 0).UTC()
	want := []futurejobs.AppliedTick{
		{RuleID: rule.ID, At: second, Outcome: futurejobs.TickEmitted, Missed: 2, Attempts: 3, EventID: "orders-340"},
		{RuleID: rule.ID, At: time.Unix(160, 0).UTC(), Outcome: futurejobs.TickStarted, Attempts: 1},
	}
	check := func(when string) {
		t.Helper()
		if diff := cmp.Diff(want, ticks(w, rule, futurejobs.TickFilter{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("two ticks")
	stale := recorded(w, rule, 160, 460, futurejobs.AppliedTick{Outcome: futurejobs.TickSkipped, Attempts: 1})
	for when, b := range map[string]futurejobs.EffectBatch{"a repeated application": first, "an application after another cursor": stale} {
		if _, err := w.Apply(w.ctx(), b); !errors.Is(err, futurejobs.ErrCursorMoved) {
			t.Errorf("%s: %v, want ErrCursorMoved", when, err)
		}
		check(when)
	}
	changed := recorded(w, rule, 400, 460, futurejobs.AppliedTick{Outcome: futurejobs.TickSkipped, Attempts: 1})
	changed.RuleSet = 0
	if _, err := w.Apply(w.ctx(), changed); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Errorf("a rule that changed: %v, want ErrRulesChanged", err)
	}
	check("a refused application")
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), recorded(w, rule, 400, 160, // the clock was ahead
		futurejobs.AppliedTick{Outcome: futurejobs.TickExpired, Attempts: 9})))
	check("a tick that was applied before its cursor was in the future")
}

// appliedTicksAreFiltered checks the filters of the list, and that ticks of other rules are not in it.
func appliedTicksAreFiltered(t *testing.T, w *fixture) {
	other := saveKept(w, "other", nil)
	for _, rule := range []*futurejobs.Rule{w.rule, other} {
		w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: futurejobs.TickStream(rule.ID), LastSeq: 100}))
		at := uint64(100)
		for _, outcome := range []futurejobs.TickOutcome{futurejobs.TickStarted, futurejobs.TickPaused, futurejobs.TickSkipped, futurejobs.TickExpired, futurejobs.TickStarted} {
			must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), recorded(w, rule, at, at+60, futurejobs.AppliedTick{Outcome: outcome, Attempts: 1})))
			at += 60
		}
	}
	second := func(s int64) time.Time { return time.Unix(s, 0) }
	for _, c := range []struct {
		f    futurejobs.TickFilter
		want []int64
	}{
		{futurejobs.TickFilter{}, []int64{400, 340, 280, 220, 160}},
		{futurejobs.TickFilter{After: second(220)}, []int64{400, 340, 280, 220}},
		{futurejobs.TickFilter{Before: second(220)}, []int64{160}},
		{futurejobs.TickFilter{After: second(220), Before: second(340)}, []int64{280, 220}},
		{futurejobs.TickFilter{Outcome: futurejobs.TickStarted}, []int64{400, 160}},
		{futurejobs.TickFilter{Outcome: futurejobs.TickExpired, Before: second(400)}, []int64{340}},
		{futurejobs.TickFilter{Outcome: futurejobs.TickEmitted}, nil},
	} {
		var got []int64
		for _, tick := range ticks(w, w.rule, c.f) {
			got = append(got, tick.At.Unix())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.f, diff)
		}
	}
	if _, err := w.Ticks(w.ctx(), w.rule.ID, futurejobs.TickFilter{Cursor: "other"}); !errors.Is(err, futurejobs.ErrBadCursor) {
		t.Errorf("a cursor of another list: %v, want ErrBadCursor", err)
	}
}

// appliedTicksAreForgotten checks that ticks are kept as long as the history of their rule, also of a deleted one.
func appliedTicksAreForgotten(t *testing.T, w *fixture) {
	short, long := saveKept(w, "short", &document.Retention{History: 7 * keptDay}), saveKept(w, "long", &document.Retention{History: 400 * keptDay})
	now := uint64(must[time.Time](t)(w.Now(w.ctx())).Unix()) //nolint:gosec // a second since 1970
	day := uint64(futurejobs.Day / time.Second)
	for _, rule := range []*futurejobs.Rule{w.rule, short, long} {
		after := uint64(100)
		w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: futurejobs.TickStream(rule.ID), LastSeq: after}))
		for _, age := range []uint64{500, 100, 20, 1} {
			must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), recorded(w, rule, after, now-age*day, futurejobs.AppliedTick{Outcome: futurejobs.TickStarted, Attempts: 1})))
			after = now - age*day
		}
	}
	must[int32](t)(w.Delete(w.ctx(), short.Name, short.Version))
	counts := func(keep store.Retention, want ...store.RetentionCount) {
		t.Helper()
		got := must[[]store.RetentionCount](t)(w.CountRetention(w.ctx(), store.RetentionQuery{Retention: keep, At: time.Unix(int64(now), 0)})) //nolint:gosec // as above
		if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(0)); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	}
	oldest := time.Unix(int64(now-500*day), 0).UTC() //nolint:gosec // as above
	counts(store.Retention{}, store.RetentionCount{Kind: "ticks", Rule: "long", Rows: 1, Oldest: oldest}, store.RetentionCount{Kind: "ticks", Rule: "short", Rows: 3, Oldest: oldest})
	if got := must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{})); got.Ticks != 4 { // of the rules with their own period
		t.Errorf("%d ticks are pruned without a setting, want 4", got.Ticks)
	}
	counts(settingsOfRetention, store.RetentionCount{Kind: "ticks", Rule: w.rule.Name, Rows: 2, Oldest: oldest})
	if got := must[store.Pruned](t)(w.Prune(w.ctx(), settingsOfRetention)); got.Ticks != 2 {
		t.Errorf("%d ticks are pruned, want 2", got.Ticks)
	}
	for _, c := range []struct {
		rule *futurejobs.Rule
		want int
	}{{w.rule, 2}, {short, 1}, {long, 3}} {
		if got := ticks(w, c.rule, futurejobs.TickFilter{}); len(got) != c.want {
			t.Errorf("%d ticks of %s are left, want %d: %v", len(got), c.rule.Name, c.want, got)
		}
	}
}
