package events_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/testwait"
	"deadman/rules"
)

const tenantsLine = bus.EventsStream + "/tenants"

// saveRule saves the rule of an entity, with the bounds of a token or without.
func (w *fixture) saveRule(entity string, hours int, isTenant bool) {
	w.t.Helper()
	ctx := w.t.Context()
	if isTenant {
		ctx = access.Within(ctx, &access.Bounds{Token: entity, Subjects: []string{entity + ".>"}})
	}
	if _, err := w.registry().Save(ctx, []byte(unshippedRule(entity, hours)), "", rules.SaveOptions{Version: rules.AnyVersion}); err != nil {
		w.t.Fatal(err)
	}
}

// checkLine fails the test unless a rule is read on a line.
func (w *fixture) checkLine(entity, line string) {
	w.t.Helper()
	want := fmt.Sprintf("[%[1]s.created %[2]s %[1]s.shipped %[2]s]", entity, line)
	if got := fmt.Sprint(w.reads(entity + "-unshipped")); got != want {
		w.t.Fatalf("it reads %s, want %s", got, want)
	}
}

// blockingStore holds the batches of the tenants' lines until they are released.
type blockingStore struct {
	futurejobs.EffectStore
	release chan struct{}
	came    sync.Once
	held    chan struct{} // closed once a batch came
}

func (h *blockingStore) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	if futurejobs.IsTenantsLine(b.Stream) && len(b.Effects) > 0 {
		h.came.Do(func() { close(h.held) })
		select {
		case <-h.release:
		case <-ctx.Done():
		}
	}
	return h.EffectStore.Apply(ctx, b)
}

// While the events of a tenant are not applied at all, events of the operator's rules behind them in the stream are: a
// backlog of tenants delays them by nothing.
func TestTenantsHoldUpNoEventOfOperator(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.saveOrderRule("order")
		w.saveRule("acme", 1, true)
		w.checkLine("acme", tenantsLine)
		w.checkLine("order", bus.EventsStream)
		h := &blockingStore{EffectStore: w.store, release: make(chan struct{}), held: make(chan struct{})}
		n := w.startOn(h)
		w.publishIDs("acme.created", 0, 50)
		<-h.held
		w.publishIDs("acme.created", 50, 100)
		last := w.publish("order.created", `{"id":"1"}`)
		w.waitUntilCaughtUp(bus.EventsStream, last)
		w.checkJobs(1, 0)
		var lines []string
		for _, s := range n.Status() {
			lines = append(lines, s.Line)
		}
		if fmt.Sprint(lines) != fmt.Sprint([]string{bus.EventsStream, tenantsLine}) {
			t.Errorf("lines %v are read", lines)
		}
		close(h.release)
		w.waitForJobs(101, 0)
		w.checkJobs(101, 0)
		if err := w.registry().Delete(t.Context(), "acme-unshipped", rules.AnyVersion, ""); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, "a line without rules has no reader", func() bool { return len(n.Status()) == 1 })
	})
}

// Rules of both lines read the same events. Each is applied by its own line alone, also where the tenants' line is behind:
// otherwise it would start the operator's jobs again that have ended meanwhile.
func TestLineAppliesItsOwnRules(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.saveOrderRule("order")
		others := strings.ReplaceAll(unshippedRule("order", 1), "name: order-", "name: acme-")
		ctx := access.Within(t.Context(), &access.Bounds{Token: "acme", Subjects: []string{"order.>"}})
		if _, err := w.registry().Save(ctx, []byte(others), "", rules.SaveOptions{Version: rules.AnyVersion}); err != nil {
			t.Fatal(err)
		}
		h := &blockingStore{EffectStore: w.store, release: make(chan struct{}), held: make(chan struct{})}
		w.startOn(h)
		w.publishIDs("order.created", 0, 10)
		<-h.held
		last := w.publish("order.shipped", `{"id":0}`)
		w.waitUntilCaughtUp(bus.EventsStream, last)
		w.checkJobs(9, 1)
		close(h.release)
		w.waitUntilCaughtUp(tenantsLine, last)
		w.checkJobs(2*9, 2)
	})
}

// A rule changes its line while its events flow, and also while no node reads: each event counts once, and in order.
func TestRuleChangesItsLine(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.saveRule("order", 1, false)
		w.saveRule("acme", 1, true) // it keeps the tenants' line ahead
		n := w.start()
		total, left := 0, 0
		one := func(n int) { // each odd one is shipped
			for range n {
				w.publish("order.created", fmt.Sprintf(`{"id":%d}`, total))
				w.publish("acme.created", fmt.Sprintf(`{"id":%d}`, total))
				if total%2 == 1 {
					w.publish("order.shipped", fmt.Sprintf(`{"id":%d}`, total))
				} else {
					left++
				}
				total++
			}
		}
		for round := range 6 {
			isTenant := round%2 == 0
			one(10)
			w.saveRule("order", round+2, isTenant)
			if round%3 != 0 {
				n.stop() // its events are unread at the change
			}
			one(10)
			w.checkRebinds()
			one(10)
			if round%3 != 0 {
				n = w.start()
			}
			want := bus.EventsStream
			if isTenant {
				want = tenantsLine
			}
			w.checkLine("order", want)
		}
		w.waitForJobs(left+total, total-left)
		w.checkJobs(left+total, total-left)
		for _, outcome := range []string{events.Kept, events.Unmatched, events.Remembered, events.Lost} {
			if got := n.counts.count(outcome); got != 0 {
				t.Errorf("%d events are %s", got, outcome)
			}
		}
		if listed := w.systemAlerts(); len(listed) != 0 {
			t.Errorf("nothing was lost, and an alert was raised: %s", listed[0].Text)
		}
		w.checkUnchanged()
	})
}

// A part of a batch of a tenants' line has few effects, however many events are read at once.
func TestBatchesOfTenantsAreSmall(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for i := range 10 {
		ctx := access.Within(t.Context(), &access.Bounds{Token: "acme", Subjects: []string{"acme.>"}})
		text := fmt.Sprintf("name: acme-%d\nentity: x\ntrigger: {event: acme.a, key: event.id}\nescalate: [{after: 1h, step: primary}]\n", i)
		if _, err := w.registry().Save(ctx, []byte(text), "", rules.SaveOptions{Version: rules.AnyVersion}); err != nil {
			t.Fatal(err)
		}
	}
	const all = 300
	w.publishIDs("acme.a", 0, all)
	b := &batchRecorder{EffectStore: w.store}
	w.startOn(b)
	w.waitForJobs(10*all, 0)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.most == 0 || b.most > 500+10 {
		t.Errorf("a transaction has %d effects", b.most)
	}
}

// batchRecorder records the largest number of effects of a batch.
type batchRecorder struct {
	futurejobs.EffectStore
	mu   sync.Mutex
	most int
}

func (s *batchRecorder) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	s.mu.Lock()
	s.most = max(s.most, len(b.Effects))
	s.mu.Unlock()
	return s.EffectStore.Apply(ctx, b)
}
