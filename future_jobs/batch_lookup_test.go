package futurejobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// source does a lookup before its handler runs; the handler ends jobs that are found and continues the others.
type source struct {
	most int // batches at once

	mu      sync.Mutex
	batches []int
	in      int
	refused int
	find    func(key string) checks.Finding
	delay   time.Duration
}

func (*source) Inline() {}

func (*source) Check(_ context.Context, c checks.Check) (checks.Answer, error) {
	if !c.Queried {
		return checks.Answer{}, errors.New("no lookup was made")
	}
	if c.Found == nil {
		return checks.Answer{Outcome: "absent"}, nil
	}
	return checks.Answer{Outcome: checks.Outcome(strings.Trim(string(c.Found), `{"}`))}, nil
}

func (*source) Source() string { return "shop" }

func (s *source) Enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in == s.most {
		s.refused++
		return false
	}
	s.in++
	return true
}

func (s *source) Find(ctx context.Context, questions []checks.Check) []checks.Finding {
	s.mu.Lock()
	s.batches = append(s.batches, len(questions))
	find, delay := s.find, s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
	found := make([]checks.Finding, len(questions))
	for i, q := range questions {
		found[i] = find(q.Key)
	}
	s.mu.Lock()
	s.in--
	s.mu.Unlock()
	return found
}

func (s *source) Reach(context.Context) error { return s.answer("").Err }

func (s *source) answer(key string) checks.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(key)
}

// batchCounts returns the batches so far, and how often the queue was full.
func (s *source) batchCounts() (batches []int, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches), s.refused
}

// setFinder changes the findings from now on.
func (s *source) setFinder(find func(key string) checks.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.find = find
}

func foundKnown(string) checks.Finding { return checks.Finding{Value: json.RawMessage(`{"known"}`)} }

func sourceDown(string) checks.Finding {
	return checks.Finding{Err: &checks.Outage{Source: "shop", Err: errors.New("connection refused")}}
}

func TestSourceIsQueriedInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop := &source{most: 2, delay: 100 * time.Millisecond, find: func(key string) checks.Finding {
			switch key {
			case "7":
				return checks.Finding{Err: errors.New("no number")}
			case "8":
				return checks.Finding{}
			}
			return foundKnown(key)
		}}
		e := startEngine(t, map[string]checks.Handler{"lookups": shop}, fmt.Sprintf(noResolve, "lookups", "lookups"), fmt.Sprintf(noResolve, "other", "other"))
		e.publish("lookups.created", keys(9000)...)
		e.publish("other.created", keys(10)...)
		time.Sleep(11 * time.Second)

		counts := map[string]int{}
		jobs, err := e.store.Gauges(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range e.ended() {
			counts[h.Rule+" "+string(h.Outcome)]++
			if late := h.EndedAt.Sub(h.FirstCheckAt); h.Rule == "other" && late > 200*time.Millisecond {
				t.Errorf("%s/%s ended %s after its slot, behind a source that it does not ask", h.Rule, h.Key, late)
			}
		}
		if jobs.Pending != 1 || counts["lookups absent"] > 1 {
			t.Errorf("pending: %d, want the one that could not be found out about; ended: %v", jobs.Pending, counts)
		}
		batches, refused := shop.batchCounts()
		requests := 0
		for _, n := range batches {
			requests += n
		}
		if again := len(singleQueries(batches)); requests != 9000+again || len(batches)-again > 12 || slices.Max(batches) > 2000 {
			t.Errorf("queried about %d in batches of %v", requests, batches)
		}
		if refused == 0 {
			t.Error("the line was never full: that others go past it is not shown")
		}
	})
}

// Jobs that wait for a source are late, but the node is not behind: another node would be no faster.
func TestVirtualSlowSourcePutsNoNodeBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &source{most: 1, delay: time.Minute, find: foundKnown}
		e := startEngine(t, map[string]checks.Handler{"lookups": slow}, fmt.Sprintf(noResolve, "lookups", "lookups"), fmt.Sprintf(noResolve, "other", "other"))
		e.publish("lookups.created", keys(3000)...) // one batch is in flight, and the rest is left in the database
		e.publish("other.created", "1")
		time.Sleep(40 * time.Second)
		if lag, own := e.sweeper.Lag(), e.sweeper.OwnLag(); lag < 30*time.Second || own > time.Second {
			t.Errorf("it is %s behind, by itself %s", lag, own)
		}
	})
}

// While a node stops, no other node checks the jobs of its shards.
func TestStoppingWaitsForNoSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &source{most: 1, delay: time.Minute, find: foundKnown}
		e := startEngine(t, map[string]checks.Handler{"lookups": slow}, fmt.Sprintf(noResolve, "lookups", "lookups"))
		e.publish("lookups.created", "1")
		time.Sleep(11 * time.Second)
		if batches, _ := slow.batchCounts(); len(batches) != 1 {
			t.Fatalf("queried about %v", batches)
		}
		startedAt := time.Now()
		e.stop()
		<-e.finished
		job, err := e.store.Job(t.Context(), "lookups", "1")
		if took := time.Since(startedAt); took > time.Second || err != nil || job.CheckAttempts != 0 || len(e.alerts()) != 0 {
			t.Errorf("it stopped after %s; the job: %+v, %v", took, job.Job, err)
		}
	})
}

// Jobs that wait in the database for a source, for any time, make no slot of other rules late.
func TestFullLineMakesNoOtherSlotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &source{most: 0}
		e := startEngine(t, map[string]checks.Handler{"lookups": full}, fmt.Sprintf(noResolve, "lookups", "lookups"), fmt.Sprintf(noResolve, "other", "other"))
		e.publish("lookups.created", keys(10)...)
		for i := range 20 {
			e.publish("other.created", fmt.Sprint(i))
			time.Sleep(time.Second)
		}
		time.Sleep(11 * time.Second)

		ended := e.ended()
		for _, h := range ended {
			if late := h.EndedAt.Sub(h.FirstCheckAt); late > 200*time.Millisecond {
				t.Errorf("%s/%s ended %s after its slot", h.Rule, h.Key, late)
			}
		}
		if _, refused := full.batchCounts(); len(ended) != 20 || refused < 20 {
			t.Errorf("%d jobs ended, want 20; the line was full %d times", len(ended), refused)
		}
	})
}

// singleQueries returns the number of batches of one: retries of the undetermined job.
func singleQueries(batches []int) (ones []int) {
	for _, n := range batches[1:] {
		if n == 1 {
			ones = append(ones, n)
		}
	}
	return ones
}

func TestOutageIsAlertedOnceAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop := &source{most: 4, find: sourceDown}
		e := startEngine(t, map[string]checks.Handler{"lookups": shop}, fmt.Sprintf(noResolve, "lookups", "lookups"))
		e.publish("lookups.created", keys(300)...)
		time.Sleep(10*time.Second + 500*time.Millisecond)
		if listed := e.alerts(); len(listed) != 0 {
			t.Fatalf("alerts at the first attempt: %+v", listed)
		}
		time.Sleep(2 * time.Minute)
		listed := e.alerts()
		if len(listed) != 1 || listed[0].Status != alerts.Undetermined || listed[0].Count != 300 || listed[0].Source != "shop" || listed[0].Rule != "lookups" {
			t.Fatalf("logged %+v, want one entry that 300 lookups failed", listed)
		}
		if !strings.Contains(listed[0].Text, "connection refused") || !strings.Contains(listed[0].Text, "300 jobs") {
			t.Errorf("the text is %q", listed[0].Text)
		}
		shop.setFinder(foundKnown)
		time.Sleep(6 * time.Minute)
		after := e.alerts()
		if len(after) != 2 {
			t.Fatalf("%d alerts once the source can be queried again, want its end beside its beginning", len(after))
		}
		end := after[0]
		if end.Status != alerts.Resolved || !slices.Equal(end.Closes, []alerts.ID{listed[0].ID}) || end.Count != 300 {
			t.Errorf("the end: %+v", end)
		}
		open, err := e.store.Outages(t.Context())
		if jobs, _ := e.store.Gauges(t.Context()); err != nil || len(open) != 0 || jobs.Pending != 0 {
			t.Errorf("open: %v, %v; pending: %d", open, err, jobs.Pending)
		}
	})
}

// An outage that affects no job any more ends when its source is reachable.
func TestOutageEndsWithoutJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop := &source{most: 4, find: sourceDown}
		e := startEngine(t, map[string]checks.Handler{"lookups": shop}, strings.Replace(fmt.Sprintf(noResolve, "lookups", "lookups"), "attempts: 3", "attempts: 1, end: true", 1))
		e.publish("lookups.created", keys(3)...)
		time.Sleep(5 * time.Minute)
		if listed := e.alerts(); len(listed) != 1 || listed[0].Status != alerts.Undetermined || len(e.ended()) != 3 {
			t.Fatalf("alerts %+v, ended %d", listed, len(e.ended()))
		}
		shop.setFinder(foundKnown)
		time.Sleep(20 * time.Second)
		if listed := e.alerts(); len(listed) != 2 || listed[0].Status != alerts.Resolved {
			t.Errorf("alerts %+v", listed)
		}
	})
}

// A source that recovers before any node has read its outage counts as recovered.
func TestShortOutageEndsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop := &source{most: 4, find: sourceDown}
		e := startEngine(t, map[string]checks.Handler{"lookups": shop}, strings.Replace(fmt.Sprintf(noResolve, "lookups", "lookups"), "attempts: 3", "attempts: 1, end: true", 1))
		time.Sleep(500 * time.Millisecond)
		e.publish("lookups.created", "1")
		time.Sleep(2 * time.Second)
		e.publish("lookups.created", "2")
		time.Sleep(9 * time.Second)
		if listed := e.alerts(); len(listed) != 1 || listed[0].Status != alerts.Undetermined {
			t.Fatalf("alerts %+v", listed)
		}
		shop.setFinder(foundKnown)
		time.Sleep(10 * time.Second)
		if listed := e.alerts(); len(listed) != 2 || listed[0].Status != alerts.Resolved {
			t.Errorf("alerts %+v", listed)
		}
	})
}

func TestPanicOfSourceIsOneOfItsChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop := &source{most: 4, find: func(string) checks.Finding { panic("no") }}
		e := startEngine(t, map[string]checks.Handler{"lookups": shop}, fmt.Sprintf(noResolve, "lookups", "lookups"), fmt.Sprintf(noResolve, "other", "other"))
		e.publish("lookups.created", "1")
		e.publish("other.created", "1")
		time.Sleep(20 * time.Second)
		listed := e.alerts()
		if len(listed) != 2 || len(e.ended()) != 1 {
			t.Errorf("alerts %+v, ended %+v", listed, e.ended())
		}
	})
}

// If a stream is behind for longer than its rule waits, checks are undetermined, until the stream is read again.
func TestUnreadableStreamIsOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, withResolve+"catch_up: {after: 1m, do: run}\n")
		e.publish("slow.created", keys(20)...)
		time.Sleep(65 * time.Second)
		if listed := e.alerts(); len(listed) != 0 {
			t.Fatalf("alerts while waiting: %+v", listed)
		}
		time.Sleep(10 * time.Minute)
		listed := e.alerts()
		if len(listed) != 1 || listed[0].Status != alerts.Undetermined || listed[0].Source != "stream/S" || listed[0].Count != 20 {
			t.Fatalf("alerts %+v, want that the stream cannot be read", listed)
		}
		for range 600 { // as ingest does, from now on
			e.applyEvents()
			time.Sleep(time.Second)
		}
		after := e.alerts()
		firing := 0
		for _, a := range after {
			if a.Status == alerts.Firing {
				firing++
			}
		}
		if len(after) != 22 || firing != 20 || !slices.ContainsFunc(after, func(a futurejobs.ListedAlert) bool { return a.Status == alerts.Resolved }) {
			t.Errorf("%d alerts, %d of them firing, want the step of each job and the end of the outage", len(after), firing)
		}
	})
}

func TestStartedAtMostOnceCheckIsNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		var mu sync.Mutex
		e := startEngine(t, map[string]checks.Handler{
			"pays": checks.WithAtMostOnce(checks.HandlerFunc(func(_ context.Context, c checks.Check) (checks.Answer, error) {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, c.Key)
				if c.Key == "errs" {
					return checks.Answer{}, errors.New("the bank says no")
				}
				return checks.Answer{Outcome: checks.Exhausted}, nil
			})),
		}, fmt.Sprintf(noResolve, "pays", "pays"))
		e.publish("pays.created", "crashed", "errs", "fine")
		time.Sleep(time.Second)
		crashed, err := e.store.Job(t.Context(), "pays", "crashed")
		if err != nil {
			t.Fatal(err)
		}
		leases, err := e.store.Leases(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held := leases[crashed.Shard].HeldShard // a check starts, and its node crashes
		if ok, err := e.store.BeginCheck(t.Context(), futurejobs.CheckStart{HeldShard: held, JobID: crashed.ID, CheckAttempts: crashed.CheckAttempts}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		time.Sleep(9*time.Second + 500*time.Millisecond)
		mu.Lock()
		slices.Sort(ran)
		if !slices.Equal(ran, []string{"errs", "fine"}) {
			t.Errorf("ran %v at the slot", ran)
		}
		mu.Unlock()
		outcomes := map[string]checks.Outcome{}
		for _, h := range e.ended() {
			outcomes[h.Key] = h.Outcome
		}
		if outcomes["crashed"] != checks.Undetermined || outcomes["fine"] != checks.Exhausted || len(outcomes) != 2 {
			t.Errorf("ended %v", outcomes)
		}
		statuses := map[string]alerts.Status{}
		for _, a := range e.alerts() {
			statuses[a.Key] = a.Status
		}
		if statuses["crashed"] != alerts.GaveUp || statuses["errs"] != alerts.Undetermined || len(statuses) != 2 {
			t.Errorf("alerts %v", statuses)
		}
	})
}

// The answer of a check with side effects counts, even if it could not be settled at first.
func TestAnsweredAtMostOnceCheckIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e *engine
		var mu sync.Mutex
		ran := 0
		e = startEngine(t, map[string]checks.Handler{
			"pays": checks.WithAtMostOnce(checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
				mu.Lock()
				defer mu.Unlock()
				if ran++; ran == 1 {
					e.resolve(fmt.Sprintf(noResolve, "pays", "pays"))
				}
				return checks.Answer{Outcome: "paid"}, nil
			})),
		}, fmt.Sprintf(noResolve, "pays", "pays"))
		e.publish("pays.created", "1", "2", "3")
		time.Sleep(20 * time.Second)
		ended := e.ended()
		for _, h := range ended {
			if h.Outcome != "paid" {
				t.Errorf("%s ended as %s: %s", h.Key, h.Outcome, h.Reason)
			}
		}
		if mu.Lock(); len(ended) != 3 || ran != 3 {
			t.Errorf("%d ended, %d ran", len(ended), ran)
		}
		mu.Unlock()
	})
}
