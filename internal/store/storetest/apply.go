package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// batch returns a batch of events of the rule's stream, with its cursor at 7.
func batch(w *fixture, after, last uint64, effects ...futurejobs.Effect) futurejobs.EffectBatch {
	return futurejobs.EffectBatch{Stream: "ORDERS", After: after, Last: last, LastAt: w.slot(), RuleSet: w.set, Effects: effects}
}

func applyStarts(t *testing.T, w *fixture) {
	slot := w.slot()
	past := must[time.Time](t)(w.Now(w.ctx())).Add(-time.Hour).Truncate(time.Minute)
	lateJob := w.job(w.rule, "late", past)
	lateJob.State = []byte(`{"s":1}`)
	outOfOrder := begins(w.rule, lateJob)
	got := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), batch(w, 7, 9, w.starting(w.rule, "a", slot), outOfOrder, w.starting(w.rule, "a", slot))))
	if want := (applyCounts{Created: 2, Kept: 1}); countsOfApply(got) != want {
		t.Errorf("applied %+v, want %+v", got, want)
	}
	a := w.one("a")
	want := w.job(w.rule, "a", slot)
	want.ID, want.CreatedAt, want.NextCheckAt = a.ID, a.CreatedAt, slot
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	l := w.one("late")
	if !l.FirstCheckAt.Equal(past) || !l.NextCheckAt.Equal(w.rule.Grid.After(l.CreatedAt)) {
		t.Errorf("late: first %s, next %s, created %s", l.FirstCheckAt, l.NextCheckAt, l.CreatedAt)
	}
	if string(l.State) != `{"s":1}` {
		t.Errorf("state: %s", l.State)
	}
	c := cursor(w, "ORDERS")
	if c.LastSeq != 9 || !c.LastAt.Equal(slot) || c.Created != 2 {
		t.Errorf("cursor: %+v", c)
	}
}

// A new job may begin with steps that were due before, and an entry about them.
func applySkippedSteps(t *testing.T, w *fixture) {
	at := w.slot()
	skipped := w.job(w.rule, "skipped", at)
	skipped.Step = 2
	skipped.Trail = futurejobs.Entry{Kind: futurejobs.Skipped, At: at, Step: "late, escalation", Next: at}.Trail()
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), batch(w, 7, 9, begins(w.rule, skipped), w.starting(w.rule, "plain", at))))
	if j := w.one("plain"); j.Step != 0 {
		t.Errorf("plain: step %d", j.Step)
	}
	if j := w.one("skipped"); j.Step != 2 {
		t.Errorf("skipped: step %d, want 2", j.Step)
	}
	page := must[futurejobs.Page[futurejobs.ListedJob]](t)(w.Jobs(w.ctx(), futurejobs.Filter{Key: "skipped"}))
	if len(page.Items) != 1 || page.Items[0].Trail != skipped.Trail {
		t.Errorf("jobs: %+v, want the trail %s", page.Items, skipped.Trail)
	}
}

func applyEnds(t *testing.T, w *fixture) {
	w.start(w.slot(), "said", "silent")
	w.settle(w.reschedule(w.one("said"), w.slot().Add(time.Hour)))
	job := w.one("said")
	got := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), batch(w, 7, 8,
		w.ending(w.rule, "said"), w.ending(w.rule, "silent"), w.ending(w.rule, "unknown"))))
	if want := (applyCounts{Ended: 2, Alerts: 1}); countsOfApply(got) != want {
		t.Errorf("applied %+v, want %+v", got, want)
	}
	if jobs := w.all(); len(jobs) != 0 {
		t.Errorf("pending: %v", jobs)
	}
	waiting := w.unpublished()
	if len(waiting) != 2 {
		t.Fatalf("%d alerts, want the first and the one that closes it", len(waiting))
	}
	closing := waiting[0]
	if closing.Status != alerts.Resolved {
		closing = waiting[1]
	}
	if diff := cmp.Diff(job.Alerts, closing.Closes); diff != "" {
		t.Errorf("closes (-want +got):\n%s", diff)
	}
	for _, e := range w.ended() {
		if e.Outcome != "resolved" || (e.Key == "said") != (len(e.Alerts) == 2) {
			t.Errorf("history of %s: %s with %d alerts", e.Key, e.Outcome, len(e.Alerts))
		}
	}
	if settled := w.settle(w.exhausted(job)); len(settled.Jobs) != 0 || settled.Alerts != 0 {
		t.Errorf("a job that was resolved meanwhile was settled: %+v", settled)
	}
}

func applyCreatedAndEnded(t *testing.T, w *fixture) {
	slot := w.slot()
	got := must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), batch(w, 7, 10,
		w.starting(w.rule, "a", slot), w.ending(w.rule, "a"),
		w.starting(w.rule, "b", slot), w.ending(w.rule, "b"), w.starting(w.rule, "b", slot))))
	if want := (applyCounts{Created: 3, Ended: 2}); countsOfApply(got) != want {
		t.Errorf("applied %+v, want %+v", got, want)
	}
	ids := map[int64]bool{w.one("b").ID: true}
	for _, e := range w.ended() {
		ids[e.ID] = true
		if e.Outcome != "resolved" || !e.FirstCheckAt.Equal(slot) || e.Version != w.rule.Version || e.CheckCount != 0 {
			t.Errorf("history: %+v", e)
		}
	}
	if len(ids) != 3 {
		t.Errorf("three jobs have the ids %v", ids)
	}
	checkBalance(w, 3)
}

func applyStartsAfterEnd(t *testing.T, w *fixture) {
	w.start(w.slot(), "a")
	old := w.one("a")
	got := w.applyManually(w.ending(w.rule, "a"), w.starting(w.rule, "a", w.slot().Add(time.Hour)))
	if want := (applyCounts{Created: 1, Ended: 1}); countsOfApply(got) != want {
		t.Errorf("applied %+v, want %+v", got, want)
	}
	if j := w.one("a"); j.ID <= old.ID || !j.FirstCheckAt.Equal(w.slot().Add(time.Hour)) {
		t.Errorf("the new job: %+v, the old: %+v", j, old)
	}
	checkBalance(w, 2)
}

// applyKeepsExistingJobs checks starts for pending keys that are redelivered, mixed with new ones.
func applyKeepsExistingJobs(t *testing.T, w *fixture) {
	w.start(w.slot(), "a", "b")
	a := w.one("a")
	for i := range 40 {
		got := w.applyManually(w.starting(w.rule, fmt.Sprint("new", i), w.slot()), w.starting(w.rule, "a", w.slot().Add(time.Hour)))
		if want := (applyCounts{Created: 1, Kept: 1}); countsOfApply(got) != want {
			t.Fatalf("batch %d: %+v, want %+v", i, countsOfApply(got), want)
		}
	}
	if diff := cmp.Diff(a, w.one("a")); diff != "" {
		t.Errorf("a start for a key that is waited for changed its job (-want +got):\n%s", diff)
	}
	again := w.starting(w.rule, "b", w.slot().Add(time.Hour))
	start := again.Action.(futurejobs.Start)
	start.Restart = true
	again.Action = start
	if got := w.applyManually(w.starting(w.rule, "c", w.slot()), again); got.Created != 2 || got.Restarted != 1 {
		t.Errorf("a job that begins again: %+v", got)
	}
	if b := w.one("b"); !b.FirstCheckAt.Equal(w.slot().Add(time.Hour)) {
		t.Errorf("its first check is at %s", b.FirstCheckAt)
	}
	checkBalance(w, 44)
}

func checkBalance(w *fixture, created int64) {
	w.t.Helper()
	b, err := w.Balance(w.ctx())
	w.must(err)
	if b.Created != created || b.Created != b.Pending+b.Archived+b.Pruned {
		w.t.Errorf("balance: %+v, want %d created", b, created)
	}
}

func concurrentApplyRunsOnce(t *testing.T, w *fixture) {
	const writers = 6
	var wins atomic.Int32
	var nodes sync.WaitGroup
	for range writers {
		nodes.Go(func() {
			_, err := w.Apply(w.ctx(), batch(w, 7, 8, w.starting(w.rule, "a", w.slot()), w.starting(w.rule, "b", w.slot())))
			switch {
			case err == nil:
				wins.Add(1)
			case !errors.Is(err, futurejobs.ErrCursorMoved):
				t.Error(err)
			}
		})
	}
	nodes.Wait()
	if wins.Load() != 1 {
		t.Errorf("%d writers moved the cursor from the same place", wins.Load())
	}
	if _, err := w.Apply(w.ctx(), batch(w, 7, 9, w.ending(w.rule, "a"))); !errors.Is(err, futurejobs.ErrCursorMoved) {
		t.Errorf("from the old place: %v, want ErrMoved", err)
	}
	if len(w.all()) != 2 {
		t.Error("a batch that came too late was written")
	}
	unknown := batch(w, 0, 1)
	unknown.Stream = "UNKNOWN"
	if _, err := w.Apply(w.ctx(), unknown); !errors.Is(err, futurejobs.ErrCursorMoved) {
		t.Errorf("of a stream without a cursor: %v, want ErrMoved", err)
	}

	// Concurrent starts of one key create one job.
	for range writers {
		nodes.Go(func() { w.applyManually(w.starting(w.rule, "c", w.slot()), w.starting(w.rule, "d", w.slot())) })
	}
	nodes.Wait()
	if n := len(w.all()); n != 4 {
		t.Errorf("%d jobs, want 4", n)
	}
	checkBalance(w, 4)
}

// applyRefusesChangedStreamRules checks that a batch of events depends on the rules that read its stream, before or after
// they change.
func applyRefusesChangedStreamRules(t *testing.T, w *fixture) {
	save := func(name, stream string) {
		_, err := w.Save(w.ctx(), rules.RuleVersion{
			Name: name, Entity: "order", Document: []byte(`{}`), Reads: []rules.StreamBinding{{Subject: "s", Stream: stream}},
		}, rules.AnyVersion)
		w.must(err)
	}
	save("other", "PAYMENTS")
	last := uint64(7)
	for _, change := range []struct {
		name  string
		do    func()
		loses bool
	}{
		{"a rule of another stream", func() { save("other", "PAYMENTS") }, false},
		{"a rule that is new to the stream", func() { save("other", "ORDERS") }, true},
		{"a rule that was of the stream", func() { save("other", "PAYMENTS") }, true},
		{"a pause", func() { w.must(w.Pause(w.ctx(), w.rule.Name, true)) }, true},
		{"a deletion", func() { must[int32](t)(w.Delete(w.ctx(), w.rule.Name, rules.AnyVersion)) }, true},
	} {
		w.set = must[int64](t)(w.Revision(w.ctx()))
		b := batch(w, last, last+1, w.starting(w.rule, fmt.Sprint(last), w.slot()))
		change.do()
		_, err := w.Apply(w.ctx(), b)
		if errors.Is(err, futurejobs.ErrRulesChanged) != change.loses || !change.loses && err != nil {
			t.Errorf("%s: %v", change.name, err)
		}
		if !change.loses {
			last++
		}
		if c := cursor(w, "ORDERS"); c.LastSeq != last || len(w.all()) != int(last)-7 {
			t.Errorf("%s: %d jobs, %+v", change.name, len(w.all()), c)
		}
	}
}

// manualApplyRefusesChangedRules checks that manual changes and ticks depend on the rules that they were evaluated with.
func manualApplyRefusesChangedRules(t *testing.T, w *fixture) {
	other := w.save("other", "order")
	set := w.set
	b := func(rule *futurejobs.Rule, key string) futurejobs.EffectBatch {
		return futurejobs.EffectBatch{RuleSet: set, Effects: []futurejobs.Effect{w.starting(rule, key, w.slot())}}
	}
	tick := futurejobs.EffectBatch{Stream: futurejobs.TickStream(w.rule.ID), Last: 1, LastAt: w.slot(), RuleSet: set, Rules: []int32{w.rule.ID}}
	w.must(w.OpenCursor(w.ctx(), futurejobs.Cursor{Stream: tick.Stream}))
	w.save(other.Name, "order")
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b(w.rule, "a")))
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), tick))
	tick.After, tick.Last = 1, 2
	w.must(w.Pause(w.ctx(), w.rule.Name, true))
	for _, late := range []futurejobs.EffectBatch{b(w.rule, "b"), b(other, "b"), tick} {
		if _, err := w.Apply(w.ctx(), late); !errors.Is(err, futurejobs.ErrRulesChanged) {
			t.Errorf("apply %+v: %v, want ErrRulesChanged", late, err)
		}
	}
	if len(w.all()) != 1 {
		t.Errorf("%d jobs, want 1", len(w.all()))
	}
}

// applyBlocksRuleChanges checks that changes of rules wait for a batch that holds them off, and for no longer.
func applyBlocksRuleChanges(t *testing.T, w *fixture) {
	w.must(w.HoldOff(w.ctx(), "ORDERS"))
	b := batch(w, 7, 8, w.starting(w.rule, "a", w.slot()))
	saved := make(chan error, 1)
	go func() {
		_, err := w.Save(w.ctx(), rules.RuleVersion{
			Name: "other", Entity: "order", Document: []byte(`{}`), Reads: []rules.StreamBinding{{Subject: "s", Stream: "ORDERS"}},
		}, rules.AnyVersion)
		saved <- err
	}()
	_, err := w.Save(w.ctx(), rules.RuleVersion{Name: "elsewhere", Entity: "order", Document: []byte(`{}`)}, rules.AnyVersion)
	w.must(err) // it reads another stream
	must[futurejobs.ApplyResult](t)(w.Apply(w.ctx(), b))
	w.must(<-saved)
	w.must(w.HoldOff(w.ctx(), "ORDERS"))
	w.must(w.Pause(w.ctx(), "other", true)) // the transaction that held it off is gone
}

func applyAcceptsAnyKey(t *testing.T, w *fixture) {
	keys := []string{
		"plain", `back\slash`, `\x00`, "nul\x00in it", "not \xff utf-8", "quote\"'$1%", "ünïcödé ☃ 𝄞", " ", "a\tb\nc",
		strings.Repeat("x", 512), strings.Repeat("\x00", 512), strings.Repeat("\xfe", 512),
	}
	w.start(w.slot(), keys...)
	for _, key := range keys {
		got, err := w.Job(w.ctx(), w.rule.Name, key)
		if err != nil || got.Key != key {
			t.Fatalf("key %q came back as %q: %v", key, got.Key, err)
		}
		w.settle(w.reschedule(got.Job, got.NextCheckAt.Add(time.Minute)))
		listed := pages(t, futurejobs.Filter{Key: key}, w.Alerts)
		if len(listed) != 1 || listed[0].Key != key {
			t.Errorf("alerts of %q: %v", key, listed)
		}
		if got := w.applyManually(w.ending(w.rule, key)); got.Ended != 1 {
			t.Errorf("%q did not end: %+v", key, got)
		}
		ended := pages(t, futurejobs.Filter{Key: key}, w.History)
		if len(ended) != 1 || ended[0].Key != key {
			t.Errorf("history of %q: %v", key, ended)
		}
	}
}

func applyAcceptsAnyBody(t *testing.T, w *fixture) {
	for key, sent := range map[string]string{
		"plain":  `{"a": "b\u0000c"}`,
		"large":  `{"pad":"` + strings.Repeat("p", 100_000) + `"}`,
		"narrow": `{}`,
	} {
		j := w.job(w.rule, key, w.slot())
		j.Event = []byte(sent)
		w.applyManually(begins(w.rule, j))
		j = w.one(key)
		if string(j.Event) != sent {
			t.Errorf("%s: the body changed", key)
		}
		w.settle(w.reschedule(j, j.NextCheckAt.Add(time.Minute)))
		if string(w.one(key).Event) != sent {
			t.Errorf("%s: a reschedule changed the body", key)
		}
	}
	bad := w.job(w.rule, "bad", w.slot())
	bad.Event = []byte("\"\xff\x00\"")
	w.applyManually(begins(w.rule, bad))
	if got := string(w.one("bad").Event); got != "\"\uFFFD\uFFFD\"" {
		t.Errorf("what is not UTF-8: %q", got)
	}
}

// applyCounts has the counts of a batch's result.
type applyCounts struct{ Created, Ended, Kept, Alerts int }

func countsOfApply(a futurejobs.ApplyResult) applyCounts {
	return applyCounts{a.Created, a.Ended, a.Kept, len(a.Alerts)}
}
