package lookup

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"deadman/checks"
)

// State is how a source does, on this node. It holds no secret.
type State struct {
	Name, Kind   string
	Health       Health
	FailingSince time.Time // zero: the last that was asked did not fail
	Error        string    // why the source could not be asked last; empty: it never could not
	ErrorAt      time.Time
	Caution      string        // what it may do beyond answering questions; empty: nothing that is known
	Asked        int64         // keys, ever
	RoundTrips   int64         // batches, ever
	Failures     int64         // of the source as a whole, ever
	Waiting      int           // batches in line
	Running      int           // batches and looks on their way
	Abandoned    int           // of those that ignored their deadline and have not returned
	P50, P99     time.Duration // of the last round trips; 0: there were none
}

// Health is whether a source can be asked.
type Health string

// The healths.
const (
	New     Health = "new"     // nothing was asked yet
	Up      Health = "up"      // the last that was asked did not fail
	Failing Health = "failing" // it did, and the source is asked nevertheless
	Down    Health = "down"    // failed too often and is left alone, or returns from nothing
	Trying  Health = "trying"  // was left alone; what is asked next tries whether it is back
)

// Works reports whether there is no reason to think that the source can't be asked.
func (h Health) Works() bool { return h == New || h == Up }

// State is how the source does.
func (s *Source) State() State {
	asking, askingLeft := s.asking.count()
	looking, lookingLeft := s.looking.count()
	state := s.tally.state()
	state.Name, state.Kind = s.Name, s.Kind
	if c, ok := s.Client.(Cautious); ok {
		state.Caution = c.Caution()
	}
	state.Waiting = max(len(s.line)-asking, 0)
	state.Running, state.Abandoned = asking+looking, askingLeft+lookingLeft
	switch circuit := s.circuit.State(); {
	case circuit == gobreaker.StateOpen || s.asking.areStuck():
		state.Health = Down
	case circuit == gobreaker.StateHalfOpen:
		state.Health = Trying
	}
	return state
}

// latencies is how many round trips State.P50 and P99 are of.
const latencies = 512

// stats is what a source remembers of what it was asked.
type stats struct {
	mu      sync.Mutex
	seen    State
	heardOf bool
	last    error
	times   []time.Duration // the last, as a ring
}

// heard takes in what came of a call. That nobody waited says nothing about
// the source.
func (t *stats) heard(err error, now time.Time) {
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
	t.heardOf = true
}

// took takes in how long a round trip took.
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

func (t *stats) asked(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.Asked += int64(n)
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
	case t.heardOf:
		state.Health = Up
	default:
		state.Health = New
	}
	return state
}
