package lookup

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"deadman/checks"
)

// State describes the health of a source on this node. It contains no secrets.
type State struct {
	Name, Kind   string
	Health       Health
	FailingSince time.Time // zero: the last call did not fail
	Error        string    // the last error of the source; empty: none so far
	ErrorAt      time.Time
	Caution      string        // permissions beyond those needed; empty: none known
	QueriedKeys  int64         // keys, in total
	RoundTrips   int64         // batches, in total
	Failures     int64         // of the source as a whole, in total
	Waiting      int           // queued batches
	Running      int           // batches and verifications
	Abandoned    int           // calls that ignored their deadline and have not returned
	P50, P99     time.Duration // of the last round trips; 0: none
}

// Health is the availability of a source.
type Health string

// The values of Health.
const (
	New     Health = "new"     // no call yet
	Up      Health = "up"      // the last call did not fail
	Failing Health = "failing" // the last call failed; the source is still queried
	Down    Health = "down"    // the circuit is open after repeated failures, or all calls are stuck
	Probing Health = "probing" // the circuit is half-open; the next call tests the source
)

// Works reports whether the source is presumed to be available.
func (h Health) Works() bool { return h == New || h == Up }

// State returns the current state of the source.
func (s *Source) State() State {
	querying, queryingLeft := s.querying.count()
	probing, probingLeft := s.probing.count()
	state := s.stats.state()
	state.Name, state.Kind = s.Name, s.Kind
	if c, ok := s.Client.(Cautious); ok {
		state.Caution = c.Caution()
	}
	state.Waiting = max(len(s.line)-querying, 0)
	state.Running, state.Abandoned = querying+probing, queryingLeft+probingLeft
	switch circuit := s.circuit.State(); {
	case circuit == gobreaker.StateOpen || s.querying.areStuck():
		state.Health = Down
	case circuit == gobreaker.StateHalfOpen:
		state.Health = Probing
	}
	return state
}

// latencies is the number of round trips behind State.P50 and P99.
const latencies = 512

// stats collects the results of calls to a source.
type stats struct {
	mu      sync.Mutex
	seen    State
	isKnown bool
	last    error
	times   []time.Duration // the last ones, as a ring
}

// record records the result of a call. A caller that went away does not affect the source's health.
func (t *stats) record(err error, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var outage *checks.Outage
	switch {
	case errors.As(err, &outage), errors.Is(err, errClient):
		t.last = err
		if outage != nil {
			t.last = outage.Err
		}
		t.seen.Failures++
		t.seen.Error, t.seen.ErrorAt = t.last.Error(), now.UTC()
		if t.seen.FailingSince.IsZero() {
			t.seen.FailingSince = now.UTC()
		}
	case err == nil || errors.Is(err, ErrQuestion):
		t.seen.FailingSince = time.Time{}
	default:
		return
	}
	t.isKnown = true
}

// took records the duration of a round trip.
func (t *stats) took(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.times) < latencies {
		t.times = append(t.times, d)
	} else {
		t.times[t.seen.RoundTrips%latencies] = d
	}
	t.seen.RoundTrips++
}

func (t *stats) countKeys(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.QueriedKeys += int64(n)
}

func (t *stats) lastError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

func (t *stats) state() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.seen
	if sorted := slices.Sorted(slices.Values(t.times)); len(sorted) > 0 {
		state.P50, state.P99 = sorted[len(sorted)/2], sorted[len(sorted)*99/100]
	}
	switch {
	case !state.FailingSince.IsZero():
		state.Health = Failing
	case t.isKnown:
		state.Health = Up
	default:
		state.Health = New
	}
	return state
}
