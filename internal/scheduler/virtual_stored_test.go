package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/longtest"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// Random schedules tick for a span of virtual time, while nodes die and are replaced, the database and the stream fail, and
// schedules and their rule change. An oracle that looks at each minute computes the ticks; each must be recorded once, or be
// counted as missed, and the stream must have the event of exactly the emitted ones.
func TestVirtualStoredSchedules(t *testing.T) {
	t.Parallel()
	size, span, scale := 300, 2*time.Hour, 1
	if longtest.Enabled() {
		size, span, scale = 10_000, 72*time.Hour, 30
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		runVirtualSchedules(t, store.Options{DataDir: storetest.DataDir(t)}, size, span, scale)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		runVirtualSchedules(t, storetest.VirtualPostgres(t), size, span, scale)
	})
}

func runVirtualSchedules(t *testing.T, o store.Options, size int, span time.Duration, scale int) {
	synctest.Test(t, func(t *testing.T) {
		v := newVirtualSchedules(t, o, *storedSeed, size, scale)
		v.run(span, span/120)
		v.check()
		v.must(v.store.Close())
	})
}

var storedSeed = flag.Uint64("stored-seed", 4, "the seed of TestVirtualStoredSchedules")

// virtualSchedules is a database with random schedules, a stream, and one node, or two while the first does not know that it
// lost its shards.
type virtualSchedules struct {
	*fixture
	random  *rand.Rand
	scale   int // of the intervals of drawn schedules
	rule    rules.RuleVersion
	stream  *modelStream
	outage  atomic.Bool // of the database
	node    *virtualNode
	all     []*drawnSchedule
	pauses  []pausedSpan
	actions map[string]int
}

// pausedSpan is a pause of the rule, from its acknowledgement to the request that ended it.
type pausedSpan struct{ from, to time.Time }

func newVirtualSchedules(t *testing.T, o store.Options, seed uint64, size, scale int) *virtualSchedules {
	o.Shards, o.Log = 4, slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	v := &virtualSchedules{fixture: &fixture{T: t, store: s}, random: rand.New(rand.NewPCG(seed, 1)), scale: scale, actions: make(map[string]int)}
	v.stream = &modelStream{random: rand.New(rand.NewPCG(seed, 2)), ids: make(map[string]int), at: make(map[string]time.Time), data: make(map[string]string)}
	v.rule = v.save(reports)
	for i := range size {
		v.all = append(v.all, &drawnSchedule{id: fmt.Sprint("s", i)})
	}
	for from := 0; from < size; from += 1000 {
		v.change(v.all[from:min(from+1000, size)], 0)
	}
	return v
}

// run lets schedules tick for a span, with faults and changes at random times, a pace apart on average.
func (v *virtualSchedules) run(span, pace time.Duration) {
	begun := time.Now()
	v.start()
	for time.Since(begun) < span {
		time.Sleep(v.drawn(pace))
		v.act(v.drawn(pace))
	}
	v.stream.calm.Store(true)
	time.Sleep(time.Minute) // pauses after failures
	v.must(v.store.Pause(v.Context(), "reports", true))
	v.pauses = append(v.pauses, pausedSpan{time.Now(), time.Now().Add(time.Hour)})
	time.Sleep(time.Minute)
	v.node.stop()
}

// drawn draws a duration of whole milliseconds, of a size on average.
func (v *virtualSchedules) drawn(size time.Duration) time.Duration {
	return time.Duration(v.random.Int64N(2*size.Milliseconds())) * time.Millisecond
}

// act changes something, or breaks something for a while.
func (v *virtualSchedules) act(away time.Duration) {
	action := []string{"change", "change", "change", "kill", "zombie", "outage", "stream", "pause", "restart", "late", "late"}[v.random.IntN(11)]
	v.actions[action]++
	switch action {
	case "change":
		v.changeSome(1+len(v.all)/50, 0)
	case "late": // while ticks of the former texts are decided, or are not
		v.outage.Store(v.random.IntN(2) == 0)
		v.changeSome(len(v.all)/5, away)
		v.outage.Store(false)
	case "kill":
		v.node.kill()
		v.changeSome(len(v.all)/5, 0) // also schedules with an event that is published and not recorded
		time.Sleep(away)
		v.start()
	case "zombie":
		old := v.node
		v.start()
		time.Sleep(away / 10)
		old.kill()
	case "outage":
		v.outage.Store(true)
		time.Sleep(away)
		v.outage.Store(false)
	case "stream":
		v.stream.away.Store(true)
		time.Sleep(away)
		v.stream.away.Store(false)
	case "pause":
		v.must(v.store.Pause(v.Context(), "reports", true))
		paused := pausedSpan{from: time.Now()}
		time.Sleep(away)
		paused.to = time.Now()
		v.must(v.store.Pause(v.Context(), "reports", false))
		v.pauses = append(v.pauses, paused)
	case "restart":
		v.node.stop()
		v.start()
	}
}

func (v *virtualSchedules) must(err error) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
}

// changeSome changes n random schedules in one request, which the database gets after a while.
func (v *virtualSchedules) changeSome(n int, after time.Duration) {
	v.Helper()
	some := make(map[*drawnSchedule]bool)
	for range min(n, 5000) {
		some[v.all[v.random.IntN(len(v.all))]] = true
	}
	v.change(slices.SortedFunc(maps.Keys(some), func(a, b *drawnSchedule) int { return strings.Compare(a.id, b.id) }), after)
}

// change draws the next version of schedules, and stores them after a while.
func (v *virtualSchedules) change(some []*drawnSchedule, after time.Duration) {
	v.Helper()
	of, err := rules.StoredCatalog{Catalog: v.catalog()}.StoredRule("reports")
	v.must(err)
	requested := time.Now()
	next := make(map[*drawnSchedule]version)
	var put []futurejobs.Schedule
	var gone []futurejobs.ScheduleRef
	for _, d := range some {
		n := d.draw(v.random, v.scale)
		next[d] = n
		if n.text == "" {
			gone = append(gone, futurejobs.ScheduleRef{RuleID: v.rule.RuleID, ID: d.id})
			continue
		}
		s := futurejobs.Schedule{ID: d.id, Text: n.text, Enabled: n.enabled, Data: json.RawMessage(n.data)}
		v.must(of.Prepare(&s, requested))
		n.anchor = s.NextAt
		next[d] = n
		put = append(put, s)
	}
	time.Sleep(after)
	_, err = v.store.PutSchedules(v.Context(), put, gone)
	v.must(err)
	for d, n := range next {
		n.requested, n.from = requested, time.Now()
		d.versions = append(d.versions, n)
	}
}

// virtualNode is a node that decides and publishes ticks.
type virtualNode struct {
	scheduler.StoredStore
	outage  *atomic.Bool
	isDead  atomic.Bool
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// start starts a node that takes all shards.
func (v *virtualSchedules) start() {
	v.Helper()
	v.node = &virtualNode{StoredStore: v.store, outage: &v.outage}
	n, stream := v.node, v.stream
	s := &scheduler.Stored{
		Catalog: rules.StoredCatalog{Catalog: v.catalog()}, Store: n, Emitter: streamOf{stream, n}, Held: v.take(), Now: time.Now, Observer: &tickCounter{}, Log: slog.New(slog.DiscardHandler),
		Announce: func(context.Context, alerts.SystemAlert) error { return nil },
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.running.Go(func() {
		if err := s.Run(ctx); err != nil {
			v.Error(err)
		}
	})
}

// stop stops a node, which records the published events first.
func (n *virtualNode) stop() {
	n.cancel()
	n.running.Wait()
}

// kill ends a node between two of its calls.
func (n *virtualNode) kill() {
	n.isDead.Store(true)
	n.stop()
}

var errDead = errors.New("the node is dead, or the database is away")

func (n *virtualNode) err() error {
	if n.isDead.Load() || n.outage.Load() {
		return errDead
	}
	return nil
}

func (n *virtualNode) DueRuleShards(ctx context.Context, of []futurejobs.RuleShard, now time.Time) ([]futurejobs.DueRuleShard, error) {
	if err := n.err(); err != nil {
		return nil, err
	}
	return n.StoredStore.DueRuleShards(ctx, of, now)
}

func (n *virtualNode) DecideTicks(ctx context.Context, fence futurejobs.TickFence, decided []futurejobs.DecidedTick) ([]futurejobs.PlannedTick, error) {
	if err := n.err(); err != nil {
		return nil, err
	}
	planned, err := n.StoredStore.DecideTicks(ctx, fence, decided)
	return planned, errors.Join(err, n.err())
}

func (n *virtualNode) ClaimTicks(ctx context.Context, fence futurejobs.TickFence, limit int) ([]futurejobs.PlannedTick, error) {
	if err := n.err(); err != nil {
		return nil, err
	}
	return n.StoredStore.ClaimTicks(ctx, fence, limit)
}

func (n *virtualNode) MarkEmitted(ctx context.Context, ticks []futurejobs.PlannedTick) error {
	if err := n.err(); err != nil {
		return err
	}
	return n.StoredStore.MarkEmitted(ctx, ticks)
}
