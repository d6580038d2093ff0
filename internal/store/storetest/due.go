package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
)

func dueInOrder(t *testing.T, w *fixture) {
	slot := w.slot()
	for i := range 60 {
		w.start(slot.Add(time.Duration(i%3)*time.Minute), fmt.Sprintf("k%02d", i))
	}
	jobs := w.all()
	if len(jobs) != 60 {
		t.Fatalf("%d jobs of 60", len(jobs))
	}
	if !slices.IsSortedFunc(jobs, byDue) {
		t.Error("not in the order of (shard, next_check_at, id)")
	}
	until := must[[]futurejobs.Job](t)(w.Due(w.ctx(), futurejobs.DueQuery{Cursors: w.shardCursors(), Until: slot, Limit: 100}))
	if len(until) != 20 {
		t.Errorf("%d jobs up to the first slot, want 20", len(until))
	}
}

// dueReadsFewPages checks that a database that reports touched pages reports more for many jobs than for none.
func dueReadsFewPages(t *testing.T, w *fixture) {
	q := futurejobs.DueQuery{Cursors: w.shardCursors(), Until: w.slot(), Limit: 100}
	none := must[int64](t)(w.DueBuffers(w.ctx(), q))
	for i := range 60 {
		w.start(w.slot(), fmt.Sprintf("k%02d", i))
	}
	some := must[int64](t)(w.DueBuffers(w.ctx(), q))
	if (none != 0 || some != 0) && some <= none {
		t.Errorf("%d pages for none, %d for 60 jobs", none, some)
	}
}

func byDue(a, b futurejobs.Job) int {
	switch {
	case a.Shard != b.Shard:
		return int(a.Shard) - int(b.Shard)
	case !a.NextCheckAt.Equal(b.NextCheckAt):
		return a.NextCheckAt.Compare(b.NextCheckAt)
	}
	return int(a.ID - b.ID)
}

func dueAfterCursor(t *testing.T, w *fixture) {
	slot := w.slot()
	for i := range 40 {
		w.start(slot.Add(time.Duration(i%2)*time.Minute), fmt.Sprintf("k%02d", i))
	}
	want := w.all()
	walks := w.shardCursors()
	var got []futurejobs.Job
	for range len(want) + 1 {
		jobs := must[[]futurejobs.Job](t)(w.Due(w.ctx(), futurejobs.DueQuery{Cursors: walks, Until: slot.Add(time.Hour), Limit: 1}))
		if len(jobs) == 0 {
			break
		}
		for _, j := range jobs {
			walks[j.Shard] = futurejobs.ShardCursor{Shard: j.Shard, At: j.NextCheckAt, ID: j.ID}
		}
		got = append(got, jobs...)
	}
	slices.SortFunc(got, byDue)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("walked one by one (-at once +walked):\n%s", diff)
	}
}

func dueWithoutRules(t *testing.T, w *fixture) {
	other := w.save("payment-missing", "payment")
	w.start(w.slot(), "a", "b")
	w.applyManually(w.starting(other, "p", w.slot()))
	jobs := must[[]futurejobs.Job](t)(w.Due(w.ctx(), futurejobs.DueQuery{
		Cursors: w.shardCursors(), Until: w.slot().Add(time.Hour), Not: []futurejobs.Unready{{VersionRef: futurejobs.VersionRef{RuleID: w.rule.ID, Version: w.rule.Version}}}, Limit: 10,
	}))
	if len(jobs) != 1 || jobs[0].Key != "p" {
		t.Errorf("got %v, want the payment's job alone", jobs)
	}
}

func dueOfRules(t *testing.T, w *fixture) {
	largeRules := w.save("payment-missing", "payment")
	for i := range 20 {
		w.start(w.slot(), fmt.Sprintf("a%02d", i))
		w.applyManually(w.starting(largeRules, fmt.Sprintf("p%02d", i), w.slot()))
	}
	q := futurejobs.DueQuery{Cursors: w.shardCursors(), Until: w.slot().Add(time.Hour), Of: []int32{largeRules.ID}, Limit: 100}
	jobs := must[[]futurejobs.Job](t)(w.Due(w.ctx(), q))
	if len(jobs) != 20 || slices.ContainsFunc(jobs, func(j futurejobs.Job) bool { return j.RuleID != largeRules.ID }) || !slices.IsSortedFunc(jobs, byDue) {
		t.Errorf("got %d jobs, want the 20 payments in order", len(jobs))
	}
	all := q
	all.Of = nil
	if got := must[[]futurejobs.Job](t)(w.Due(w.ctx(), all)); len(got) != 40 {
		t.Errorf("%d jobs of all rules, want 40", len(got))
	}
	if all.Limit = 3; len(dueJobs(w, all)) != 40 {
		t.Errorf("walked by three, %d jobs of all rules, want 40", len(dueJobs(w, all)))
	}
	q.Limit = 3
	walked := dueJobs(w, q)
	found := slices.DeleteFunc(slices.Clone(walked), func(j futurejobs.Job) bool { return j.RuleID != largeRules.ID })
	if diff := cmp.Diff(jobs, found); diff != "" || len(walked) == len(found) {
		t.Errorf("walked by three, %d jobs of which others stand at the limits (-at once +walked):\n%s", len(walked), diff)
	}
	q.Limit, q.Not = 100, []futurejobs.Unready{{VersionRef: futurejobs.VersionRef{RuleID: largeRules.ID, Version: largeRules.Version}}}
	if jobs := must[[]futurejobs.Job](t)(w.Due(w.ctx(), q)); len(jobs) != 0 {
		t.Errorf("%d jobs of a version that is left out", len(jobs))
	}
}

// dueJobs reads all jobs of a query, page by page, and returns them in order, each once.
func dueJobs(w *fixture, q futurejobs.DueQuery) (all []futurejobs.Job) {
	w.t.Helper()
	for pages := 0; len(q.Cursors) > 0; pages++ {
		if pages > 1000 {
			w.t.Fatal("a walk does not end")
		}
		page := must[[]futurejobs.Job](w.t)(w.Due(w.ctx(), q))
		all = append(all, page...)
		q.Cursors = q.Advance(page)
	}
	slices.SortFunc(all, byDue)
	return all
}

// dueUpToAnInstant checks that of unready versions only the jobs after an instant are left out, for each version after
// its own; and that a read never reads more rows than its limit, even if few match.
func dueUpToAnInstant(t *testing.T, w *fixture) {
	slot := w.slot()
	others := make([]*futurejobs.Rule, 10) // more than the conditions of a read
	for i := range others {
		others[i] = w.save(fmt.Sprintf("payment-missing-%d", i), "payment")
	}
	for minute := range 12 {
		at := slot.Add(time.Duration(minute) * time.Minute)
		w.start(at, fmt.Sprintf("a%02d", minute), fmt.Sprintf("b%02d", minute))
		for _, rule := range others {
			w.applyManually(w.starting(rule, fmt.Sprintf("p%02d", minute), at))
		}
	}
	all := w.all()
	q := futurejobs.DueQuery{Cursors: w.shardCursors(), Until: slot.Add(time.Hour), Limit: 1000}
	after := map[int32]time.Time{}
	for i, rule := range others {
		after[rule.ID] = slot.Add(time.Duration(i/2) * time.Minute)
		q.Not = append(q.Not, futurejobs.Unready{VersionRef: futurejobs.VersionRef{RuleID: rule.ID, Version: rule.Version}, After: after[rule.ID]})
	}
	want := slices.DeleteFunc(slices.Clone(all), func(j futurejobs.Job) bool {
		at, waits := after[j.RuleID]
		return waits && j.NextCheckAt.After(at)
	})
	if diff := cmp.Diff(want, must[[]futurejobs.Job](t)(w.Due(w.ctx(), q))); diff != "" || len(want) == len(all) {
		t.Errorf("(-want +got):\n%s", diff)
	}
	q.Limit = 7
	got := slices.DeleteFunc(dueJobs(w, q), func(j futurejobs.Job) bool { // the row at the limit may be any job
		at, waits := after[j.RuleID]
		return waits && j.NextCheckAt.After(at)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("walked by seven (-want +got):\n%s", diff)
	}
}

// dueByBytes checks that a page ends with the job at which its bodies and sets reach the limit, and that the walk
// continues after it, with all, one or no large jobs.
func dueByBytes(t *testing.T, w *fixture) {
	slot := w.slot()
	large := json.RawMessage(`{"id":"` + strings.Repeat("x", 50_000) + `"}`)
	for i := range 40 {
		e := w.starting(w.rule, fmt.Sprintf("k%02d", i), slot.Add(time.Duration(i%3)*time.Minute))
		start := e.Action.(futurejobs.Start) //nolint:forcetypeassert // it starts
		switch start.Job.Event = json.RawMessage(`{}`); i % 4 {
		case 1, 2:
			start.Job.Event = large
		case 3:
			start.Job.Members = bytes.Repeat([]byte{1}, 50_000)
		}
		e.Action = start
		w.applyManually(e)
	}
	q := futurejobs.DueQuery{Cursors: w.shardCursors(), Until: slot.Add(time.Hour), Limit: 100}
	all := must[[]futurejobs.Job](t)(w.Due(w.ctx(), q))
	for _, limit := range []int{1, 120_000, 1 << 30} {
		q := q
		q.Bytes = limit
		var got []futurejobs.Job
		for pages := 0; len(q.Cursors) > 0 && pages < 100; pages++ {
			page := must[[]futurejobs.Job](t)(w.Due(w.ctx(), q))
			size := 0
			for i := range page {
				if size >= limit {
					t.Fatalf("page %d of %d bytes goes on after %d", pages, limit, size)
				}
				size += page[i].Size()
			}
			got, q.Cursors = append(got, page...), q.Advance(page)
		}
		slices.SortFunc(got, byDue)
		if diff := cmp.Diff(all, got, wholeBodies); diff != "" || len(all) != 40 {
			t.Errorf("by %d bytes, %d jobs of %d", limit, len(got), len(all))
		}
	}
	q.Bytes, q.Limit, q.Of = 120_000, 3, []int32{w.rule.ID}
	if got := dueJobs(w, q); len(got) != len(all) {
		t.Errorf("of a rule, by three rows and so many bytes: %d jobs of %d", len(got), len(all))
	}
}

// dueWithinCapacity checks that a page that is read into the slice of another equals one that is read by itself,
// and that jobs copied from the slice before stay unchanged.
func dueWithinCapacity(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b", "c")
	query := futurejobs.DueQuery{Cursors: w.shardCursors(), Until: w.slot().AddDate(1, 0, 0), Limit: 10}
	first := must[[]futurejobs.Job](t)(w.Due(w.ctx(), query))
	taken := slices.Clone(first)
	w.settle(w.reschedule(taken[0], taken[0].NextCheckAt.Add(time.Hour)), w.exhausted(taken[1]))
	alone := must[[]futurejobs.Job](t)(w.Due(w.ctx(), query))
	query.Room = first
	into := must[[]futurejobs.Job](t)(w.Due(w.ctx(), query))
	if diff := cmp.Diff(alone, into); diff != "" || len(into) != 2 || &into[0] != &first[0] {
		t.Errorf("%d jobs in the room of %d (-by itself +got):\n%s", len(into), len(first), diff)
	}
	if len(taken) != 3 || taken[0].Rev != 0 || len(taken[0].Event) == 0 {
		t.Errorf("what was taken out of the room has changed: %+v", taken)
	}
}
