package scheduler_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// shardSet is a set of four shards that a test changes.
type shardSet struct{ held [4]atomic.Bool }

func (s *shardSet) Holds(shard int16) bool { return s.held[shard].Load() }
func (s *shardSet) Count() int             { return len(s.held) }

// set changes the shards.
func (s *shardSet) set(shards ...int16) {
	for i := range s.held {
		s.held[i].Store(false)
	}
	for _, shard := range shards {
		s.held[shard].Store(true)
	}
}

// ruleCounter counts the ticks of each rule.
type ruleCounter struct {
	tickCounter
	mu    sync.Mutex
	ticks map[string]int
}

func (c *ruleCounter) Ticked(rule string, _ futurejobs.TickOutcome, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ticks == nil {
		c.ticks = make(map[string]int)
	}
	c.ticks[rule] += n
}

// rules returns the number of rules with ticks since the last call.
func (c *ruleCounter) rules() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.ticks)
	c.ticks = nil
	return n
}

// saveEmitters saves n rules that emit an event each second, on one subject.
func (w *fixture) saveEmitters(n int) {
	w.Helper()
	for i := range n {
		w.save(fmt.Sprintf(`
name: each-second-%d
entity: tick
trigger: {schedule: "@every 1s", emit: {subject: ticks.due}}
`, i))
	}
}

// TestNodesShareTicks checks that each node applies the ticks of the rules of its shards, and takes over those of a shard
// that it gets.
func TestNodesShareTicks(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DatabaseURL: storetest.Postgres(t), Shards: 4})
	const all = 16
	w.saveEmitters(all)
	var shards [2]shardSet
	var counters [2]ruleCounter
	shards[0].set(0, 1)
	shards[1].set(2, 3)
	for i := range shards {
		w.ticker(scheduler.Options{Catalog: w.catalog(), Cursors: w.store, Emitter: w.bus.TickPublisher, Observer: &counters[i], Shards: &shards[i]})
	}
	split := [2]int{}
	w.eventually("the ticks of all rules are emitted", func() bool {
		time.Sleep(3 * time.Second)
		split = [2]int{counters[0].rules(), counters[1].rules()}
		return split[0]+split[1] == all
	})
	if split[0] == 0 || split[1] == 0 {
		t.Errorf("the nodes apply the ticks of %d and %d rules", split[0], split[1])
	}
	shards[0].set()
	shards[1].set(0, 1, 2, 3)
	w.eventually("the second node applies the ticks of all rules", func() bool {
		time.Sleep(3 * time.Second)
		return counters[0].rules() == 0 && counters[1].rules() == all
	})
}

// backwardStore counts ticks that move their cursor back.
type backwardStore struct {
	*store.Store
	moves atomic.Int64
}

func (b *backwardStore) Apply(ctx context.Context, all futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	done, err := b.Store.Apply(ctx, all)
	if err == nil && all.Last <= all.After {
		b.moves.Add(1)
	}
	return done, err
}

// TestTicksOfClockBehind checks that a node whose clock is behind, as after its machine slept, applies no tick again that another
// node applied meanwhile.
func TestTicksOfClockBehind(t *testing.T) {
	t.Parallel()
	const behind = 3 * time.Second
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
	w.rule = w.save(eachSecond)
	from := w.cursor().LastSeq
	stop := w.node(w.store, &tickCounter{})
	w.eventually("more ticks than the clock is behind", func() bool { return w.cursor().LastSeq > from+uint64(behind/time.Second) })
	stop()
	applied, ledger := w.cursor().LastSeq, &backwardStore{Store: w.store}
	w.start(scheduler.Options{
		Catalog: w.catalog(), Cursors: ledger, Emitter: w.bus.TickPublisher, Observer: &tickCounter{},
		Now: func() time.Time { return time.Now().Add(-behind) },
	})
	w.eventually("the next ticks are applied", func() bool { return w.cursor().LastSeq > applied || ledger.moves.Load() > 0 })
	if n := ledger.moves.Load(); n > 0 {
		t.Errorf("%d ticks before the last applied one are applied again", n)
	}
}

// concurrentEmitter publishes once a number of ticks are to be published.
type concurrentEmitter struct {
	*bus.TickPublisher
	left atomic.Int64
	all  chan struct{}
}

func (e *concurrentEmitter) PublishTick(ctx context.Context, m futurejobs.Emission, held scheduler.Held) error {
	if e.left.Add(-1) == 0 {
		close(e.all)
	}
	select {
	case <-e.all:
		return e.TickPublisher.PublishTick(ctx, m, held)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestTicksAreAppliedConcurrently checks that the ticks of several rules are applied at the same time.
func TestTicksAreAppliedConcurrently(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DatabaseURL: storetest.Postgres(t), Shards: 4})
	const rules = 8
	at := time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339)
	for i := range rules {
		w.save(fmt.Sprintf(`
name: once-%d
entity: tick
trigger: {schedule: "@at %s", emit: {subject: ticks.due}}
`, i, at))
	}
	e, counter := &concurrentEmitter{TickPublisher: w.bus.TickPublisher, all: make(chan struct{})}, &tickCounter{}
	e.left.Store(rules)
	w.ticker(scheduler.Options{Catalog: w.catalog(), Cursors: w.store, Emitter: e, Observer: counter})
	w.eventually("all events are emitted", func() bool { return counter.emitted.Load() == rules })
}
