package events_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store/storetest"
)

// recordingStore records the batches applied by an intake.
type recordingStore struct {
	futurejobs.EffectStore
	mu      sync.Mutex
	applied []attempt
}

// attempt is a batch of events with its result.
type attempt struct {
	events, bytes int // in the bodies of new jobs
	err           error
}

func (r *recordingStore) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	done, err := r.EffectStore.Apply(ctx, b)
	a := attempt{events: int(b.Last - b.After), err: err} //nolint:gosec // some events
	for _, e := range b.Effects {
		if start, is := e.Action.(futurejobs.Start); is {
			a.bytes += len(start.Job.Event)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied = append(r.applied, a)
	return done, err
}

// attempts checks that exactly the slow batches fail and are halved, and returns the batches.
func (r *recordingStore) attempts(t *testing.T) (all []attempt, tooSlow int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, a := range r.applied {
		if a.err == nil || errors.Is(a.err, context.Canceled) && i+1 == len(r.applied) { // the node stopped before the result
			continue
		}
		if !errors.Is(a.err, futurejobs.ErrTooSlow) {
			t.Errorf("a batch of %d events failed: %v", a.events, a.err)
			continue
		}
		if tooSlow++; i+1 == len(r.applied) || r.applied[i+1].events != a.events/2 {
			t.Errorf("a batch of %d events took too long and was not halved: %+v", a.events, r.applied)
		}
	}
	return r.applied, tooSlow
}

// Events that are too slow for one transaction are applied in several, down to one event each.
func TestEventsThatTakeTooLongToApplyAreHalvedUntilTheyPass(t *testing.T) {
	for name, c := range map[string]struct {
		events  int
		seconds float64 // per job; a transaction has 8, and half of the events exceeds it, as they may be read in two parts
	}{"to a half": {30, 0.6}, "to one": {3, 5}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := storetest.Postgres(t)
			w := newFixtureOn(t, dsn)
			w.stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"order.>"}})
			w.saveOrderRule("order")
			db, err := sql.Open("pgx", dsn)
			if err != nil {
				t.Fatal(err)
			}
			_, err = db.Exec(fmt.Sprintf(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(%g); RETURN new; END $$;
CREATE TRIGGER slow BEFORE INSERT ON future_job FOR EACH ROW EXECUTE FUNCTION slow()`, c.seconds))
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			w.publishIDs("order.created", 0, c.events)
			r := &recordingStore{EffectStore: w.store}
			n := w.startOn(r)
			w.waitUntilCaughtUp("ORDERS", uint64(c.events)) //nolint:gosec // some events
			n.stop()
			if _, tooSlow := r.attempts(t); tooSlow == 0 {
				t.Error("nothing took too long: nothing is tested")
			}
			if pending, _ := w.jobs(); pending != c.events || w.cursor("ORDERS").Created != int64(c.events) {
				t.Errorf("of %d events %d are jobs, %d are counted", c.events, pending, w.cursor("ORDERS").Created)
			}
		})
	}
}

// Events with large bodies, and small events for jobs with large states, are applied in batches of bounded size.
func TestMemoryOfBatchesIsBounded(t *testing.T) {
	t.Parallel()
	const (
		jobs, size = 200, 250_000
		ahead      = 16<<20 + size // read while a batch is applied, and in one call
		known      = 32 << 20      // states of the jobs of a batch
	)
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"order.>"}})
		const text = `
name: order-unshipped
entity: order
trigger: {event: order.created, key: event.id}
update: {event: order.changed, key: event.id}
escalate: [{after: 1h, step: primary}]
slot: 1s
`
		if err := os.WriteFile(filepath.Join(w.rules, "order.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if report, err := w.registry().ApplyDir(t.Context(), w.rules); err != nil || len(report.Problems) > 0 {
			t.Fatal(err, report.Problems)
		}
		large := strings.Repeat("x", size-100)
		last := uint64(0)
		for i := range jobs {
			last = w.publish("order.created", fmt.Sprintf(`{"id":%d,"text":%q}`, i, large))
		}
		r := &recordingStore{EffectStore: w.store}
		n := w.startOn(r)
		w.waitUntilCaughtUp("ORDERS", last)
		n.stop()
		all, tooSlow := r.attempts(t)
		for _, a := range all {
			if a.bytes > ahead || tooSlow > 0 {
				t.Errorf("a batch has %d bytes: %+v", a.bytes, a)
			}
		}
		halved := 0
		for round, each := range []int{size, 2 * size} { // the trigger; then the state after updates too
			for i := range jobs {
				last = w.publish("order.changed", fmt.Sprintf(`{"id":%d,"seen":%d}`, i, round))
			}
			r = &recordingStore{EffectStore: w.store}
			n = w.startOn(r)
			w.waitUntilCaughtUp("ORDERS", last)
			n.stop()
			all, tooSlow = r.attempts(t)
			for _, a := range all {
				if a.err == nil && a.events*each > known {
					t.Errorf("a batch changes %d jobs of %d bytes", a.events, each)
				}
			}
			halved += tooSlow
		}
		if halved == 0 {
			t.Error("no batch was halved: nothing is tested")
		}
		for _, key := range []string{"0", fmt.Sprint(jobs - 1)} {
			if job, err := w.store.Job(t.Context(), "order-unshipped", key); err != nil || !strings.Contains(string(job.State), `"seen":1`) {
				t.Errorf("job %s does not know of its update: %v", key, err)
			}
		}
	})
}
