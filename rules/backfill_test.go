package rules_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

const parcelRule = `
name: parcels
entity: parcel
trigger: {event: parcels.sent, key: event.id}
resolve: {event: parcels.arrived, key: event.id}
pause: {event: parcels.held, key: event.id, if: event.held}
escalate: [{after: 2h, step: late}]
`

// interferingStore is a real store with an interference: once, before a batch is applied that is based on the current rules.
type interferingStore struct {
	*store.Store
	meddle func()
}

func (m *interferingStore) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	if revision, err := m.Revision(ctx); err != nil {
		return futurejobs.ApplyResult{}, err
	} else if f := m.meddle; f != nil && revision == b.RuleSet {
		m.meddle = nil
		f()
	}
	return m.Store.Apply(ctx, b)
}

// backfillFixture holds the registry of a rule, and streams that had events before it was saved.
type backfillFixture struct {
	*testing.T
	*rules.Registry
	bus   *bus.Bus
	store *interferingStore
}

func newBackfillFixture(t *testing.T) *backfillFixture {
	_, b := newBroker(t)
	s := &interferingStore{Store: openStore(t)}
	r := newRegistry(b, s.Store)
	r.Jobs = s
	if _, err := b.Binder.Bind(t.Context(), []string{"parcels.*"}); err != nil { // the stream stores the events
		t.Fatal(err)
	}
	return &backfillFixture{t, r, b, s}
}

func (b *backfillFixture) publish(subject, body string) (stream string, seq uint64) {
	b.Helper()
	stream, seq, _, err := b.bus.EventPublisher.PublishEvent(b.Context(), subject, []byte(body), nil, "")
	if err != nil {
		b.Fatal(err)
	}
	return stream, seq
}

// apply publishes an event that ingest applies.
func (b *backfillFixture) apply(subject, body string) {
	b.Helper()
	stream, seq := b.publish(subject, body)
	if err := b.Catalog.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	at := time.Now().UTC()
	effects, _ := b.Catalog.Match(futurejobs.Event{Stream: stream, Subject: subject, Seq: seq, At: at, Data: []byte(body)})
	c, _, err := b.store.Cursor(b.Context(), stream)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.store.Store.Apply(b.Context(), futurejobs.EffectBatch{
		Stream: stream, After: c.LastSeq, Last: seq, LastAt: at, RuleSet: b.Catalog.Revision(), Effects: effects,
	}); err != nil {
		b.Fatal(err)
	}
}

// checkBackfilled saves the rule with its past, and expects that many jobs of it.
func (b *backfillFixture) checkBackfilled(want int) {
	b.Helper()
	c, err := b.Save(b.Context(), []byte(parcelRule), "", rules.SaveOptions{Version: rules.AnyVersion, Since: time.Now().Add(-time.Hour)})
	if err != nil || c.Backfilled != want {
		b.Errorf("%d waits began, want %d: %v", c.Backfilled, want, err)
	}
}

func (b *backfillFixture) pendingKeys() string {
	b.Helper()
	page, err := b.store.Jobs(b.Context(), futurejobs.Filter{Rule: "parcels"})
	if err != nil {
		b.Fatal(err)
	}
	keys := make(map[string]futurejobs.Job)
	for _, j := range page.Items {
		keys[j.Key] = j.Job
	}
	text := ""
	for _, key := range []string{"1", "2", "3", "4"} {
		if j, there := keys[key]; there && !j.PausedAt().IsZero() {
			text += key + " paused "
		} else if there {
			text += key + " "
		}
	}
	return text
}

func TestBackfill(t *testing.T) {
	b := newBackfillFixture(t)
	for i := range 4 {
		b.publish("parcels.sent", fmt.Sprintf(`{"id":%d}`, i+1))
	}
	b.publish("parcels.arrived", `{"id":2}`)
	b.publish("parcels.held", `{"id":3,"held":true}`)
	b.publish("parcels.held", `{"id":4,"held":true}`)
	b.publish("parcels.held", `{"id":4,"held":false}`)
	b.checkBackfilled(3)
	if got := b.pendingKeys(); got != "1 3 paused 4 " {
		t.Errorf("waiting: %s", got)
	}
	history, err := b.store.History(t.Context(), futurejobs.Filter{})
	if err != nil || len(history.Items) != 0 {
		t.Errorf("what was over before the rule was there is in the history: %+v, %v", history.Items, err)
	}
	b.checkBackfilled(0)
}

// Steps that were due before the save raise no alert, unless they are requested. A job whose steps and hold are over is
// not created.
func TestBackfillSkipsPastSteps(t *testing.T) {
	const parcels = `
name: parcels
entity: parcel
trigger: {event: parcels.sent, key: event.id, since: event.at}
resolve: {event: parcels.arrived, key: event.id}
escalate: [{after: 1h, step: late}, {after: 3h, step: lost}]
hold: 1d
`
	now := time.Now().UTC().Truncate(time.Second)
	ages := map[string]time.Duration{"1": 30 * time.Minute, "2": 2 * time.Hour, "3": 4 * time.Hour, "4": 30 * time.Hour}
	for name, c := range map[string]struct {
		raise                     bool
		backfilled, skipped, over int
		steps                     map[string]int
		next                      map[string]time.Duration // after the beginning
		trails                    map[string]string
	}{
		"skipped": {
			backfilled: 3, skipped: 2, over: 1,
			steps:  map[string]int{"1": 0, "2": 1, "3": 2},
			next:   map[string]time.Duration{"1": time.Hour, "2": 3 * time.Hour, "3": 27 * time.Hour},
			trails: map[string]string{"2": "late", "3": "late, lost"},
		},
		"raised": {raise: true, backfilled: 4, steps: map[string]int{"1": 0, "2": 0, "3": 0, "4": 0}, next: map[string]time.Duration{"1": time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackfillFixture(t)
			for id, age := range ages {
				b.publish("parcels.sent", fmt.Sprintf(`{"id":%s,"at":%q}`, id, now.Add(-age).Format(time.RFC3339)))
			}
			for _, dry := range []bool{true, false} {
				got, err := b.Save(t.Context(), []byte(parcels), "", rules.SaveOptions{Version: rules.AnyVersion, Since: now.Add(-time.Hour), RaisePast: c.raise, DryRun: dry})
				if err != nil || got.Backfilled != c.backfilled || got.SkippedSteps != c.skipped || got.Over != c.over {
					t.Errorf("dry run %t: %d jobs, %d with skipped steps, %d over, want %+v: %v", dry, got.Backfilled, got.SkippedSteps, got.Over, c, err)
				}
			}
			for id, step := range c.steps {
				page, err := b.store.Jobs(t.Context(), futurejobs.Filter{Rule: "parcels", Key: id})
				if err != nil || len(page.Items) != 1 {
					t.Fatalf("jobs of %s: %+v, %v", id, page.Items, err)
				}
				j := page.Items[0]
				if want := now.Add(c.next[id] - ages[id]); j.Step != step || c.next[id] > 0 && (j.NextCheckAt.Before(want) || j.NextCheckAt.After(want.Add(time.Minute))) {
					t.Errorf("%s: %d steps, next check %s, want %d and %s", id, j.Step, j.NextCheckAt, step, want)
				}
				trail := ""
				for _, e := range j.Trail.Entries() {
					trail += string(e.Kind) + " " + e.Step
				}
				if want := c.trails[id]; want != "" && trail != "skip "+want || want == "" && trail != "" {
					t.Errorf("%s: trail %q, want %q", id, trail, want)
				}
			}
		})
	}
}

// A key that is triggered again after its job was over starts another job.
func TestBackfillStartsAgainAfterEnd(t *testing.T) {
	b := newBackfillFixture(t)
	rule := strings.Replace(parcelRule, "key: event.id}", "key: event.id, since: event.at}", 1) + "hold: 1d\n"
	now := time.Now().UTC()
	for _, age := range []time.Duration{30 * time.Hour, 30 * time.Minute} {
		b.publish("parcels.sent", fmt.Sprintf(`{"id":1,"at":%q}`, now.Add(-age).Format(time.RFC3339)))
	}
	c, err := b.Save(t.Context(), []byte(rule), "", rules.SaveOptions{Version: rules.AnyVersion, Since: now.Add(-time.Hour)})
	if err != nil || c.Backfilled != 1 || c.Over != 0 {
		t.Errorf("%d jobs, %d over, want 1 and 0: %v", c.Backfilled, c.Over, err)
	}
	if got := b.pendingKeys(); got != "1 " {
		t.Errorf("pending: %q", got)
	}
}

// A job that ended after the save is not created again when the past is processed again.
func TestBackfillKeepsEndedJobsEnded(t *testing.T) {
	b := newBackfillFixture(t)
	b.publish("parcels.sent", `{"id":1}`)
	b.publish("parcels.sent", `{"id":2}`)
	b.checkBackfilled(2)
	b.apply("parcels.arrived", `{"id":1}`)
	b.checkBackfilled(0)
	if got := b.pendingKeys(); got != "2 " {
		t.Errorf("waiting: %s", got)
	}
}

// Events that ingest applies between the save and the creation of the jobs of the past count.
func TestLaterEventsEndBackfilledJobs(t *testing.T) {
	b := newBackfillFixture(t)
	for i := range 3 {
		b.publish("parcels.sent", fmt.Sprintf(`{"id":%d}`, i+1))
	}
	b.store.meddle = func() {
		b.apply("parcels.arrived", `{"id":1}`)
		b.apply("parcels.held", `{"id":2,"held":true}`)
	}
	b.checkBackfilled(2)
	if got := b.pendingKeys(); got != "2 paused 3 " {
		t.Errorf("waiting: %s", got)
	}
}

func TestBackfillOfPausedRule(t *testing.T) {
	b := newBackfillFixture(t)
	b.checkBackfilled(0)
	b.publish("parcels.sent", `{"id":1}`)
	if err := b.Pause(t.Context(), "parcels", true); err != nil {
		t.Fatal(err)
	}
	changed := []byte(parcelRule + "hold: 3d\n")
	for _, dry := range []bool{true, false} {
		c, err := b.Save(t.Context(), changed, "", rules.SaveOptions{Version: rules.AnyVersion, Since: time.Now().Add(-time.Hour), DryRun: dry})
		if err != nil || c.Backfilled != 0 || b.pendingKeys() != "" {
			t.Errorf("dry run %t: %d began, %q wait: %v", dry, c.Backfilled, b.pendingKeys(), err)
		}
	}
}

// No job is created, and no alert raised, for a rule that is deleted while its past is processed.
func TestBackfillOfDeletedRule(t *testing.T) {
	b := newBackfillFixture(t)
	b.publish("parcels.sent", `{"id":1}`)
	b.store.meddle = func() {
		if _, err := b.store.Delete(t.Context(), "parcels", rules.AnyVersion); err != nil {
			t.Error(err)
		}
	}
	_, err := b.Save(t.Context(), []byte(parcelRule), "", rules.SaveOptions{Version: rules.AnyVersion, Since: time.Now().Add(-time.Hour)})
	if !errors.Is(err, rules.ErrConflict) || b.pendingKeys() != "" {
		t.Errorf("%q wait: %v", b.pendingKeys(), err)
	}
}

// onDatabases runs a test on each database.
func onDatabases(t *testing.T, test func(t *testing.T, s *store.Store)) {
	for name, url := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": storetest.Postgres} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.Context(), store.Options{DatabaseURL: url(t), DataDir: storetest.DataDir(t), Shards: shards, Log: discardLog()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			test(t, s)
		})
	}
}

// A trigger that the past kept out leaves its job to the version that processed the past, once an end is read that is
// older.
func TestBackfillAdaptsKeptTriggers(t *testing.T) {
	onDatabases(t, func(t *testing.T, s *store.Store) {
		server, b := newBroker(t)
		js := bustest.JetStream(t, server.ClientURL())
		for stream, subjects := range map[string][]string{"SENT": {"parcels.sent"}, "REST": {"parcels.arrived", "parcels.held"}} {
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: subjects}); err != nil {
				t.Fatal(err)
			}
		}
		w := &backfillFixture{t, newRegistry(b, s), b, &interferingStore{Store: s}}
		w.publish("parcels.sent", `{"id":1}`)
		time.Sleep(5 * time.Millisecond)
		between := time.Now().UTC()
		time.Sleep(5 * time.Millisecond)
		w.publish("parcels.sent", `{"id":1}`)
		saveRule(t, s, 0, strings.Replace(parcelRule, "entity:", "description: another\nentity:", 1)) // so that the past is version 2's
		w.checkBackfilled(1)
		if err := w.Catalog.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		effects, refused := w.Catalog.Match(futurejobs.Event{Stream: "REST", Subject: "parcels.arrived", Seq: 1, At: between, Data: []byte(`{"id":1}`)})
		if len(effects) != 1 || len(refused) != 0 {
			t.Fatalf("the end asks for %v, %v", effects, refused)
		}
		applied, err := s.Apply(t.Context(), futurejobs.EffectBatch{
			Stream: "REST", Last: 1, LastAt: between, RuleSet: w.Catalog.Revision(), Effects: effects,
		})
		if err != nil || applied.Ended != 1 {
			t.Fatalf("%+v, %v", applied, err)
		}
		page, err := s.Jobs(t.Context(), futurejobs.Filter{Rule: "parcels"})
		if err != nil || len(page.Items) != 1 || !page.Items[0].Since.After(between) || page.Items[0].Version != 2 || page.Items[0].Origin != 0 {
			t.Fatalf("pending: %+v, %v; want a job of version 2 and of no origin since the second trigger", page.Items, err)
		}
		if _, err := w.Catalog.Rule(t.Context(), page.Items[0].RuleID, page.Items[0].Version); err != nil {
			t.Error(err)
		}
	})
}
