package storetest

import (
	"slices"
	"strconv"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
)

// inOneShard returns effects that start n jobs of a rule in shard 0.
func inOneShard(w *fixture, rule *futurejobs.Rule, n int, first time.Time) (effects []futurejobs.Effect) {
	for i := 0; len(effects) < n; i++ {
		if e := w.starting(rule, strconv.Itoa(i), first); e.Ref.Shard == 0 {
			effects = append(effects, e)
		}
	}
	return effects
}

// distantJobsAreListed checks that the jobs of a rule with many are listed in slot order, behind many earlier jobs
// of other rules.
func distantJobsAreListed(t *testing.T, w *fixture) {
	other := w.save("payment-missing", "payment")
	w.applyManually(inOneShard(w, w.rule, 300, w.slot())...)
	w.applyManually(inOneShard(w, other, 1100, w.slot().Add(time.Hour))...)
	want := slices.DeleteFunc(pages(t, futurejobs.Filter{Limit: 500}, w.Jobs), func(l futurejobs.ListedJob) bool { return l.Rule != other.Name })
	f := futurejobs.Filter{Rule: other.Name, Limit: 1}
	var got []int64
	for range 3 {
		page := must[futurejobs.Page[futurejobs.ListedJob]](t)(w.Jobs(w.ctx(), f))
		for _, l := range page.Items {
			got = append(got, l.ID)
		}
		f.Cursor = page.Next
	}
	if len(want) != 1100 || !slices.Equal(got, []int64{want[0].ID, want[1].ID, want[2].ID}) {
		t.Errorf("%d jobs of the rule, of which the first are %v", len(want), got)
	}
}
