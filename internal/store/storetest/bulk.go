package storetest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// bulk returns a batch that manually creates jobs for keys.
func bulk(w *fixture, rule *futurejobs.Rule, keys ...string) futurejobs.EffectBatch {
	b := futurejobs.EffectBatch{RuleSet: w.set, AuditAction: "job.create", Bulk: true}
	for _, key := range keys {
		b.Effects = append(b.Effects, w.starting(rule, key, w.slot()))
	}
	return b
}

// bulkCreatesNewJobs checks that one transaction creates more jobs than one statement does, that existing jobs are
// reported by their index, and that the audit log has one line for each rule.
func bulkCreatesNewJobs(t *testing.T, w *fixture) {
	ctx := access.As(w.ctx(), ada)
	other := w.save("other", "order")
	w.start(w.slot(), "there")
	keys := []string{"there", "twice", "twice"}
	for i := range 4500 {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	b := bulk(w, w.rule, keys...)
	b.Effects = append(b.Effects, w.starting(other, "there", w.slot()))
	b.RuleSet = w.set
	got := must[futurejobs.ApplyResult](t)(w.Apply(ctx, b))
	if want := (applyCounts{Created: 4502, Kept: 2}); countsOfApply(got) != want || !slices.Equal(got.AlreadyPending, []int{0, 2}) {
		t.Errorf("applied %+v, stood %v; want %+v", countsOfApply(got), got.AlreadyPending, want)
	}
	checkBalance(w, 4503)

	// The same batch again.
	got = must[futurejobs.ApplyResult](t)(w.Apply(ctx, b))
	if got.Created != 0 || len(got.AlreadyPending) != len(b.Effects) {
		t.Errorf("again: %d created, %d stood", got.Created, len(got.AlreadyPending))
	}
	want := []string{
		fmt.Sprintf("ada job.create job/%s jobs: 4501", w.rule.Name), "ada job.create job/other jobs: 1",
	}
	if diff := cmp.Diff(want, audited(w, access.AuditFilter{Actor: ada.Name})); diff != "" {
		t.Errorf("audited (-want +got):\n%s", diff)
	}

	// The same keys from concurrent callers, in other orders.
	var sides sync.WaitGroup
	var created atomic.Int64
	for side := range 4 {
		sides.Go(func() {
			var fresh []string
			for i := range 4500 {
				fresh = append(fresh, fmt.Sprintf("race%d", (i*(2*side+1)+side)%4500))
			}
			done, err := w.Apply(ctx, bulk(w, w.rule, fresh...))
			if err != nil {
				t.Error(err)
			}
			created.Add(int64(done.Created))
		})
	}
	sides.Wait()
	checkBalance(w, 4503+created.Load())
	if n := created.Load(); n != 4500 {
		t.Errorf("%d were created from four sides, want 4500", n)
	}
}
