package store_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// TestEarlyEventsArePruned checks that expired early events are deleted, and later ones stay.
func TestEarlyEventsArePruned(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 3)
		defer closeStore(t, s)
		l := newLoad(t, s)
		b := futurejobs.EffectBatch{RuleSet: l.set}
		event := &futurejobs.Event{At: l.first}
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			keep := time.Microsecond
			if key > "d" {
				keep = time.Hour
			}
			b.Effects = append(b.Effects, futurejobs.Effect{
				Rule: l.rule, Event: event, Action: futurejobs.End{Outcome: "resolved", Early: keep},
				Ref: futurejobs.Ref{Shard: futurejobs.ShardOf("e", key, s.Shards()), RuleID: l.rule.ID, Key: key},
			})
		}
		_, err := s.Apply(t.Context(), b)
		l.check(err)
		left := func() (n int) {
			t.Helper()
			l.check(s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM early`).Scan(&n))
			return n
		}
		if n := left(); n != 6 {
			t.Fatalf("%d remembered, want 6", n)
		}
		pruned, err := s.Prune(t.Context(), store.Retention{})
		l.check(err)
		if n := left(); n != 2 || pruned != (store.Pruned{}) {
			t.Errorf("%d left, want 2; counted as pruned: %+v", n, pruned)
		}
	})
}

// blockApply returns a channel that is closed by release, or by the end of the test, which then waits for the group.
func blockApply(t *testing.T, everybody *sync.WaitGroup) (goOn <-chan struct{}, release func()) {
	c := make(chan struct{})
	release = sync.OnceFunc(func() { close(c) })
	t.Cleanup(func() { release(); everybody.Wait() })
	return c, release
}

// blockingStart returns an update of a key that blocks in the middle of its transaction until goOn is closed.
func (f *fixture) blockingStart(key string, goOn <-chan struct{}) futurejobs.Effect {
	return futurejobs.Effect{Rule: f.rule, Ref: f.ref(key), Action: futurejobs.Update{
		Merge: func(json.RawMessage) (json.RawMessage, error) {
			<-goOn
			return json.RawMessage(`{"n":1}`), nil
		},
	}}
}

// TestEarlyEventsWaitForTheirTrigger checks that a batch with an end waits while another batch starts the job,
// or it would store an early event that is never used.
func TestEarlyEventsWaitForTheirTrigger(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	f.start(1)
	var both sync.WaitGroup
	goOn, release := blockApply(t, &both)
	first := time.Now().Add(time.Hour).Truncate(time.Second)
	starting := []futurejobs.Effect{f.blockingStart("k00000", goOn), {Rule: f.rule, Ref: f.ref("x"), Action: futurejobs.Start{
		Early: true, Job: futurejobs.Job{Version: 1, Since: first, FirstCheckAt: first},
	}}}
	ending := []futurejobs.Effect{{
		Rule: f.rule, Ref: f.ref("x"), Event: &futurejobs.Event{At: first}, Action: futurejobs.End{Outcome: "resolved", Early: time.Hour},
	}}
	both.Go(func() {
		if got, err := f.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: f.set, Effects: starting}); err != nil || got.Created != 1 {
			t.Errorf("start: %+v, %v", got, err)
		}
	})
	f.waitUntil("the start is under way", `SELECT count(*) = 1 FROM pg_stat_activity
WHERE datname = current_database() AND state = 'idle in transaction'`)
	both.Go(func() {
		if got, err := f.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: f.set, Effects: ending}); err != nil || got.Ended != 1 {
			t.Errorf("end: %+v, %v", got, err)
		}
	})
	f.waitUntil("the end waits for it", blockedOn(1, "FROM rule WHERE id"))
	release()
	both.Wait()
}

// TestUpdatesAndSettlesAreConcurrent checks that an update during a settlement is kept, and so is the decision.
func TestUpdatesAndSettlesAreConcurrent(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	job := f.start(1)[0]
	var both sync.WaitGroup
	goOn, release := blockApply(t, &both)
	both.Go(func() {
		if got, err := f.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: f.set, Effects: []futurejobs.Effect{f.blockingStart(job.Key, goOn)}}); err != nil || got.Updated != 1 {
			t.Errorf("update: %+v, %v", got, err)
		}
	})
	f.waitUntil("the update is under way", `SELECT count(*) = 1 FROM pg_stat_activity
WHERE datname = current_database() AND state = 'idle in transaction'`)
	moved := job
	moved.NextCheckAt, moved.CheckCount = job.NextCheckAt.Add(time.Hour), 1
	both.Go(func() {
		settled, err := f.Settle(t.Context(), futurejobs.Settlement{Held: f.held, RuleSet: f.set, Decisions: []*futurejobs.Decision{{Job: moved}}})
		if err != nil || !settled.Jobs[job.ID] {
			t.Errorf("settle: %+v, %v", settled, err)
		}
	})
	f.waitUntil("the settle waits for it", blockedOn(1, "UPDATE future_job"))
	release()
	both.Wait()
	got, err := f.Job(t.Context(), "r", job.Key)
	f.check(err)
	if string(got.State) != `{"n":1}` || got.CheckCount != 1 || !got.NextCheckAt.Equal(moved.NextCheckAt) || got.Rev != job.Rev+1 {
		t.Errorf("the job after both: %+v", got.Job)
	}
}
