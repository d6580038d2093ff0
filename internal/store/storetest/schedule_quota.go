package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/rules"
)

// limitSchedules sets the limits of stored schedules of prefixes.
func limitSchedules(w *fixture, limits map[string]int64) {
	w.t.Helper()
	for prefix, limit := range limits {
		w.must(w.SetQuota(w.ctx(), access.Quota{Prefix: prefix, Set: map[access.Limited]int64{access.LimitSchedules: limit}}))
	}
}

// numbered returns n schedules of a rule, from a number.
func numbered(rule *futurejobs.Rule, from, n int) (all []futurejobs.Schedule) {
	for i := range n {
		all = append(all, futurejobs.Schedule{RuleID: rule.ID, ID: fmt.Sprint("s", from+i), Text: "@daily"})
	}
	return all
}

func refsOf(all []futurejobs.Schedule) (refs []futurejobs.ScheduleRef) {
	for _, s := range all {
		refs = append(refs, futurejobs.ScheduleRef{RuleID: s.RuleID, ID: s.ID})
	}
	return refs
}

// schedulesAreCounted checks that a token with a prefix creates no schedules beyond a quota, that it replaces and deletes
// existing ones, and that those of deleted rules count until they are deleted.
func schedulesAreCounted(t *testing.T, w *fixture) {
	limitSchedules(w, map[string]int64{"acme-": 10, "acme-eu-": 4})
	acme := access.Within(w.ctx(), &access.Bounds{Token: "acme", Prefix: "acme-"})
	one, eu, other := w.save("acme-1", "x"), w.save("acme-eu-1", "x"), w.save("zenith-1", "x")
	changed := numbered(one, 0, 8)
	for i := range changed {
		changed[i].Text = "@hourly"
	}
	for i, step := range []struct {
		ctx  context.Context
		put  []futurejobs.Schedule
		gone []futurejobs.Schedule
		over bool
	}{
		{ctx: acme, put: numbered(other, 0, 20)}, // it does not count
		{ctx: acme, put: numbered(eu, 0, 5), over: true},
		{ctx: acme, put: numbered(eu, 0, 4)},
		{ctx: acme, put: append(numbered(one, 0, 1), numbered(eu, 4, 1)...), over: true}, // nothing of it is created
		{ctx: acme, put: numbered(one, 0, 7), over: true},                                // the shorter prefix
		{ctx: acme, put: numbered(one, 0, 6)},
		{ctx: acme, put: numbered(one, 0, 6)}, // they exist
		{ctx: acme, put: changed[:6]},         // replaced
		{ctx: acme, put: changed[:7], over: true},
		{ctx: acme, put: numbered(one, 6, 2), gone: numbered(one, 0, 2)}, // as many as are deleted
		{ctx: w.ctx(), put: numbered(eu, 4, 2)},                          // without a prefix: it is counted and not refused
		{ctx: acme, put: numbered(one, 0, 2), gone: numbered(eu, 0, 1), over: true},
		{ctx: acme, put: numbered(one, 0, 1), gone: numbered(one, 2, 2)}, // above the limit, fewer than before
		{ctx: acme, gone: append(numbered(eu, 0, 2), numbered(one, 40, 2)...)},
	} {
		_, err := w.PutSchedules(step.ctx, step.put, refsOf(step.gone))
		if errors.Is(err, access.ErrQuota) != step.over || !step.over && err != nil {
			t.Errorf("step %d: %v, over the quota %v", i, err, step.over)
		}
	}
	counted := func(what string, want map[string]int64) {
		t.Helper()
		if diff := cmp.Diff(want, must[map[string]int64](t)(w.ScheduleCounts(w.ctx(), ""))); diff != "" {
			t.Errorf("counts, %s (-want +got):\n%s", what, diff)
		}
	}
	counted("at first", map[string]int64{"acme-1": 5, "acme-eu-1": 4, "zenith-1": 20})
	must[int32](t)(w.Delete(w.ctx(), "acme-1", rules.AnyVersion))
	if _, err := w.PutSchedules(acme, numbered(eu, 4, 3), nil); !errors.Is(err, access.ErrQuota) {
		t.Errorf("the schedules of a deleted rule count until they are deleted: %v, want ErrQuota", err)
	}
	must[store.Pruned](t)(w.Prune(w.ctx(), store.Retention{}))
	counted("of a deleted rule", map[string]int64{"acme-1": 0, "acme-eu-1": 4, "zenith-1": 20})
	again := w.save("acme-1", "x")
	must[futurejobs.ScheduleChanges](t)(w.PutSchedules(acme, numbered(again, 0, 6), nil))
	counted("of a rule that exists again", map[string]int64{"acme-1": 6, "acme-eu-1": 4, "zenith-1": 20})
}

// schedulesAreCountedTogether checks that concurrent requests of a tenant, for several rules, create as many schedules as the
// quota allows, and that the counts are exact, also if requests create the same schedule.
func schedulesAreCountedTogether(t *testing.T, w *fixture) {
	limitSchedules(w, map[string]int64{"acme-": 25})
	acme := access.Within(w.ctx(), &access.Bounds{Token: "acme", Prefix: "acme-"})
	all := []*futurejobs.Rule{w.save("acme-1", "x"), w.save("acme-2", "x")}
	var working sync.WaitGroup
	results := make([]error, 12)
	var created [12]int
	for i := range results {
		working.Go(func() {
			done, err := w.PutSchedules(acme, numbered(all[i%2], 10*i, 5), nil)
			created[i], results[i] = done.Created, err
		})
	}
	working.Wait()
	refused := 0
	for _, err := range results {
		if errors.Is(err, access.ErrQuota) {
			refused++
		} else {
			w.must(err)
		}
	}
	if refused != 7 {
		t.Errorf("%d of 12 requests with 5 schedules are refused, want 7: the limit is 25", refused)
	}
	for i := range 40 { // the same schedule
		for j := range 4 {
			working.Go(func() {
				done, err := w.PutSchedules(w.ctx(), numbered(all[0], 1000+i, 1+j), nil)
				created[j], results[j] = done.Created, err
			})
		}
		working.Wait()
		n := 0
		for j := range 4 {
			w.must(results[j])
			n += created[j]
		}
		want := 1 // the last one of the largest request
		if i == 0 {
			want = 4
		}
		if n != want {
			t.Fatalf("round %d: %d schedules were created, want %d", i, n, want)
		}
		var gone []futurejobs.Schedule
		if i%2 == 1 {
			gone = numbered(all[0], 1000+i, 1)
		}
		must[futurejobs.ScheduleChanges](t)(w.PutSchedules(acme, nil, refsOf(gone)))
	}
	counts := must[map[string]int64](t)(w.ScheduleCounts(w.ctx(), "acme-"))
	for _, rule := range all {
		var stored int64
		f := futurejobs.ScheduleFilter{RuleID: rule.ID, Limit: futurejobs.MaxLimit}
		for more := true; more; more = f.Cursor != "" {
			page := must[futurejobs.Page[futurejobs.Schedule]](t)(w.Schedules(w.ctx(), f))
			stored, f.Cursor = stored+int64(len(page.Items)), page.Next
		}
		if counts[rule.Name] != stored {
			t.Errorf("%s has %d schedules, and %d are counted", rule.Name, stored, counts[rule.Name])
		}
	}
}
