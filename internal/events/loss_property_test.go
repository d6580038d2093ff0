package events_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store/storetest"
)

// failingStore is a database that is sometimes slow or unavailable.
type failingStore struct {
	futurejobs.EffectStore
	turn atomic.Uint64
	seed uint64
}

// Apply implements futurejobs.EffectStore.
func (s *failingStore) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	switch rand.New(rand.NewPCG(s.seed, s.turn.Add(1))).IntN(6) {
	case 0:
		return futurejobs.ApplyResult{}, errors.New("the database is away")
	case 1, 2:
		select {
		case <-time.After(30 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return s.EffectStore.Apply(ctx, b)
}

// TestEventsAreAppliedOrReportedLost lets a stream lose messages in all possible ways, during reading, outside of it,
// and during failures of the database. Each acknowledged event is applied or reported lost. If the stream has no
// other subjects the sum is exact, so no false loss is reported; otherwise it is an upper bound.
func TestEventsAreAppliedOrReportedLost(t *testing.T) {
	seeds := 6
	if n, err := strconv.Atoi(os.Getenv("DEADMAN_LOSS_SEEDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		for _, mixed := range []bool{false, true} {
			for database, url := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": storetest.Postgres} {
				t.Run(fmt.Sprintf("%s, seed %d, other subjects %v", database, seed, mixed), func(t *testing.T) {
					t.Parallel()
					p := &lossModel{fixture: newFixtureOn(t, url(t)), rnd: rand.New(rand.NewPCG(uint64(seed), 18)), mixed: mixed, seed: uint64(seed)}
					p.run()
				})
			}
		}
	}
}

// lossModel is one run of TestEventsAreAppliedOrReportedLost.
type lossModel struct {
	*fixture
	rnd    *rand.Rand
	seed   uint64
	mixed  bool
	stream jetstream.Stream
	node   *node

	events, foreign int // acknowledged
}

func (p *lossModel) run() {
	cfg := jetstream.StreamConfig{Subjects: []string{"order.*"}}
	if !p.mixed {
		cfg.Subjects = []string{"order.created", "order.shipped"}
	}
	if p.rnd.IntN(2) == 0 {
		cfg.MaxMsgs = int64(20 + p.rnd.IntN(200))
	}
	if p.rnd.IntN(4) == 0 {
		cfg.MaxMsgsPerSubject = int64(1 + p.rnd.IntN(20))
	}
	p.stream = p.fixture.stream(cfg)
	p.saveOrderRule("order")
	p.begin()
	for range 40 {
		p.step()
	}
	if p.node == nil {
		p.begin()
	}
	p.publishSome(1)
	p.waitUntilDrained("ORDERS")
	p.node.stop()
	applied, _ := p.jobs()
	lost := p.lostEvents()
	p.t.Logf("%d events and %d other messages; %d applied, %d reported lost", p.events, p.foreign, applied, lost)
	switch sum := applied + lost; {
	case sum < p.events:
		p.t.Errorf("%d events were lost and not reported", p.events-sum)
	case !p.mixed && sum > p.events:
		p.t.Errorf("%d events were reported lost and are jobs", sum-p.events)
	case sum > p.events+p.foreign:
		p.t.Errorf("%d messages more were reported lost than came", sum-p.events-p.foreign)
	}
	if applied == p.events && !p.mixed && len(p.systemAlerts()) > 0 {
		p.t.Errorf("nothing was lost, and an alert was raised: %s", p.systemAlerts()[0].Text)
	}
}

func (p *lossModel) begin() {
	p.node = p.startOn(&failingStore{EffectStore: p.store, seed: p.seed})
}

func (p *lossModel) publishSome(n int) {
	for range n {
		if p.mixed && p.rnd.IntN(2) == 0 {
			p.publish("order.other", `{}`)
			p.foreign++
		}
		p.publish("order.created", fmt.Sprintf(`{"id":%d}`, p.events))
		p.events++
	}
}

// step performs one action on the stream, or on its reader.
func (p *lossModel) step() {
	info, err := p.stream.Info(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	first, last := info.State.FirstSeq, info.State.LastSeq
	somewhere := first + p.rnd.Uint64N(max(last, first)-first+1)
	purge := func(opts ...jetstream.StreamPurgeOpt) {
		if err := p.stream.Purge(p.t.Context(), opts...); err != nil {
			p.t.Fatal(err)
		}
	}
	switch p.rnd.IntN(14) {
	case 0:
		purge()
	case 1:
		purge(jetstream.WithPurgeSubject("order.created"))
	case 2:
		purge(jetstream.WithPurgeSequence(somewhere))
	case 3:
		purge(jetstream.WithPurgeKeep(uint64(p.rnd.IntN(10))))
	case 4, 5:
		if err := p.stream.DeleteMsg(p.t.Context(), somewhere); err != nil && last > 0 && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			p.t.Log(err) // it is gone already
		}
	case 6:
		if p.node != nil {
			p.node.stop()
			p.node = nil
		} else {
			p.begin()
		}
	case 7:
		select { // the reader reaches its end
		case <-time.After(time.Duration(p.rnd.IntN(200)) * time.Millisecond):
		case <-p.t.Context().Done():
		}
	default:
		p.publishSome(1 + p.rnd.IntN(60))
	}
}
