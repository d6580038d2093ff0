package pings_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/pings"
	"deadman/internal/store"
	"deadman/rules"
)

// An answered ping is committed: another connection reads it.
func TestAnsweredPingIsCommitted(t *testing.T) {
	w := newFixture(t)
	w.run(w.Store)
	before := time.Now()
	p := w.newPing("nightly", rules.Success)
	p.Body = "42 files"
	w.send(p)
	j := w.job("nightly")
	if j.Since.Before(before.Truncate(time.Microsecond)) || j.Since.After(time.Now()) || !strings.Contains(string(j.Event), `"42 files"`) {
		t.Errorf("the job is %+v, with %s", j, j.Event)
	}
	if want := futurejobs.Grid(6 * time.Hour).Up(j.Since.Add(25 * time.Hour)); !j.NextCheckAt.Equal(want) {
		t.Errorf("its check is at %s, want %s", j.NextCheckAt, want)
	}
	exit := 3
	p = w.newPing("nightly", rules.Failure)
	p.Exit, p.Run = &exit, "684e2e73-017e-465f-8149-d70b7c5aaa49"
	w.send(p)
	if j := w.job("nightly"); !strings.Contains(string(j.Event), `"exit_status":3`) || !strings.Contains(string(j.Event), p.Run) {
		t.Errorf("after a failure it has %s", j.Event)
	}
}

// A flood of pings is one write per key and slot, for any number of nodes and connections.
func TestPingsOfSlotAreOneWrite(t *testing.T) {
	const keys, each = 20, 100
	w := newFixture(t)
	w.run(w.Store)
	for key := range keys {
		w.send(w.newPing(fmt.Sprint(key), rules.Success))
	}
	w.wrote.Store(0)
	var clients sync.WaitGroup
	for i := range keys * each {
		p := w.newPing(fmt.Sprint(i%keys), rules.Success)
		clients.Go(func() {
			if err := w.taker.Receive(w.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if n := w.wrote.Load(); n > keys { // one more for each key if the slot ends meanwhile
		t.Errorf("%d jobs were written for %d pings of %d keys in one slot", n, keys*each, keys)
	}
	if n := w.done.Load() - keys; n > keys*each/4 {
		t.Errorf("%d transactions for %d pings at once", n, keys*each)
	}
}

// No answer comes from a cache: the second ping of a slot reads every change made to the job since the first, on any
// node.
func TestPingReadsCurrentJob(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *fixture)
		is     func(before, after futurejobs.Job) bool
	}{
		"cancelled": {
			func(w *fixture) { w.apply(futurejobs.Cancel(w.rule.Engine(), w.job("nightly").Ref, "")) },
			func(before, after futurejobs.Job) bool { return after.ID != before.ID },
		},
		"failed": {
			func(w *fixture) { w.send(w.newPing("nightly", rules.Failure)) },
			func(before, after futurejobs.Job) bool { return after.Rev == before.Rev+2 },
		},
		"rule changed": {
			func(w *fixture) { w.save(strings.Replace(backupRule, "every: 24h", "every: 48h", 1)) },
			func(before, after futurejobs.Job) bool {
				return after.Version == before.Version+1 && after.NextCheckAt.Sub(before.NextCheckAt) >= 23*time.Hour
			},
		},
		"restarted": {
			func(w *fixture) { w.run(w.Store) },
			func(before, after futurejobs.Job) bool { return after.ID == before.ID && after.Rev == before.Rev },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.run(w.Store)
			w.send(w.newPing("nightly", rules.Success))
			before := w.job("nightly")
			c.change(w)
			w.send(w.newPing("nightly", rules.Success))
			if after := w.job("nightly"); !c.is(before, after) {
				t.Errorf("before %+v\nafter %+v", before, after)
			}
		})
	}
}

// apply applies effects as another client does.
func (w *fixture) apply(effects ...futurejobs.Effect) {
	w.Helper()
	w.refresh()
	_, err := w.Apply(w.Context(), futurejobs.EffectBatch{RuleSet: w.catalog.Revision(), Effects: effects})
	failOn(w.T, err)
}

// gatedStore is a real ledger that blocks until it is released.
type gatedStore struct {
	pings.EffectStore
	open    chan struct{}
	batches chan futurejobs.EffectBatch
}

func newGatedStore(l pings.EffectStore) *gatedStore {
	return &gatedStore{EffectStore: l, open: make(chan struct{}), batches: make(chan futurejobs.EffectBatch, 100)}
}

func (g *gatedStore) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	g.batches <- b
	<-g.open
	return g.EffectStore.Apply(ctx, b)
}

// sendAll queues pings in order while an earlier one is being written. The answers arrive after the gate opens.
func (w *fixture) sendAll(g *gatedStore, all ...pings.Ping) (answers []chan error) {
	w.Helper()
	for i, p := range append([]pings.Ping{w.newPing("before", rules.Success)}, all...) {
		answer := make(chan error, 1)
		answers = append(answers, answer)
		go func() { answer <- w.taker.Receive(context.WithoutCancel(w.Context()), p) }()
		if i == 0 {
			<-g.batches
			continue
		}
		for deadline := time.Now().Add(2 * time.Minute); w.taker.Waiting() != i; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				w.Fatalf("%d pings wait, want %d", w.taker.Waiting(), i)
			}
		}
	}
	return answers
}

// Pings of a key in one batch keep their order, and equal consecutive ones are merged.
func TestSignalsOfBatch(t *testing.T) {
	w := newFixture(t)
	g := newGatedStore(w.Store)
	w.run(g)
	of := func(key string, kind rules.Signal, body string) pings.Ping {
		p := w.newPing(key, kind)
		p.Body = body
		return p
	}
	answers := w.sendAll(g,
		of("a", rules.Success, "1"), of("b", rules.Success, "2"), of("a", rules.Success, "3"), // one of a, and one of b
		of("a", rules.Failure, "4"), of("a", rules.Success, "5"), of("b", rules.Success, "6"), of("a", rules.Success, "7"),
		of("a", rules.Begun, "8"))
	close(g.open)
	for _, answer := range answers {
		failOn(t, <-answer)
	}
	var keys []string
	for _, e := range (<-g.batches).Effects {
		keys = append(keys, e.Ref.Key)
	}
	if got := strings.Join(keys, " "); got != "a b a a a" {
		t.Errorf("the jobs are checked in the order %s, want a b a a a", got)
	}
	for key, want := range map[string]string{"a": `"body":"8"`, "b": `"body":"6"`} {
		if j := w.job(key); !strings.Contains(string(j.Event), want) {
			t.Errorf("%s ends with %s, want %s", key, j.Event, want)
		}
	}
	if got := w.log("a"); len(got) != 6 {
		t.Errorf("the log has %d of a, want each of 6", len(got))
	}
}

// With too_often each success of a batch is judged, and not only the last one.
func TestEachPingOfBatchIsJudged(t *testing.T) {
	w := newFixture(t)
	w.save(strings.Replace(backupRule, "max: 6h", "too_often: 1h", 1))
	w.refresh()
	g := newGatedStore(w.Store)
	w.run(g)
	answers := w.sendAll(g, w.newPing("a", rules.Success), w.newPing("a", rules.Success))
	close(g.open)
	for _, answer := range answers {
		failOn(t, <-answer)
	}
	if n := len((<-g.batches).Effects); n != 2 {
		t.Errorf("the batch has %d effects, want 2", n)
	}
	if state := string(w.job("a").State); !strings.Contains(state, "after the previous run, less than 1h") {
		t.Errorf("the state is %s", state)
	}
}

// Queued pings are applied when a node stops.
func TestQueuedPingsAreAppliedOnStop(t *testing.T) {
	w := newFixture(t)
	g := newGatedStore(w.Store)
	cancel, wait := w.start(g)
	answers := w.sendAll(g, w.newPing("nightly", rules.Success))
	cancel()
	close(g.open)
	for _, answer := range answers {
		if err := <-answer; err != nil {
			t.Errorf("a ping that waited: %v", err)
		}
	}
	wait()
	w.job("nightly")
}

// A ping is refused only after the rules of other nodes were read.
func TestRulesOfOtherNodesAreFound(t *testing.T) {
	w := newFixture(t)
	w.run(w.Store)
	w.save(strings.Replace(backupRule, "name: backup", "name: reports", 1))
	saved, err := w.Named(t.Context(), "reports")
	failOn(t, err)
	w.send(pings.Ping{Target: pings.Target{Rule: "reports", RuleID: saved[0].RuleID, Key: "weekly"}, Signal: pings.Signal{Kind: rules.Success}})
	if _, err := w.Job(t.Context(), "reports", "weekly"); err != nil {
		t.Error(err)
	}
}

// A paused rule creates no job, but its pings are still answered.
func TestPausedRuleCreatesNoJob(t *testing.T) {
	w := newFixture(t)
	w.run(w.Store)
	w.send(w.newPing("nightly", rules.Success))
	failOn(t, w.Pause(t.Context(), "backup", true))
	w.send(w.newPing("nightly", rules.Failure))
	w.send(w.newPing("weekly", rules.Success))
	if j := w.job("nightly"); j.Rev == 0 {
		t.Error("a wait that was there does not go on")
	}
	if _, err := w.Job(t.Context(), "backup", "weekly"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("a wait began: %v", err)
	}
}

// A ping refused by its rule does not affect the others of its batch.
func TestRefusedPingDoesNotAffectBatch(t *testing.T) {
	w := newFixture(t)
	g := newGatedStore(w.Store)
	w.run(g)
	unknown, renamed := w.newPing("nightly", rules.Success), w.newPing("nightly", rules.Success)
	unknown.Rule = "unknown"
	renamed.RuleID++
	answers := w.sendAll(g, w.newPing("first", rules.Success), unknown, renamed, w.newPing("weekly", rules.Success))
	close(g.open)
	for i, want := range []error{nil, nil, futurejobs.ErrNotFound, futurejobs.ErrNotFound, nil} {
		if err := <-answers[i]; !errors.Is(err, want) {
			t.Errorf("ping %d: %v, want %v", i, err, want)
		}
	}
	w.job("first")
	w.job("weekly")
}

// A ping of a key whose job a quota refuses is answered with an error and not logged, and the others of its batch are
// received. Pings of pending jobs are.
func TestPingBeyondQuotaIsRefused(t *testing.T) {
	w := newFixture(t)
	var quotas access.Quotas
	quotas.Set([]access.Quota{{Prefix: "backup", Set: map[access.Limited]int64{access.LimitJobs: 2}}}, 0)
	w.BoundBy(&quotas)
	g := newGatedStore(w.Store)
	w.run(g)
	begin := w.newPing("weekly", rules.Begun)
	begin.Run = "0f8fad5b-d9cb-469f-a165-70867728950e"
	answers := w.sendAll(g, w.newPing("nightly", rules.Success), w.newPing("weekly", rules.Success), begin, w.newPing("nightly", rules.Success), w.newPing("weekly", rules.Success))
	close(g.open)
	for i, want := range []error{nil, nil, pings.ErrQuota, pings.ErrQuota, nil, pings.ErrQuota} {
		if err := <-answers[i]; !errors.Is(err, want) {
			t.Errorf("ping %d: %v, want %v", i, err, want)
		}
	}
	w.job("nightly")
	if _, err := w.Job(t.Context(), "backup", "weekly"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("a job began beyond the quota: %v", err)
	}
	w.writer.Write(t.Context())
	for key, want := range map[string]int{"nightly": 2, "weekly": 0} {
		logged, err := w.PingLog(t.Context(), w.rule.Engine().ID, key, 0, 10)
		if failOn(t, err); len(logged) != want {
			t.Errorf("%d pings of %s are logged, want %d", len(logged), key, want)
		}
	}
	if status := pings.ErrorInfoOf(pings.ErrQuota).Status; status != 422 {
		t.Errorf("status %d, want 422", status)
	}
}

// A ping of a deleted rule is refused, although another rule has its name now.
func TestPingOfAnotherRuleOfNameIsRefused(t *testing.T) {
	w := newFixture(t)
	w.run(w.Store)
	old := w.newPing("nightly", rules.Success)
	w.send(old)
	saved, err := w.Named(t.Context(), "backup")
	failOn(t, err)
	_, err = w.Delete(t.Context(), "backup", saved[0].Version)
	failOn(t, err)
	w.save(backupRule)
	w.refresh()
	if w.rule.Engine().ID == old.RuleID {
		t.Fatal("both rules have one id: nothing is tested")
	}
	old.Key = "new"
	if err := w.taker.Receive(t.Context(), old); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("a ping of the deleted rule: %v, want %v", err, futurejobs.ErrNotFound)
	}
	if _, err := w.Job(t.Context(), "backup", "new"); !errors.Is(err, futurejobs.ErrNotFound) {
		t.Errorf("the other rule has a job for it: %v", err)
	}
	w.send(w.newPing("new", rules.Success))
	w.job("new")
}

// refusingStore is a real ledger whose database refuses a key.
type refusingStore struct {
	*store.Store
	key   string
	calls *atomic.Int32
}

func (r refusingStore) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	r.calls.Add(1)
	for _, e := range b.Effects {
		if e.Ref.Key == r.key {
			return futurejobs.ApplyResult{}, futurejobs.ErrRefused
		}
	}
	return r.Store.Apply(ctx, b)
}

func TestPingRefusedByDatabaseDoesNotAffectBatch(t *testing.T) {
	w := newFixture(t)
	w.run(refusingStore{w.Store, "bad", new(atomic.Int32)})
	var sent sync.WaitGroup
	for i := range 50 {
		key := fmt.Sprint("good", i)
		if i%10 == 0 {
			key = "bad"
		}
		sent.Go(func() {
			if err := w.taker.Receive(w.Context(), w.newPing(key, rules.Success)); errors.Is(err, futurejobs.ErrRefused) != (key == "bad") {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
	sent.Wait()
}

// A ping that the database refuses costs some transactions more, and not one for each other ping of its batch: the pings behind
// it would wait for as long as their senders do.
func TestRefusedPingIsFoundFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		calls := new(atomic.Int32)
		taker := pings.NewReceiver(pings.Receiver{
			Catalog: w.catalog, Effects: refusingStore{w.Store, "key300", calls}, Shards: w.Shards(), Now: time.Now, Observer: w,
			Log: &pings.LogWriter{Store: w.Store, Log: slog.New(slog.DiscardHandler)},
		})
		var sent, running sync.WaitGroup
		for i := range 512 {
			sent.Go(func() {
				if err := taker.Receive(t.Context(), w.newPing(fmt.Sprint("key", i), rules.Success)); errors.Is(err, futurejobs.ErrRefused) != (i == 300) {
					t.Errorf("key%d: %v", i, err)
				}
			})
		}
		synctest.Wait() // all are queued
		ctx, stop := context.WithCancel(t.Context())
		running.Go(func() {
			if err := taker.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		sent.Wait()
		stop()
		running.Wait()
		if got := calls.Load(); got > 2*10 {
			t.Errorf("512 pings with one that is refused took %d transactions, want at most two for each halving", got)
		}
	})
}

// A full queue refuses further pings without blocking.
func TestFullQueueRefuses(t *testing.T) {
	w := newFixture(t)
	taker := pings.NewReceiver(pings.Receiver{Catalog: w.catalog, Effects: w.Store, Shards: w.Shards(), Now: time.Now, Observer: w}) // and does not run
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for n := 0; ; n++ {
		err := taker.Receive(gone, w.newPing("nightly", rules.Success))
		if errors.Is(err, pings.ErrBusy) {
			if n < 2000 {
				t.Errorf("only %d may wait", n)
			}
			return
		}
		if !errors.Is(err, context.Canceled) || n > 100_000 {
			t.Fatalf("ping %d: %v", n, err)
		}
	}
}

// A node that stops applies its queued pings and refuses new ones: every ping answered without an error is committed,
// and none hangs.
func TestStoppingLosesNothing(t *testing.T) {
	w := newFixture(t)
	stop := w.run(w.Store)
	var taken sync.Map
	var sent sync.WaitGroup
	var some atomic.Int32
	for i := range 500 {
		key := fmt.Sprint("k", i)
		sent.Go(func() {
			switch err := w.taker.Receive(w.Context(), w.newPing(key, rules.Success)); {
			case err == nil:
				taken.Store(key, true)
				some.Add(1)
			case !errors.Is(err, pings.ErrBusy):
				t.Error(err)
			}
		})
		if i == 250 {
			sent.Go(stop)
		}
	}
	sent.Wait()
	taken.Range(func(key, _ any) bool { w.job(key.(string)); return true })
	if err := w.taker.Receive(t.Context(), w.newPing("late", rules.Success)); !errors.Is(err, pings.ErrBusy) {
		t.Errorf("after the stop: %v", err)
	}
	if some.Load() == 0 {
		t.Error("nothing was taken in: nothing is tested")
	}
}

// missingStore is a real store whose database is unavailable.
type missingStore struct{ *store.Store }

func (missingStore) Apply(context.Context, futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	return futurejobs.ApplyResult{}, fmt.Errorf("apply: %w", store.ErrUnavailable)
}

func TestUnavailableDatabase(t *testing.T) {
	w := newFixture(t)
	w.run(missingStore{w.Store})
	if err := w.taker.Receive(t.Context(), w.newPing("nightly", rules.Success)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if got := w.log("nightly"); len(got) != 0 {
		t.Errorf("what was not taken in is logged: %+v", got)
	}
}
