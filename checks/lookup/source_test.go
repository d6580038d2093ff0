package lookup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/rules"
)

var _ rules.Source = (*lookup.Source)(nil)

// fakeClient is a scripted client that counts calls.
type fakeClient struct {
	find              func(ctx context.Context, queries []lookup.KeyQuery) ([]checks.Finding, error)
	reach             func(ctx context.Context) error
	verify            func(ctx context.Context) error
	close             func()
	running, most     atomic.Int32
	queries, reaching atomic.Int32
}

func (c *fakeClient) Query(ctx context.Context, _ lookup.Question, queries []lookup.KeyQuery) ([]checks.Finding, error) {
	c.queries.Add(1)
	if now := c.running.Add(1); now > c.most.Load() {
		c.most.Store(now)
	}
	defer c.running.Add(-1)
	if c.find != nil {
		return c.find(ctx, queries)
	}
	return foundAll(queries), nil
}

// foundAll returns each key as its own value.
func foundAll(queries []lookup.KeyQuery) []checks.Finding {
	found := make([]checks.Finding, len(queries))
	for i, a := range queries {
		found[i].Value = json.RawMessage(`"` + a.Key + `"`)
	}
	return found
}

func (c *fakeClient) Verify(ctx context.Context, _ lookup.Question, _ int) ([]lookup.Column, error) {
	if c.verify != nil {
		if err := c.verify(ctx); err != nil {
			return nil, err
		}
	}
	return []lookup.Column{{Name: "status", Type: lookup.Text}}, nil
}

func (c *fakeClient) Reach(ctx context.Context) error {
	c.reaching.Add(1)
	if c.reach != nil {
		return c.reach(ctx)
	}
	return nil
}

func (c *fakeClient) Close() {
	if c.close != nil {
		c.close()
	}
}

func newSource(c *fakeClient, l lookup.Limits) *lookup.Source {
	return lookup.NewSource(lookup.Options{
		Name: "shop", Kind: "test", Client: c, Limits: l, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
}

func keys(n int) []lookup.KeyQuery {
	queries := make([]lookup.KeyQuery, n)
	for i := range queries {
		queries[i].Key = fmt.Sprint(i)
	}
	return queries
}

const timeout = 2 * time.Second

// queryKeys queries a source about n keys, with a place in the queue.
func queryKeys(t *testing.T, s *lookup.Source, n int) []checks.Finding {
	t.Helper()
	return queryWithin(t.Context(), t, s, n)
}

func queryWithin(ctx context.Context, t *testing.T, s *lookup.Source, n int) []checks.Finding {
	t.Helper()
	if !s.Enter() {
		t.Fatal("the line is full")
	}
	return s.Query(ctx, timeout, lookup.Question{}, keys(n))
}

// outage returns the error if all keys share an outage; empty otherwise.
func outage(found []checks.Finding) string {
	why := ""
	for _, f := range found {
		var o *checks.Outage
		if f.Value != nil || !errors.As(f.Err, &o) || o.Source != "shop" {
			return ""
		}
		why = o.Err.Error()
	}
	return why
}

func checkText(t *testing.T, what, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestFindingsKeepOrder(t *testing.T) {
	wrong := errors.New("a wrong type")
	received := &countingObserver{came: map[lookup.Outcome]int{}}
	c := &fakeClient{find: func(_ context.Context, queries []lookup.KeyQuery) ([]checks.Finding, error) {
		found := foundAll(queries)
		found[1], found[2] = checks.Finding{}, checks.Finding{Err: wrong}
		return found, nil
	}}
	s := lookup.NewSource(lookup.Options{Name: "shop", Client: c, Now: time.Now, Observer: received})
	if state := s.State(); state.Health != lookup.New {
		t.Errorf("nothing was asked: %+v", state)
	}
	found := queryKeys(t, s, 4)
	if len(found) != 4 || string(found[0].Value) != `"0"` || found[1].Value != nil || found[1].Err != nil || !errors.Is(found[2].Err, wrong) || string(found[3].Value) != `"3"` {
		t.Errorf("%+v", found)
	}
	state := s.State()
	if state.Health != lookup.Up || state.QueriedKeys != 4 || state.RoundTrips != 1 || state.Failures != 0 || state.Waiting != 0 || state.Running != 0 {
		t.Errorf("%+v", state)
	}
	if fmt.Sprint(received.came) != "map[absent:1 error:1 found:2]" || received.trips != 1 {
		t.Errorf("%v in %d round trips", received.came, received.trips)
	}
}

type countingObserver struct {
	mu    sync.Mutex
	came  map[lookup.Outcome]int
	trips int
}

func (o *countingObserver) CountKeys(_ string, outcome lookup.Outcome, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.came[outcome] += n
}

func (o *countingObserver) RoundTrip(string, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trips++
}

func TestQueueIsBounded(t *testing.T) {
	s := newSource(&fakeClient{}, lookup.Limits{Concurrency: 2, Waiting: 3})
	for range 5 {
		if !s.Enter() {
			t.Fatal("the line is full")
		}
	}
	if s.Enter() {
		t.Fatal("the line has no end")
	}
	if state := s.State(); state.Waiting != 5 {
		t.Errorf("%d wait", state.Waiting)
	}
	s.Query(t.Context(), timeout, lookup.Question{}, nil) // a query without keys releases the place too
	if !s.Enter() || s.Enter() {
		t.Error("one place was given back, and one only")
	}
}

func TestConcurrencyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeClient{find: func(_ context.Context, queries []lookup.KeyQuery) ([]checks.Finding, error) {
			time.Sleep(time.Second)
			return foundAll(queries), nil
		}}
		s := newSource(c, lookup.Limits{Concurrency: 3, Waiting: 6})
		startedAt := time.Now()
		var all sync.WaitGroup
		for range 9 {
			all.Go(func() {
				if found := queryKeys(t, s, 1); found[0].Err != nil {
					t.Error(found[0].Err)
				}
			})
		}
		synctest.Wait()
		if state := s.State(); state.Running != 3 || state.Waiting != 6 {
			t.Errorf("%+v", state)
		}
		all.Wait()
		if took := time.Since(startedAt); took != 3*time.Second || c.most.Load() != 3 {
			t.Errorf("nine batches took %s, %d of them at once", took, c.most.Load())
		}
		if state := s.State(); state.P50 != time.Second || state.P99 != time.Second || state.RoundTrips != 9 {
			t.Errorf("%+v", state)
		}
	})
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pieces []string
		startedAt := time.Now()
		c := &fakeClient{find: func(_ context.Context, queries []lookup.KeyQuery) ([]checks.Finding, error) {
			pieces = append(pieces, fmt.Sprintf("%d at %s", len(queries), time.Since(startedAt)))
			return foundAll(queries), nil
		}}
		s := newSource(c, lookup.Limits{Rate: 100})
		found := queryKeys(t, s, 250)
		if len(found) != 250 || string(found[249].Value) != `"249"` {
			t.Errorf("%d findings", len(found))
		}
		if got := strings.Join(pieces, ", "); got != "100 at 0s, 100 at 1s, 50 at 1.5s" {
			t.Error(got)
		}
	})
}

// After five consecutive failures the circuit opens for ten seconds; then one batch is a trial.
func TestFailingSourceOpensCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		c := &fakeClient{find: func(_ context.Context, queries []lookup.KeyQuery) ([]checks.Finding, error) {
			time.Sleep(time.Second)
			if broken.Load() {
				return nil, errors.New("connection refused")
			}
			return foundAll(queries), nil
		}}
		s := newSource(c, lookup.Limits{})
		since := time.Now().Add(time.Second)
		for i := range 5 {
			if state := s.State(); i > 0 && state.Health != lookup.Failing {
				t.Errorf("after %d failures it is %s", i, state.Health)
			}
			checkText(t, "a failure", outage(queryKeys(t, s, 3)), "connection refused")
		}
		state := s.State()
		if state.Health != lookup.Down || state.Failures != 5 || !state.FailingSince.Equal(since) || !strings.Contains(state.Error, "refused") {
			t.Errorf("%+v", state)
		}
		at := time.Now()
		checkText(t, "left alone", outage(queryKeys(t, s, 3)), "connection refused (it is not queried for 10s at a time)")
		if err := s.Reach(t.Context()); err == nil || c.reaching.Load() != 0 {
			t.Errorf("it is bothered: %v", err)
		}
		if time.Since(at) != 0 || c.queries.Load() != 5 {
			t.Errorf("it was queried %d times", c.queries.Load())
		}
		if err := s.Try(t.Context()); err != nil || c.reaching.Load() != 1 {
			t.Errorf("a person tries it: %v", err)
		}

		time.Sleep(10*time.Second + time.Millisecond)
		if state := s.State(); state.Health != lookup.Probing {
			t.Errorf("%+v", state)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { checkText(t, "one tries, in vain", outage(queryKeys(t, s, 1)), "refused") })
		}
		all.Wait()
		if c.queries.Load() != 6 || s.State().Health != lookup.Down {
			t.Errorf("%d tried, and it is %s", c.queries.Load()-5, s.State().Health)
		}

		broken.Store(false)
		time.Sleep(10*time.Second + time.Millisecond)
		if found := queryKeys(t, s, 1); found[0].Err != nil {
			t.Error(found[0].Err)
		}
		if state := s.State(); state.Health != lookup.Up || !state.FailingSince.IsZero() || state.Failures != 6 {
			t.Errorf("%+v", state)
		}
	})
}

// A successful verification is no proof that the source answers, as some verify questions without contacting it.
func TestVerifyDoesNotCloseCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(&fakeClient{find: func(context.Context, []lookup.KeyQuery) ([]checks.Finding, error) {
			return nil, errors.New("connection refused")
		}}, lookup.Limits{})
		verify := func(want lookup.Health) {
			t.Helper()
			if _, err := s.Verify(t.Context(), lookup.Question{}, 1); err != nil {
				t.Error(err)
			}
			if state := s.State(); state.Health != want {
				t.Errorf("it is %s, want %s", state.Health, want)
			}
		}
		verify(lookup.New)
		for range 4 {
			queryKeys(t, s, 1)
			verify(lookup.Failing)
		}
		queryKeys(t, s, 1)
		if state := s.State(); state.Health != lookup.Down {
			t.Errorf("after five failures in a row it is %s", state.Health)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		verify(lookup.Probing)
		checkText(t, "one tries", outage(queryKeys(t, s, 1)), "connection refused")
	})
}

// The author of a rule can't cut off a source for other rules by questions that fail verification.
func TestVerifyingNeverOpensCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(&fakeClient{verify: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, lookup.Limits{})
		for range 20 {
			var o *checks.Outage
			if _, err := s.Verify(t.Context(), lookup.Question{}, 1); !errors.As(err, &o) {
				t.Errorf("%v", err)
			}
		}
		if state := s.State(); state.Health != lookup.New || state.Failures != 0 {
			t.Errorf("%+v", state)
		}
		if found := queryKeys(t, s, 1); found[0].Err != nil {
			t.Error(found[0].Err)
		}
	})
}

// Trial calls do not count toward the health of the source, and are rejected while the circuit is open.
func TestTrialsNeverOpenCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := true
		s := newSource(&fakeClient{find: func(_ context.Context, queries []lookup.KeyQuery) ([]checks.Finding, error) {
			if failing {
				return nil, errors.New("connection refused")
			}
			return make([]checks.Finding, len(queries)), nil
		}}, lookup.Limits{})
		for range 20 {
			checkText(t, "on trial", outage(queryWithin(lookup.Trial(t.Context()), t, s, 1)), "connection refused")
		}
		if state := s.State(); state.Health != lookup.New || state.Failures != 0 {
			t.Errorf("%+v", state)
		}
		for range 5 {
			queryKeys(t, s, 1)
		}
		failing = false
		checkText(t, "on trial, circuit open", outage(queryWithin(lookup.Trial(t.Context()), t, s, 1)), "not queried for 10s")
		if state := s.State(); state.Health != lookup.Down {
			t.Errorf("%+v", state)
		}
	})
}

// A rejected question is an outage of its rule, with one alert for all jobs. The circuit stays closed for other
// rules.
func TestRejectedQuestionIsNoSourceFailure(t *testing.T) {
	c := &fakeClient{find: func(context.Context, []lookup.KeyQuery) ([]checks.Finding, error) {
		return nil, fmt.Errorf("%w: no column total", lookup.ErrQuestion)
	}}
	s := newSource(c, lookup.Limits{})
	for range 10 {
		for _, f := range queryKeys(t, s, 2) {
			if outage([]checks.Finding{f}) == "" || !errors.Is(f.Err, lookup.ErrQuestion) {
				t.Fatalf("%v", f.Err)
			}
		}
	}
	if state := s.State(); state.Health != lookup.Up || c.queries.Load() != 10 {
		t.Errorf("%+v", state)
	}
}

func TestClientTimeoutIsNotDatabaseTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context, _ []lookup.KeyQuery) ([]checks.Finding, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		s := newSource(&fakeClient{find: hangs}, lookup.Limits{Concurrency: 1, Waiting: 1})
		startedAt := time.Now()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { checkText(t, "it hangs", outage(queryKeys(t, s, 2)), "it did not answer within 2s") })
		}
		all.Wait()
		if took := time.Since(startedAt); took != 4*time.Second { // the second call began when the first ended
			t.Errorf("it took %s", took)
		}
	})
}

// A call that ignores its deadline is abandoned, and the number of running calls stays bounded. Queued and new
// callers fail at once.
func TestCallIgnoringDeadlineIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		c := &fakeClient{find: func(_ context.Context, queries []lookup.KeyQuery) ([]checks.Finding, error) {
			<-free
			return foundAll(queries), nil
		}}
		s := newSource(c, lookup.Limits{Concurrency: 2, Waiting: 8, OpenAfter: 1000})
		startedAt := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if outage(queryKeys(t, s, 1)) == "" {
					t.Error("an answer came from nowhere")
				}
				if took := time.Since(startedAt); took != timeout+100*time.Millisecond {
					t.Errorf("it took %s", took)
				}
			})
		}
		all.Wait()
		state := s.State()
		if state.Abandoned != 2 || state.Running != 0 || state.Waiting != 0 || state.Health != lookup.Down || c.queries.Load() != 2 {
			t.Errorf("%+v, queried %d times", state, c.queries.Load())
		}
		checkText(t, "a later call", outage(queryKeys(t, s, 1)), "calls were abandoned")
		if s.Reach(t.Context()) == nil {
			t.Error("it can be reached, they say")
		}
		free <- struct{}{}
		synctest.Wait()
		if state := s.State(); state.Abandoned != 1 || state.Health != lookup.Failing {
			t.Errorf("%+v", state)
		}
		close(free)
		synctest.Wait()
		if found := queryKeys(t, s, 1); found[0].Err != nil {
			t.Error(found[0].Err)
		}
		if state := s.State(); state.Abandoned != 0 || state.Health != lookup.Up {
			t.Errorf("%+v", state)
		}
	})
}

// A broken client also raises one alert for all jobs, and opens the circuit.
func TestClientAtFault(t *testing.T) {
	for name, c := range map[string]struct {
		does     func([]lookup.KeyQuery) []checks.Finding
		wantText string
	}{
		"panics":     {func([]lookup.KeyQuery) []checks.Finding { panic("the password is opensesame") }, "it panicked"},
		"miscounts":  {func(queries []lookup.KeyQuery) []checks.Finding { return foundAll(queries[1:]) }, "2 answers to 3 queries"},
		"overcounts": {func(queries []lookup.KeyQuery) []checks.Finding { return foundAll(append(queries, queries...)) }, "6 answers to 3 queries"},
	} {
		s := newSource(&fakeClient{find: func(_ context.Context, queries []lookup.KeyQuery) ([]checks.Finding, error) {
			return c.does(queries), nil
		}}, lookup.Limits{OpenAfter: 3})
		for range 3 {
			for _, f := range queryKeys(t, s, 3) {
				if f.Err == nil || outage([]checks.Finding{f}) == "" || !strings.Contains(f.Err.Error(), c.wantText) || strings.Contains(f.Err.Error(), "opensesame") {
					t.Errorf("%s: %v", name, f.Err)
				}
			}
		}
		checkText(t, name+", always", outage(queryKeys(t, s, 3)), "is broken") // and the circuit opens
		if state := s.State(); state.Health != lookup.Down || state.Failures != 3 {
			t.Errorf("%s: %+v", name, state)
		}
	}
}

// A cancelled caller does not affect the health of the source.
func TestDisconnectedCallerIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(&fakeClient{find: func(ctx context.Context, _ []lookup.KeyQuery) ([]checks.Finding, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, lookup.Limits{Concurrency: 1, OpenAfter: 1})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if !s.Enter() {
					t.Error("the line is full")
					return
				}
				found := s.Query(ctx, timeout, lookup.Question{}, keys(1))
				if !errors.Is(found[0].Err, context.Canceled) || outage(found) != "" {
					t.Errorf("%v", found[0].Err)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		if state := s.State(); state.Health != lookup.New || state.Failures != 0 {
			t.Errorf("%+v", state)
		}
	})
}

func TestProbesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		c := &fakeClient{reach: func(context.Context) error { <-free; return nil }}
		s := newSource(c, lookup.Limits{})
		if columns, err := s.Verify(t.Context(), lookup.Question{}, 1); err != nil || len(columns) != 1 {
			t.Errorf("%v, %v", columns, err)
		}
		for range 5 {
			var o *checks.Outage
			if err := s.Try(t.Context()); !errors.As(err, &o) {
				t.Errorf("%v", err)
			}
		}
		if state := s.State(); c.reaching.Load() != 2 || state.Abandoned != 2 {
			t.Errorf("%d are on their way: %+v", c.reaching.Load(), state)
		}
		if found := queryKeys(t, s, 1); found[0].Err != nil { // batches have separate places
			t.Error(found[0].Err)
		}
		close(free)
		synctest.Wait()
		if err := s.Try(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		defer close(free)
		var closed atomic.Bool
		set := lookup.NewSet(
			lookup.NewSource(lookup.Options{Name: "shop", Client: &fakeClient{close: func() { <-free }}, Now: time.Now}),
			lookup.NewSource(lookup.Options{Name: "bus", Client: &fakeClient{close: func() { closed.Store(true) }}, Now: time.Now}),
		)
		if got, ok := set.Get("bus"); !ok || got.Name != "bus" || fmt.Sprint(set.Names()) != "[bus shop]" {
			t.Errorf("%v of %v", got, set.Names())
		}
		if _, ok := set.Get("shops"); ok {
			t.Error("there are shops")
		}
		if states := set.States(); len(states) != 2 || states[1].Name != "shop" {
			t.Errorf("%+v", states)
		}
		startedAt := time.Now()
		set.Close() // one client does not close
		if took := time.Since(startedAt); !closed.Load() || took != time.Second {
			t.Errorf("closed: %t, after %s", closed.Load(), took)
		}
		var none *lookup.Set
		none.Close()
		if _, ok := none.Get("shop"); ok || none.Names() != nil || none.States() != nil {
			t.Error("what is not there has sources")
		}
	})
}
