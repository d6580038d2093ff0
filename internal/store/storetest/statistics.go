package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// endAfter starts a job of a rule some time ago, takes its first step if it is late, and ends it.
func (w *fixture) endAfter(rule *futurejobs.Rule, key string, took time.Duration, late bool, outcome checks.Outcome) {
	w.t.Helper()
	job := w.job(rule, key, w.slot())
	job.Since = must[time.Time](w.t)(w.Now(w.ctx())).Add(-took)
	w.applyManually(begins(rule, job))
	if late {
		w.settle(w.reschedule(w.one(key), w.slot().Add(time.Hour)))
	}
	w.applyManually(futurejobs.Effect{Rule: rule, Ref: job.Ref, Action: futurejobs.End{Outcome: outcome}})
}

// advance moves the clock of the store and counts all hours that have ended.
func (w *fixture) advance(by time.Duration) (hours int) {
	w.t.Helper()
	w.GoBy(func(reported time.Time) time.Time { return reported.Add(by) })
	for must[bool](w.t)(w.CountOutcomeHour(w.ctx())) {
		hours++
	}
	return hours
}

// outcomesOf returns the counts of a rule's last month. All are of one hour, and the sums do not depend on a new hour
// that began meanwhile.
func (w *fixture) outcomesOf(rule *futurejobs.Rule) (sums map[futurejobs.OutcomeHour]int64, st futurejobs.Statistics) {
	w.t.Helper()
	st = must[futurejobs.Statistics](w.t)(w.Statistics(w.ctx(), []int32{rule.ID}, 30*futurejobs.Day))
	sums = make(map[futurejobs.OutcomeHour]int64)
	for _, h := range st.Hours {
		if h.Hour.Before(st.Since) || !h.Hour.Before(st.Until) {
			w.t.Errorf("%s is counted, from %s until %s", h.Hour, st.Since, st.Until)
		}
		sums[futurejobs.OutcomeHour{Kind: h.Kind, Took: h.Took}] += h.Jobs
	}
	return sums, st
}

// outcomesAreCountedByHour checks that ended jobs are counted by kind and time, once, after their hour, and that counts
// beyond their retention are deleted.
func outcomesAreCountedByHour(t *testing.T, w *fixture) {
	w.advance(0)
	if sums, st := w.outcomesOf(w.rule); len(sums) != 0 || !st.Since.IsZero() {
		t.Errorf("without history: %+v", st)
	}
	other := w.save("order-unpaid", "order")
	const minutes = 20*time.Minute + 10*time.Second
	w.endAfter(w.rule, "quick", minutes, false, checks.Resolved)
	w.endAfter(w.rule, "cleared", minutes, false, checks.Cleared)
	w.endAfter(w.rule, "slow", 30*futurejobs.Day+time.Hour, false, "delivered")
	w.endAfter(w.rule, "late", 3*time.Hour+4*time.Minute, true, checks.Resolved)
	for _, o := range checks.Outcomes() { // among them one more that is resolved, and one more that is cleared
		w.endAfter(w.rule, string(o), minutes, false, o)
	}
	w.endAfter(other, "other", minutes, false, checks.Resolved)
	last := w.ended()[0].EndedAt

	w.advance(2 * time.Hour)
	sums, st := w.outcomesOf(w.rule)
	want := map[futurejobs.OutcomeHour]int64{
		{Kind: futurejobs.InTime, Took: 20 * time.Minute}:    4,
		{Kind: futurejobs.InTime, Took: 30 * futurejobs.Day}: 1,
		{Kind: futurejobs.Late, Took: 3 * time.Hour}:         1,
		{Kind: futurejobs.Never}:                             int64(len(checks.Outcomes()) - 5), // without resolved, cleared, cancelled, restarted, rule_deleted
	}
	if diff := cmp.Diff(want, sums); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if st.Until.Before(last) || st.Since.After(last) {
		t.Errorf("counted from %s until %s; the last job ended at %s", st.Since, st.Until, last)
	}
	if sums, _ := w.outcomesOf(other); len(sums) != 1 || sums[futurejobs.OutcomeHour{Took: 20 * time.Minute}] != 1 {
		t.Errorf("the other rule: %+v", sums)
	}
	w.checkLastDay(map[int32][3]int64{w.rule.ID: {5, 1, int64(len(checks.Outcomes()) - 5)}, other.ID: {1}}, st.Until)
	if n := w.advance(2 * time.Hour); n > 1 {
		t.Errorf("%d hours are counted again", n)
	}
	w.advance(27 * time.Hour)
	if all := must[futurejobs.Statistics](t)(w.Statistics(w.ctx(), nil, 30*futurejobs.Day)); len(all.Hours) == 0 {
		t.Error("the statistics of all rules are empty")
	}
	if none := must[futurejobs.Statistics](t)(w.Statistics(w.ctx(), []int32{}, 30*futurejobs.Day)); len(none.Hours) != 0 || none.Until.IsZero() {
		t.Errorf("of no rule: %+v", none)
	}
	if day := must[futurejobs.Statistics](t)(w.Statistics(w.ctx(), []int32{w.rule.ID}, futurejobs.Day)); len(day.Hours) != 0 {
		t.Errorf("a day later: %+v", day)
	}
	w.checkLastDay(map[int32][3]int64{}, w.untilOf(w.rule))
	if again, _ := w.outcomesOf(w.rule); len(again) != len(want) {
		t.Errorf("a month has %+v", again)
	}
	if w.advance(-futurejobs.Day); w.untilOf(w.rule).After(last) { // the clock was fast
		t.Errorf("counted until %s", w.untilOf(w.rule))
	}
	w.GoBy(func(reported time.Time) time.Time { return reported.Add(33 * futurejobs.Day) })
	must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{}))
	w.GoBy(func(reported time.Time) time.Time { return reported.Add(2 * time.Hour) })
	if sums, st := w.outcomesOf(w.rule); len(sums) != 0 || !st.Since.IsZero() {
		t.Errorf("after their retention: %+v", st)
	}
}

func (w *fixture) untilOf(rule *futurejobs.Rule) time.Time {
	_, st := w.outcomesOf(rule)
	return st.Until
}

// checkLastDay checks the sums of the last day, by rule and kind.
func (w *fixture) checkLastDay(want map[int32][3]int64, until time.Time) {
	w.t.Helper()
	day := must[futurejobs.LastDay](w.t)(w.LastDay(w.ctx()))
	got := make(map[int32][3]int64)
	for rule, kinds := range day.Rules {
		var sums [3]int64
		for kind, hours := range kinds {
			for _, n := range hours {
				sums[kind] += n
			}
		}
		got[rule] = sums
	}
	if diff := cmp.Diff(want, got); diff != "" || !day.Until.Equal(until) {
		w.t.Errorf("the day until %s, want %s (-want +got):\n%s", day.Until, until, diff)
	}
}
