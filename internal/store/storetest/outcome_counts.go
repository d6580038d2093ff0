package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
)

// endsAreCounted checks that ended jobs are counted by hour, rule and outcome, those with a step as late, and that the
// slowest checked job comes first.
func endsAreCounted(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c")
	for i, key := range []string{"a", "b", "c"} {
		d := w.exhausted(w.one(key))
		d.Job.Step = min(i, 1)
		d.Job.CheckStats = futurejobs.CheckStats{CheckAttempts: i, CheckTotal: time.Duration(i*i) * time.Second, CheckSlowest: time.Duration(i) * time.Second}
		w.settle(d)
	}
	ended := w.ended()
	counted, late := map[time.Time]int64{}, map[time.Time]int64{} // a new hour may have begun meanwhile
	for _, e := range ended {
		hour := e.EndedAt.UTC().Truncate(time.Hour)
		counted[hour]++
		if e.Key != "a" {
			late[hour]++
		}
	}
	last := ended[0].EndedAt
	for _, e := range must[[]futurejobs.OutcomeCount](t)(w.OutcomeCounts(w.ctx(), last.Add(-time.Hour), last.Add(time.Hour))) {
		want := futurejobs.OutcomeCount{Hour: e.Hour, Rule: w.rule.Name, Entity: w.rule.Entity, Outcome: "exhausted", Jobs: counted[e.Hour.UTC()], AfterStep: late[e.Hour.UTC()]}
		if diff := cmp.Diff(want, e); diff != "" {
			t.Errorf("ends of an hour (-want +got):\n%s", diff)
		}
		delete(counted, e.Hour.UTC())
	}
	if len(counted) != 0 {
		t.Errorf("not counted: %v", counted)
	}
	if none := must[[]futurejobs.OutcomeCount](t)(w.OutcomeCounts(w.ctx(), last.Add(time.Minute), last.Add(time.Hour))); len(none) != 0 {
		t.Errorf("ended later: %+v", none)
	}
	slowest := must[[]futurejobs.EndedJob](t)(w.Slowest(w.ctx(), last.Add(-time.Hour), 5))
	if len(slowest) != 2 || slowest[0].Key != "c" || slowest[1].Key != "b" {
		t.Errorf("the slowest of the checked jobs: %+v", slowest)
	}
}
