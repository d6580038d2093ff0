package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// changingPublisher is a broker that has something done before the first event may be published, and while it is on its way.
type changingPublisher struct {
	*bus.TickPublisher
	before, during func()
	once           sync.Once
	tries          atomic.Int64
}

func (c *changingPublisher) PublishTick(ctx context.Context, e futurejobs.Emission, held scheduler.Held) error {
	defer c.tries.Add(1)
	return c.TickPublisher.PublishTick(ctx, e, func(ctx context.Context, send func(ctx context.Context) (isAnswered bool, err error)) error {
		c.once.Do(c.before)
		return held(ctx, func(ctx context.Context) (isAnswered bool, err error) {
			c.during()
			return send(ctx)
		})
	})
}

// emitted are the events of schedules in the stream on a subject: the instants of their ticks.
func (w *fixture) emitted(subject string) (at []time.Time, err error) {
	stream, err := bustest.JetStream(w.T, w.url).Stream(w.Context(), bus.EventsStream)
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(w.Context(), jetstream.WithSubjectFilter(subject))
	if err != nil {
		return nil, err
	}
	for seq := uint64(1); uint64(len(at)) < info.State.Subjects[subject]; {
		message, err := stream.GetMsg(w.Context(), seq, jetstream.WithGetMsgSubject(subject))
		if err != nil {
			return nil, err
		}
		tick, err := time.Parse(time.RFC3339, message.Header.Get("ce-time"))
		if err != nil {
			return nil, err
		}
		at, seq = append(at, tick), message.Sequence+1
	}
	return at, nil
}

// events are those that are emitted; they have to be found.
func (w *fixture) events(subject string) []time.Time {
	w.Helper()
	at, err := w.emitted(subject)
	if err != nil {
		w.Fatal(err)
	}
	return at
}

const importDue = `
name: import-due
entity: import
trigger: {schedule: "@every 1s", emit: {subject: imports.due}}
`

// Once the deletion of a schedule is acknowledged, none of its ticks is published, however close the next one was. The
// same holds for a pause. A save is not acknowledged while a tick is on its way either.
func TestNoTickIsEmittedAfterChangeOfItsRuleIsAcknowledged(t *testing.T) {
	changes := map[string]func(w *fixture) error{
		"delete": func(w *fixture) error {
			_, err := w.store.Delete(context.Background(), "import-due", w.rule.Version)
			return err
		},
		"pause": func(w *fixture) error { return w.store.Pause(context.Background(), "import-due", true) },
		"save": func(w *fixture) error {
			saved, err := w.saveContext(context.Background(), strings.Replace(importDue, "imports.due", "imports.ready", 1))
			w.rule = saved
			return err
		},
	}
	for name, change := range changes {
		for database, url := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": storetest.Postgres} {
			for _, isOnItsWay := range []bool{false, true} {
				if name == "save" && !isOnItsWay {
					continue // the tick came before the save, so it is the replaced version's
				}
				t.Run(fmt.Sprintf("%s/%s/on its way %v", name, database, isOnItsWay), func(t *testing.T) {
					t.Parallel()
					w := newFixture(t, store.Options{DatabaseURL: url(t), DataDir: storetest.DataDir(t), Shards: 4})
					if _, err := w.bus.Binder.Bind(t.Context(), []string{"imports.due", "imports.ready"}); err != nil {
						t.Fatal(err)
					}
					w.rule = w.save(importDue)
					type answer struct {
						published int // when the change was acknowledged
						err       error
					}
					acknowledged := make(chan answer, 1)
					acknowledge := func() {
						err := change(w)
						published, countErr := w.emitted("imports.due")
						acknowledged <- answer{len(published), errors.Join(err, countErr)}
					}
					broker := &changingPublisher{TickPublisher: w.bus.TickPublisher, before: func() {}, during: func() {}}
					if isOnItsWay {
						broker.during = sync.OnceFunc(func() {
							go acknowledge()
							select { // the change may not be acknowledged now
							case a := <-acknowledged:
								acknowledged <- a
							case <-time.After(300 * time.Millisecond):
							}
						})
					} else {
						broker.before = acknowledge
					}
					var c tickCounter
					w.ticker(scheduler.Options{Catalog: w.catalog(), Cursors: w.store, Emitter: broker, Observer: &c})
					a := <-acknowledged
					if a.err != nil {
						t.Fatal(a.err)
					}
					w.eventually("the first try is over", func() bool { return broker.tries.Load() > 0 })
					begun := time.Now()
					w.eventually("two more ticks were due", func() bool { return time.Since(begun) > 2500*time.Millisecond })
					if isOnItsWay && a.published == 0 {
						t.Error("the change was acknowledged while the first event was on its way")
					}
					for _, tick := range w.events("imports.due")[a.published:] {
						if name != "save" || tick.After(w.rule.SavedAt) { // a tick before a slow save is the replaced version's
							t.Errorf("the event of %s was published after the change was acknowledged", tick)
						}
					}
					if name == "save" {
						w.eventually("the new version emits", func() bool { return len(w.events("imports.ready")) > 0 })
					}
				})
			}
		}
	}
}

// A node that does not know of a save yet emits no tick after it by the version that was replaced: that tick is the new
// version's, and each tick is emitted once.
func TestTickAfterSaveIsOfNewVersion(t *testing.T) {
	for database, url := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": storetest.Postgres} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, store.Options{DatabaseURL: url(t), DataDir: storetest.DataDir(t), Shards: 4})
			subjects := []string{"imports.due", "imports.v2", "imports.v3"}
			if _, err := w.bus.Binder.Bind(t.Context(), subjects); err != nil {
				t.Fatal(err)
			}
			w.rule = w.save(importDue)
			var c tickCounter
			w.ticker(scheduler.Options{Catalog: w.catalog(), Cursors: w.store, Emitter: w.bus.TickPublisher, Observer: &c})
			from, seen := []time.Time{w.rule.SavedAt}, make(map[time.Time]string)
			for i, subject := range subjects {
				if i > 0 {
					from = append(from, w.save(strings.Replace(importDue, "imports.due", subject, 1)).SavedAt)
				}
				w.eventually(subject+" has a tick", func() bool { return len(w.events(subject)) > 0 })
			}
			for i, subject := range subjects {
				for _, tick := range w.events(subject) {
					if !tick.After(from[i]) || i+1 < len(from) && tick.After(from[i+1]) {
						t.Errorf("the tick of %s is version %d's, saved at %s; the saves were at %s", tick, i+1, from[i], from)
					}
					if other, twice := seen[tick]; twice {
						t.Errorf("the tick of %s is emitted on %s and %s", tick, other, subject)
					}
					seen[tick] = subject
				}
			}
		})
	}
}

// A tick whose publication was refused does not keep its rule from being changed, and one without an answer only does so
// for a while.
func TestFailedPublicationDoesNotHoldUpChanges(t *testing.T) {
	for name, isAnswered := range map[string]bool{"refused": true, "unanswered": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
			w.rule = w.save(importDue)
			var c tickCounter
			broker := &refusingPublisher{isAnswered: isAnswered}
			catalog := w.catalog()
			stop := w.ticker(scheduler.Options{Catalog: catalog, Cursors: w.store, Emitter: broker, Observer: &c})
			w.eventually("a publication fails", func() bool { return broker.tries.Load() > 0 })
			stop()
			if err := w.store.HoldTick(t.Context(), w.rule.RuleID, catalog.Revision()); err != nil && isAnswered {
				t.Errorf("after a refusal the rule is still held: %v", err)
			}
			if _, err := w.store.Delete(t.Context(), "import-due", w.rule.Version); err != nil {
				t.Error(err)
			}
		})
	}
}

// refusingPublisher is a broker on which no publication succeeds.
type refusingPublisher struct {
	isAnswered bool
	tries      atomic.Int64
}

func (r *refusingPublisher) PublishTick(ctx context.Context, _ futurejobs.Emission, held scheduler.Held) error {
	return held(ctx, func(context.Context) (isAnswered bool, err error) {
		r.tries.Add(1)
		return r.isAnswered, errors.New("the stream is full")
	})
}
