package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// progress returns the stored progress of a topic.
func progress(w *fixture, topic string) (p store.Progress, ok bool) {
	w.t.Helper()
	for _, p := range must[[]store.Progress](w.t)(w.Progress(w.ctx())) {
		if p.Topic == topic {
			return p, true
		}
	}
	return store.Progress{Topic: topic}, false
}

func progressAdvancesOnce(t *testing.T, w *fixture) {
	seen, ok := progress(w, "sweep")
	if ok {
		t.Fatalf("a new database has %+v", seen)
	}
	for round := range 3 { // it starts, and advances twice
		to := w.slot().Add(time.Duration(round) * time.Minute)
		var wins atomic.Int32
		var nodes sync.WaitGroup
		for range 8 {
			nodes.Go(func() {
				ok, err := w.Advance(w.ctx(), seen, to)
				if err != nil {
					t.Error(err)
				}
				if ok {
					wins.Add(1)
				}
			})
		}
		nodes.Wait()
		now, ok := progress(w, "sweep")
		if wins.Load() != 1 || !ok || !now.Through.Equal(to) || now.Still {
			t.Errorf("round %d: %d nodes moved it, and it is %+v", round, wins.Load(), now)
		}
		seen = now
	}
	if must[bool](t)(w.Advance(w.ctx(), store.Progress{Topic: "ingest/S"}, w.slot())); len(must[[]store.Progress](t)(w.Progress(w.ctx()))) != 2 {
		t.Error("two topics are not two")
	}
	w.must(w.ForgetProgress(w.ctx(), "sweep"))
	if _, ok := progress(w, "sweep"); ok {
		t.Error("it is not forgotten")
	}
	if _, ok := progress(w, "ingest/S"); !ok {
		t.Error("another topic was forgotten")
	}
}

func progressIsKept(t *testing.T, w *fixture) {
	still := func(seen store.Progress, late int) (store.Progress, bool) {
		t.Helper()
		now, ok, err := w.MarkStalled(w.ctx(), seen, late)
		w.must(err)
		return now, ok
	}
	if _, ok := still(store.Progress{Topic: "sweep", Through: w.slot()}, 1); ok {
		t.Error("what never began stands still")
	}
	must[bool](t)(w.Advance(w.ctx(), store.Progress{Topic: "sweep"}, w.slot()))
	seen, _ := progress(w, "sweep")
	for _, c := range []struct{ found, want int }{{0, 0}, {7, 7}, {3, 7}} {
		noted, ok := still(seen, c.found)
		if now, _ := progress(w, "sweep"); !ok || now != noted || !now.Still || now.LateJobs != c.want || !now.Through.Equal(w.slot()) {
			t.Errorf("after %d were found: %+v, %+v, want %d", c.found, noted, now, c.want)
		}
	}
	if must[bool](t)(w.Advance(w.ctx(), seen, w.slot().Add(time.Minute))) {
		t.Error("it advanced past an unreported stall")
	}
	seen, _ = progress(w, "sweep")
	if !must[bool](t)(w.Advance(w.ctx(), seen, w.slot().Add(time.Minute))) {
		t.Error("it does not go on")
	}
	if _, ok := still(seen, 9); ok {
		t.Error("what went on stands still where it was")
	}
	if now, _ := progress(w, "sweep"); now.Still || now.LateJobs != 0 {
		t.Errorf("it goes on and is %+v", now)
	}
}

func shardsAreSwept(t *testing.T, w *fixture) {
	want := func(node string, through time.Time, whole bool) {
		t.Helper()
		got, ok, err := w.SweptByOthers(w.ctx(), node)
		if err != nil || !got.Equal(through) || ok != whole {
			t.Errorf("beside %q: %s, %v, %v, want %s, %v", node, got, ok, err, through, whole)
		}
	}
	want("", time.Time{}, false)
	want(thisNode, time.Time{}, true)
	leases := make([]futurejobs.Lease, len(w.held))
	for i, h := range w.held {
		leases[i] = futurejobs.Lease{HeldShard: h, Swept: w.slot().Add(time.Duration(i) * time.Second)}
	}
	must[[]futurejobs.HeldShard](t)(w.Renew(w.ctx(), thisNode, leases[:len(leases)-1], time.Hour))
	want("", w.slot(), false)
	must[[]futurejobs.HeldShard](t)(w.Renew(w.ctx(), thisNode, leases, time.Hour))
	want("", w.slot(), true)
	w.must(w.Release(w.ctx(), thisNode, leases[2:4]))
	want(thisNode, w.slot().Add(2*time.Second), true)
	if _, ok, err := w.Take(w.ctx(), "other", leases[2].HeldShard, time.Hour); !ok || err != nil {
		t.Fatal(ok, err)
	}
	want("other", w.slot(), true)
	want(thisNode, w.slot().Add(2*time.Second), true)
}

func lateJobsAreCounted(t *testing.T, w *fixture) {
	other := w.save("payment-unconfirmed", "payment")
	if got := must[time.Time](t)(w.OldestDue(w.ctx())); !got.IsZero() {
		t.Errorf("without a job, the oldest is due at %s", got)
	}
	from, until := w.slot(), w.slot().Add(time.Hour)
	w.start(from, "at the beginning, which was swept")
	w.start(from.Add(time.Minute), "a", "b", "c")
	w.start(until, "at the end")
	w.start(until.Add(time.Minute), "after it")
	w.applyManually(w.starting(other, "p", from.Add(2*time.Minute)))
	if got := must[time.Time](t)(w.OldestDue(w.ctx())); !got.Equal(from) {
		t.Errorf("the oldest is due at %s, want %s", got, from)
	}
	first := make(map[int16]time.Time)
	for _, j := range w.all() {
		if at, ok := first[j.Shard]; !ok || j.NextCheckAt.Before(at) {
			first[j.Shard] = j.NextCheckAt
		}
	}
	if diff := cmp.Diff(first, must[map[int16]time.Time](t)(w.OldestDues(w.ctx()))); diff != "" {
		t.Errorf("the oldest of each shard (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		rules []int32
		want  int
	}{{nil, 5}, {[]int32{w.rule.ID}, 4}, {[]int32{other.ID}, 1}, {[]int32{w.rule.ID, other.ID}, 5}, {[]int32{}, 0}} {
		if got := must[int](t)(w.LateJobs(w.ctx(), from, until, c.rules)); got != c.want {
			t.Errorf("of the rules %v: %d, want %d", c.rules, got, c.want)
		}
	}
	keys := make([]string, store.MaxLateJobs)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%05d", i)
	}
	w.start(from.Add(time.Minute), keys...)
	if got := must[int](t)(w.LateJobs(w.ctx(), from, until, nil)); got != store.MaxLateJobs {
		t.Errorf("of very many, %d are counted, want %d", got, store.MaxLateJobs)
	}
}

func overdueJobsAreFound(t *testing.T, w *fixture) {
	other := w.save("payment-unconfirmed", "payment")
	by := w.slot()
	var late map[futurejobs.VersionRef]time.Duration
	overdue := func() (sum map[int32]int, oldest time.Time, whole bool) {
		t.Helper()
		found, whole, err := w.Overdue(w.ctx(), by, late)
		w.must(err)
		sum = make(map[int32]int)
		for _, o := range found {
			if o.Version < 1 || int(o.Shard) >= len(w.held) {
				t.Errorf("found: %+v", o)
			}
			sum[o.RuleID] += o.Jobs
			if oldest.IsZero() || o.Oldest.Before(oldest) {
				oldest = o.Oldest
			}
		}
		return sum, oldest, whole
	}
	if found, _, whole := overdue(); len(found) > 0 || !whole {
		t.Errorf("without a job: %v, %v", found, whole)
	}
	w.start(by, "a", "b")
	w.start(by.Add(-time.Minute), "c")
	w.start(by.Add(time.Second), "not yet")
	w.applyManually(w.starting(other, "p", by))
	found, oldest, whole := overdue()
	if diff := cmp.Diff(map[int32]int{w.rule.ID: 3, other.ID: 1}, found); diff != "" || !oldest.Equal(by.Add(-time.Minute)) || !whole {
		t.Errorf("the oldest is of %s, %v (-want +got):\n%s", oldest, whole, diff)
	}
	keys := make([]string, 3000)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%05d", i)
	}
	w.start(by.Add(-time.Second), keys...)
	if found, _, whole = overdue(); whole || found[w.rule.ID] < 3 || found[w.rule.ID] > 3000 {
		t.Errorf("of very many: %v, %v", found, whole)
	}
	w.applyManually(w.starting(other, "behind them", by))
	late = map[futurejobs.VersionRef]time.Duration{{RuleID: w.rule.ID, Version: w.rule.Version}: 30 * time.Second}
	found, oldest, whole = overdue()
	if diff := cmp.Diff(map[int32]int{w.rule.ID: 1, other.ID: 2}, found); diff != "" || !oldest.Equal(by.Add(-time.Minute)) || whole {
		t.Errorf("past those that may be late the oldest is of %s, %v (-want +got):\n%s", oldest, whole, diff)
	}
}
