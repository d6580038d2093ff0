package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
)

func dueInOrder(t *testing.T, w *world) {
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
	until := must[[]futurejobs.Job](t)(w.Due(w.ctx(), futurejobs.DueQuery{Walks: w.walks(), Until: slot, Limit: 100}))
	if len(until) != 20 {
		t.Errorf("%d jobs up to the first slot, want 20", len(until))
	}
}

// A database that says what a read touches says that one of many jobs touches more than one of none.
func dueTouchesPages(t *testing.T, w *world) {
	q := futurejobs.DueQuery{Walks: w.walks(), Until: w.slot(), Limit: 100}
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

func dueAfterTheWalk(t *testing.T, w *world) {
	slot := w.slot()
	for i := range 40 {
		w.start(slot.Add(time.Duration(i%2)*time.Minute), fmt.Sprintf("k%02d", i))
	}
	want := w.all()
	walks := w.walks()
	var got []futurejobs.Job
	for range len(want) + 1 {
		jobs := must[[]futurejobs.Job](t)(w.Due(w.ctx(), futurejobs.DueQuery{Walks: walks, Until: slot.Add(time.Hour), Limit: 1}))
		if len(jobs) == 0 {
			break
		}
		for _, j := range jobs {
			walks[j.Shard] = futurejobs.Walk{Shard: j.Shard, At: j.NextCheckAt, ID: j.ID}
		}
		got = append(got, jobs...)
	}
	slices.SortFunc(got, byDue)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("walked one by one (-at once +walked):\n%s", diff)
	}
}

func dueWithoutRules(t *testing.T, w *world) {
	other := w.save("payment-missing", "payment")
	w.start(w.slot(), "a", "b")
	w.byHand(w.starting(other, "p", w.slot()))
	jobs := must[[]futurejobs.Job](t)(w.Due(w.ctx(), futurejobs.DueQuery{
		Walks: w.walks(), Until: w.slot().Add(time.Hour), Not: []futurejobs.Edition{{RuleID: w.rule.ID, Version: w.rule.Version}}, Limit: 10,
	}))
	if len(jobs) != 1 || jobs[0].Key != "p" {
		t.Errorf("got %v, want the payment's job alone", jobs)
	}
}

func dueOfRules(t *testing.T, w *world) {
	loud := w.save("payment-missing", "payment")
	for i := range 20 {
		w.start(w.slot(), fmt.Sprintf("a%02d", i))
		w.byHand(w.starting(loud, fmt.Sprintf("p%02d", i), w.slot()))
	}
	q := futurejobs.DueQuery{Walks: w.walks(), Until: w.slot().Add(time.Hour), Of: []int32{loud.ID}, Limit: 100}
	jobs := must[[]futurejobs.Job](t)(w.Due(w.ctx(), q))
	if len(jobs) != 20 || slices.ContainsFunc(jobs, func(j futurejobs.Job) bool { return j.RuleID != loud.ID }) || !slices.IsSortedFunc(jobs, byDue) {
		t.Errorf("got %d jobs, want the 20 payments in order", len(jobs))
	}
	q.Limit = 1
	each := map[int16]int{}
	for _, j := range must[[]futurejobs.Job](t)(w.Due(w.ctx(), q)) {
		each[j.Shard]++
	}
	for shard, n := range each {
		if n != 1 {
			t.Errorf("%d jobs of shard %d, want one", n, shard)
		}
	}
	q.Not = []futurejobs.Edition{{RuleID: loud.ID, Version: loud.Version}}
	if jobs := must[[]futurejobs.Job](t)(w.Due(w.ctx(), q)); len(jobs) != 0 {
		t.Errorf("%d jobs of a version that is left out", len(jobs))
	}
}

// A page that is read into the room of another is what it would be by itself, and what was taken out of the other stays.
func dueInTheRoomOfAnother(t *testing.T, w *world) {
	w.start(w.slot(), "a", "b", "c")
	query := futurejobs.DueQuery{Walks: w.walks(), Until: w.slot().AddDate(1, 0, 0), Limit: 10}
	first := must[[]futurejobs.Job](t)(w.Due(w.ctx(), query))
	taken := slices.Clone(first)
	w.settle(w.later(taken[0], taken[0].NextCheckAt.Add(time.Hour)), w.over(taken[1]))
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
