package futurejobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// engine runs leases and sweeps on a real SQLite store. Rules may have handlers of their own.
type engine struct {
	*testing.T
	store    *store.Store
	wall     *wallClock
	clock    *futurejobs.Clock
	owner    *futurejobs.Owner
	catalog  *handlers
	queue    *recordingQueue
	sweeper  *futurejobs.Sweeper
	shifter  *futurejobs.Shifter
	seq      uint64
	stop     context.CancelFunc
	finished chan struct{}
}

// recordingQueue is a queue that counts queries for the jobs of certain rules, and settlements.
type recordingQueue struct {
	futurejobs.Queue
	forRules atomic.Int64
	settled  atomic.Int64
	after    atomic.Pointer[func(futurejobs.DueQuery)] // called after a query; may be nil
	outages  atomic.Pointer[func()]                    // called before the outages are read; may be nil
}

func (a *recordingQueue) Outages(ctx context.Context) ([]futurejobs.Outage, error) {
	if before := a.outages.Load(); before != nil {
		(*before)()
	}
	return a.Queue.Outages(ctx)
}

func (a *recordingQueue) Due(ctx context.Context, q futurejobs.DueQuery) ([]futurejobs.Job, error) {
	if len(q.Of) > 0 {
		a.forRules.Add(1)
	}
	jobs, err := a.Queue.Due(ctx, q)
	if after := a.after.Load(); after != nil {
		(*after)(q)
	}
	return jobs, err
}

func (a *recordingQueue) Settle(ctx context.Context, s futurejobs.Settlement) (futurejobs.Settled, error) {
	defer a.settled.Add(1)
	return a.Queue.Settle(ctx, s)
}

// handlers is a catalog of rules in which functions replace the handlers of some rules.
type handlers struct {
	*rules.Catalog
	by map[string]checks.Handler
}

func (h *handlers) Rule(ctx context.Context, id, version int32) (*futurejobs.Rule, error) {
	r, err := h.Catalog.Rule(ctx, id, version)
	if err != nil || h.by[r.Name] == nil {
		return r, err
	}
	other := *r
	other.Handler = h.by[r.Name]
	if f, is := other.Handler.(checks.Finder); is {
		other.Finder = f
	}
	if a, is := other.Handler.(futurejobs.Allowance); is {
		other.Allowance = a
	}
	return &other, nil
}

func startEngine(t *testing.T, handle map[string]checks.Handler, documents ...string) *engine {
	t.Helper()
	return startEngineIn(t, storetest.DataDir(t), handle, documents...)
}

func startEngineIn(t *testing.T, dir string, handle map[string]checks.Handler, documents ...string) *engine {
	t.Helper()
	return runWithin(t, dir, nil, handle, documents...)
}

// runWithin is startEngineIn with quotas, or nil.
func runWithin(t *testing.T, dir string, quotas futurejobs.Quotas, handle map[string]checks.Handler, documents ...string) *engine {
	t.Helper()
	wall := &wallClock{}
	s, err := store.Open(t.Context(), store.Options{DataDir: dir, Shards: 4, Log: slog.New(slog.DiscardHandler), Clock: wall.Now})
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{T: t, store: s, wall: wall, catalog: &handlers{rules.NewCatalog(s, 4), handle}, finished: make(chan struct{})}
	for _, d := range documents {
		e.save(d)
	}
	if err := e.catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	clock := futurejobs.NewClock(s.Now, time.Now)
	e.clock = clock
	owner := futurejobs.NewOwner(s, futurejobs.Node{ID: "n", Name: "n"}, 15*time.Second, time.Now, log)
	e.queue = &recordingQueue{Queue: s}
	e.sweeper = futurejobs.NewSweeper(e.queue, e.catalog, owner, clock, 8, log)
	e.sweeper.Quotas = quotas
	owner.Changed = e.sweeper.Wake
	e.owner = owner
	s.GoBy(clock.Correct)
	clock.Changed = e.sweeper.Wake
	e.shifter = futurejobs.NewShifter(s, e.catalog, owner, clock, log)
	e.shifter.OnShifted = e.sweeper.Wake
	clock.Follow = func(ctx context.Context, by time.Duration, isBack bool) error {
		if err := s.FollowStep(ctx, by, isBack); err != nil {
			return err
		}
		return e.shifter.Refresh(ctx)
	}
	e.sweeper.Stepped = func(ctx context.Context) error { return s.PutBack(ctx, 0) }
	e.sweeper.BeforeSweep = func(context.Context) error { return e.shifter.Ready() }

	ctx, cancel := context.WithCancel(context.Background())
	e.stop = cancel
	go func() {
		defer close(e.finished)
		if err := e.sweeper.Run(ctx, context.Background()); err != nil {
			t.Error(err)
		}
	}()
	held := make(chan error, 1)
	hold, release := context.WithCancel(context.Background())
	go func() { _ = clock.Run(hold) }()
	go func() { _ = e.shifter.Run(hold) }()
	go func() { held <- owner.Run(hold) }()
	t.Cleanup(func() {
		cancel()
		<-e.finished
		release()
		if err := <-held; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// save saves a rule that reads the stream S, and more.
func (e *engine) save(document string, more ...rules.StreamBinding) {
	e.Helper()
	saveIn(e.T, e.store, document, more...)
}

// resolve saves a version of a rule with a resolve, and marks its stream as read. No decision that was made before can be
// settled: it did not consider the events that the version resolves jobs by.
func (e *engine) resolve(document string) {
	e.Helper()
	e.save(document + "resolve: [{event: it.happened, key: event.id}]\n")
	e.applyEvents()
}

func saveIn(tb testing.TB, s *store.Store, document string, more ...rules.StreamBinding) {
	tb.Helper()
	parsed, err := rules.Parse([]byte(document), "test.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	text, err := json.Marshal(parsed[0])
	if err != nil {
		tb.Fatal(err)
	}
	reads := []rules.StreamBinding{{Subject: parsed[0].Trigger.Event, Stream: "S"}}
	for _, r := range parsed[0].Resolve {
		reads = append(reads, rules.StreamBinding{Subject: r.Event, Stream: "S"})
	}
	if _, err := s.Save(tb.Context(), rules.RuleVersion{
		Name: parsed[0].Name, Entity: parsed[0].Entity, Document: text, Reads: append(reads, more...),
	}, rules.AnyVersion); err != nil {
		tb.Fatal(err)
	}
}

// publish applies events in one batch.
func (e *engine) publish(subject string, keys ...string) {
	e.Helper()
	e.publishAt(time.Now().UTC(), subject, keys...)
}

// publishAt applies events with the given stream time.
func (e *engine) publishAt(at time.Time, subject string, keys ...string) {
	e.Helper()
	batch := futurejobs.EffectBatch{Stream: "S", After: e.seq, RuleSet: e.catalog.Revision()}
	for _, k := range keys {
		e.seq++
		effects, refused := e.catalog.Match(futurejobs.Event{
			Stream: "S", Subject: subject, Seq: e.seq, At: at, Data: fmt.Appendf(nil, `{"id":%q}`, k),
		})
		if len(refused) > 0 {
			e.Fatal(refused)
		}
		batch.Effects = append(batch.Effects, effects...)
	}
	batch.Last = e.seq
	if _, err := e.store.Apply(e.Context(), batch); err != nil {
		e.Fatal(err)
	}
}

// applyEvents marks the stream as read up to now.
func (e *engine) applyEvents() {
	e.Helper()
	if err := e.store.MarkRead(e.Context(), "S", e.seq, time.Now().UTC()); err != nil {
		e.Fatal(err)
	}
}

func (e *engine) alerts() []futurejobs.ListedAlert {
	e.Helper()
	page, err := e.store.Alerts(e.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	if err != nil {
		e.Fatal(err)
	}
	return page.Items
}

// newAlerts calls list with all alerts, if the sweeper settled decisions since the last call. A test that polls each second
// of hours would otherwise mostly list the same alerts.
func (e *engine) newAlerts(last *int64, list func(futurejobs.ListedAlert)) {
	e.Helper()
	settled := e.queue.settled.Load() + 1 // 0: no call yet
	if settled == *last {
		return
	}
	*last = settled
	for _, a := range e.alerts() {
		list(a)
	}
}

func (e *engine) ended() []futurejobs.EndedJob {
	e.Helper()
	page, err := e.store.History(e.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	if err != nil {
		e.Fatal(err)
	}
	return page.Items
}

const (
	// noResolve only has a time.
	noResolve = `
name: %s
entity: thing
trigger: {event: %s.created, key: event.id}
escalate: [{after: 10s, step: only, severity: error}]
slot: 1s
guards: {timeout: 2s, attempts: 3}
`
	withResolve = `
name: slow
entity: thing
trigger: {event: slow.created, key: event.id}
resolve: {event: slow.done, key: event.id}
escalate: [{after: 10s, step: only, severity: error}]
slot: 1s
`
)

func TestSlotWaitsUntilItsStreamIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, withResolve)
		e.publish("slow.created", "1")
		time.Sleep(9 * time.Second)
		e.applyEvents() // before the slot: it does not cover events up to the slot
		time.Sleep(time.Minute)
		if listed := e.alerts(); len(listed) != 0 {
			t.Fatalf("alerts before the stream was read past the slot: %+v", listed)
		}
		e.applyEvents()
		time.Sleep(2 * time.Second)
		listed := e.alerts()
		if len(listed) != 1 {
			t.Fatalf("%d alerts once the stream was read", len(listed))
		}
		if late := listed[0].DecidedAt.Sub(listed[0].Slot); late < 50*time.Second {
			t.Errorf("decided %s after the slot", late)
		}
	})
}

func TestVersionWithDeletedStreamDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil)
		for _, version := range []struct {
			key   string
			reads []rules.StreamBinding
		}{
			{"old", []rules.StreamBinding{{Subject: "slow.done", Stream: "GONE"}}},
			{"new", nil},
		} {
			e.save(strings.Replace(withResolve, "only", version.key, 1), version.reads...)
			if err := e.catalog.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.publish("slow.created", version.key)
		}
		e.sweeper.Wake()
		time.Sleep(11 * time.Second)
		e.applyEvents()
		time.Sleep(3 * time.Second)
		listed := e.alerts()
		if len(listed) != 1 || listed[0].Key != "new" {
			t.Errorf("alerts %+v, want the alert of the new version", listed)
		}
		if lag := e.sweeper.Lag(); lag < 2*time.Second {
			t.Errorf("the sweep reports a lag of %s while the old version waits", lag)
		}
	})
}

func TestSlowHandlerLeavesWorkersForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		defer close(hang)
		e := startEngine(t, map[string]checks.Handler{
			"hangs": checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
				<-hang
				return checks.Answer{}, nil
			}),
			"lookups": checks.HandlerFunc(func(ctx context.Context, _ checks.Check) (checks.Answer, error) {
				select {
				case <-time.After(100 * time.Millisecond):
					return checks.Answer{Outcome: checks.Exhausted}, nil
				case <-ctx.Done():
					return checks.Answer{}, ctx.Err()
				}
			}),
		}, fmt.Sprintf(noResolve, "hangs", "hangs"), fmt.Sprintf(noResolve, "lookups", "lookups"), fmt.Sprintf(noResolve, "computes", "computes"))

		var keys []string
		for i := range 20 {
			keys = append(keys, fmt.Sprint(i))
		}
		e.publish("hangs.created", keys...)
		e.publish("lookups.created", keys...)
		e.publish("computes.created", keys...)
		time.Sleep(20 * time.Second)

		counts := map[string]int{}
		for _, h := range e.ended() {
			counts[h.Rule]++
			if late := h.EndedAt.Sub(h.FirstCheckAt); late > 2*time.Second {
				t.Errorf("%s/%s ended %s after its slot", h.Rule, h.Key, late)
			}
		}
		if counts["lookups"] != 20 || counts["computes"] != 20 || counts["hangs"] != 0 {
			t.Errorf("ended: %v, want 20 of each but none that hangs", counts)
		}
		if lag := e.sweeper.Lag(); lag < time.Second {
			t.Errorf("the sweep reports a lag of %s while jobs hang", lag)
		}
		if own := e.sweeper.OwnLag(); own >= time.Second {
			t.Errorf("it is %s behind by itself, and nothing but a handler hangs", own)
		}
	})
}

// A job that waits for a lane is checked as soon as one is free, and not at the next sweep.
func TestFreeLaneIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, map[string]checks.Handler{"lookups": checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
			time.Sleep(10 * time.Millisecond)
			return checks.Answer{Outcome: checks.Exhausted}, nil
		})}, fmt.Sprintf(noResolve, "lookups", "lookups"))
		e.publish("lookups.created", keys(200)...)
		time.Sleep(12 * time.Second)
		if ended := len(e.ended()); ended != 200 {
			t.Errorf("%d of 200 ended within two seconds of their slot, four at a time and 10 ms each", ended)
		}
	})
}

// Any number of rules with handlers that never return, or that return at their timeout, leave capacity for others.
func TestSlowHandlersLeaveWorkersForOthers(t *testing.T) {
	for name, hangs := range map[string]func(ctx context.Context, never chan struct{}){
		"for ever":             func(_ context.Context, never chan struct{}) { <-never },
		"until their deadline": func(ctx context.Context, _ chan struct{}) { <-ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never := make(chan struct{})
				defer close(never)
				hanging := checks.HandlerFunc(func(ctx context.Context, _ checks.Check) (checks.Answer, error) {
					hangs(ctx, never)
					return checks.Answer{}, ctx.Err()
				})
				e := startEngine(t, map[string]checks.Handler{
					"a": hanging, "b": hanging,
					"lookups": checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
						time.Sleep(100 * time.Millisecond)
						return checks.Answer{Outcome: checks.Exhausted}, nil
					}),
				}, fmt.Sprintf(noResolve, "a", "a"), fmt.Sprintf(noResolve, "b", "b"), fmt.Sprintf(noResolve, "lookups", "lookups"))
				e.publish("a.created", keys(20)...)
				e.publish("b.created", keys(20)...)
				time.Sleep(2 * time.Second)
				e.publish("lookups.created", keys(10)...)
				time.Sleep(20 * time.Second)
				ended := e.ended()
				for _, h := range ended {
					if late := h.EndedAt.Sub(h.FirstCheckAt); late > 2*time.Second {
						t.Errorf("%s/%s ended %s after its slot", h.Rule, h.Key, late)
					}
				}
				if len(ended) != 10 {
					t.Errorf("%d of 10 ended", len(ended))
				}
				if n := e.sweeper.Abandoned(); n > 0 != (name == "for ever") {
					t.Errorf("%d are reported as abandoned", n)
				}
			})
		})
	}
}

func TestUndeterminedChecksAreAlertedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int32
		e := startEngine(t, map[string]checks.Handler{
			"fails": checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
				if requests.Add(1) == 5 {
					panic("the fifth time is too much")
				}
				return checks.Answer{}, fmt.Errorf("no route to the warehouse")
			}),
		}, fmt.Sprintf(noResolve, "fails", "fails"))
		e.publish("fails.created", "1")
		time.Sleep(30*time.Second + 500*time.Millisecond)

		listed := e.alerts()
		if len(listed) != 1 || listed[0].Status != alerts.Undetermined {
			t.Fatalf("alerts %+v, want one undetermined", listed)
		}
		job, err := e.store.Job(t.Context(), "fails", "1")
		if err != nil {
			t.Fatal(err)
		}
		if job.CheckCount != 0 || job.UndeterminedChecks < 6 || job.Last.FailedAt.IsZero() || !job.Last.CompletedAt.IsZero() {
			t.Errorf("after %d attempts the job is %+v", requests.Load(), job)
		}
		if job.UndeterminedChecks != int(requests.Load()) || job.CheckAttempts != int(requests.Load()) {
			t.Errorf("%d attempts, of which the job counts %d, and %d in a row", requests.Load(), job.CheckAttempts, job.UndeterminedChecks)
		}
	})
}

func TestStopSettlesRunningChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, map[string]checks.Handler{
			"lookups": checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
				time.Sleep(time.Second)
				return checks.Answer{Outcome: checks.Exhausted}, nil
			}),
		}, fmt.Sprintf(noResolve, "lookups", "lookups"))
		e.publish("lookups.created", "1", "2", "3")
		time.Sleep(10*time.Second + 500*time.Millisecond)
		e.stop()
		<-e.finished
		if ended := e.ended(); len(ended) != 3 {
			t.Errorf("%d of 3 checks that had begun are in history", len(ended))
		}
	})
}

// slowlyExhausted returns a handler of the rule slow whose checks take two seconds, raise an alert and end the job.
func slowlyExhausted() map[string]checks.Handler {
	return map[string]checks.Handler{
		"slow": checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
			time.Sleep(2 * time.Second)
			return checks.Answer{Outcome: checks.Exhausted, Alerts: []alerts.Draft{{Status: alerts.Firing, Severity: alerts.Error}}}, nil
		}),
	}
}

// resolveDuringCheck creates a job of the rule slow, and resolves it while its first check runs.
func (e *engine) resolveDuringCheck(key string) {
	e.Helper()
	e.publish("slow.created", key)
	time.Sleep(10 * time.Second)
	e.applyEvents()
	time.Sleep(time.Second) // it is being checked
	e.publish("slow.done", key)
	time.Sleep(10 * time.Second)
}

func TestJobThatChangedMeanwhileIsNotDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, slowlyExhausted(), withResolve)
		e.resolveDuringCheck("1")
		ended := e.ended()
		if len(ended) != 1 || ended[0].Outcome != checks.Resolved {
			t.Errorf("history has %+v, want one that is resolved", ended)
		}
		if listed := e.alerts(); len(listed) != 0 {
			t.Errorf("alerts about an order that was resolved before the decision: %+v", listed)
		}
	})
}

// A slot that comes while a sweep reads earlier jobs is swept at once, and not with the slot after it.
func TestSlotDuringSweepIsSwept(t *testing.T) {
	t.Parallel()
	const every = 10 * time.Second
	e := startEngine(t, nil, strings.Replace(fmt.Sprintf(noResolve, "r", "r"), "slot: 1s", "slot: 10s", 1))
	now, err := e.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slot := futurejobs.Grid(every).After(now.Add(2 * time.Second))
	swept := make(chan time.Time, 100)
	after := func(q futurejobs.DueQuery) {
		switch before := slot.Sub(q.Until); {
		case before <= 0:
			swept <- q.Until
		case before < time.Second:
			time.Sleep(time.Until(slot.Add(100 * time.Millisecond)))
		}
	}
	e.queue.after.Store(&after)
	time.Sleep(time.Until(slot.Add(-300 * time.Millisecond)))
	e.sweeper.Wake()
	if first := <-swept; !first.Before(slot.Add(every)) {
		t.Errorf("the slot of %v is swept at %v", slot, first)
	}
	e.queue.after.Store(nil)
}

// TestEndOfNodeIsNoFailure checks that a sweep, or a read of the outages, that the end of the node cuts off is not recorded,
// and not logged, as a failure.
func TestEndOfNodeIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil)
		synctest.Wait()
		ended := errors.New("the connection ended")
		e.sweeper.BeforeSweep = func(context.Context) error { return ended }
		e.sweeper.Wake()
		synctest.Wait()
		if err := e.sweeper.Err(); !errors.Is(err, ended) {
			t.Fatalf("the error of a failed sweep is %v", err)
		}
		e.sweeper.BeforeSweep = func(context.Context) error { return nil }
		e.sweeper.Wake()
		synctest.Wait()
		e.sweeper.BeforeSweep = func(ctx context.Context) error {
			e.stop()
			return ctx.Err()
		}
		e.sweeper.Wake()
		<-e.finished
		if err := e.sweeper.Err(); err != nil {
			t.Errorf("the node ended with the failure %v", err)
		}
	})
}

func TestEndOfNodeIsNoFailureOfOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil)
		ending := func() { e.stop() }
		e.queue.outages.Store(&ending)
		<-e.finished
		if err := e.sweeper.Err(); err != nil {
			t.Errorf("the node ended with the failure %v", err)
		}
	})
}
