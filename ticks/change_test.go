package ticks_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"deadman/bus"
	"deadman/bus/bustest"
	futurejobs "deadman/future_jobs"
	"deadman/store"
	"deadman/store/storetest"
	"deadman/ticks"
)

// changing is a broker that has something done before the first event may be published, and while it is on its way.
type changing struct {
	*bus.Bus
	before, during func()
	once           sync.Once
	tries          atomic.Int64
}

func (c *changing) Emit(ctx context.Context, e futurejobs.Emission, held ticks.Held) error {
	defer c.tries.Add(1)
	return c.Bus.Emit(ctx, e, func(ctx context.Context, send func(ctx context.Context) (isAnswered bool, err error)) error {
		c.once.Do(c.before)
		return held(ctx, func(ctx context.Context) (isAnswered bool, err error) {
			c.during()
			return send(ctx)
		})
	})
}

// emitted is how many events of schedules are in the stream.
func (w *world) emitted() (n int) {
	w.Helper()
	stream, err := bustest.JetStream(w.T, w.url).Stream(w.Context(), bus.EventsStream)
	if err != nil {
		w.Fatal(err)
	}
	info, err := stream.Info(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return int(info.State.Msgs) //nolint:gosec // some events
}

// Once the deletion of a schedule is acknowledged, none of its ticks is published, however close the next one was. The
// same holds for a pause, and for the ticks of a version that was replaced.
func TestNoTickIsEmittedAfterAChangeOfItsRuleIsAcknowledged(t *testing.T) {
	const rule = `
name: import-due
entity: import
trigger: {schedule: "@every 1s", emit: {subject: imports.due}}
`
	changes := map[string]func(w *world) error{
		"delete": func(w *world) error {
			_, err := w.store.Delete(context.Background(), "import-due", w.rule.Version)
			return err
		},
		"pause": func(w *world) error { return w.store.Pause(context.Background(), "import-due", true) },
	}
	for name, change := range changes {
		for database, url := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": storetest.Postgres} {
			for _, isOnItsWay := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/on its way %v", name, database, isOnItsWay), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, store.Options{DatabaseURL: url(t), DataDir: t.TempDir(), Shards: 4})
					if _, err := w.bus.Bind(t.Context(), []string{"imports.due"}); err != nil {
						t.Fatal(err)
					}
					w.rule = w.save(rule)
					acknowledged := make(chan error, 1)
					broker := &changing{Bus: w.bus, before: func() {}, during: func() {}}
					if isOnItsWay {
						broker.during = sync.OnceFunc(func() {
							go func() { acknowledged <- change(w) }()
							select { // the change may not be acknowledged now
							case err := <-acknowledged:
								acknowledged <- err
							case <-time.After(300 * time.Millisecond):
							}
						})
					} else {
						broker.before = func() { acknowledged <- change(w) }
					}
					var c count
					w.ticker(ticks.Options{Book: w.book(), Ledger: w.store, Emitter: broker, Observer: &c})
					if err := <-acknowledged; err != nil {
						t.Fatal(err)
					}
					published := w.emitted()
					w.eventually("the first try is over", func() bool { return broker.tries.Load() > 0 })
					begun := time.Now()
					w.eventually("two more ticks were due", func() bool { return time.Since(begun) > 2500*time.Millisecond })
					if n := w.emitted(); n != published {
						t.Errorf("%d events were published after the change was acknowledged", n-published)
					}
				})
			}
		}
	}
}

// A tick whose publication was refused does not keep its rule from being changed, and one without an answer only does so
// for a while.
func TestAFailedPublicationDoesNotHoldUpChanges(t *testing.T) {
	for name, isAnswered := range map[string]bool{"refused": true, "unanswered": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, store.Options{DataDir: t.TempDir(), Shards: 4})
			w.rule = w.save(`
name: import-due
entity: import
trigger: {schedule: "@every 1s", emit: {subject: imports.due}}
`)
			var c count
			broker := &refusing{isAnswered: isAnswered}
			book := w.book()
			stop := w.ticker(ticks.Options{Book: book, Ledger: w.store, Emitter: broker, Observer: &c})
			w.eventually("a publication fails", func() bool { return broker.tries.Load() > 0 })
			stop()
			if err := w.store.HoldTick(t.Context(), w.rule.RuleID, book.Revision()); err != nil && isAnswered {
				t.Errorf("after a refusal the rule is still held: %v", err)
			}
			if _, err := w.store.Delete(t.Context(), "import-due", w.rule.Version); err != nil {
				t.Error(err)
			}
		})
	}
}

// refusing is a broker on which no publication succeeds.
type refusing struct {
	isAnswered bool
	tries      atomic.Int64
}

func (r *refusing) Emit(ctx context.Context, _ futurejobs.Emission, held ticks.Held) error {
	return held(ctx, func(context.Context) (isAnswered bool, err error) {
		r.tries.Add(1)
		return r.isAnswered, errors.New("the stream is full")
	})
}
