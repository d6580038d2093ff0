package remotehandlers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"deadman/checks/lookup"
)

// State is the state of a service as seen by this node.
type State struct {
	Health     lookup.Health
	AnsweredAt time.Time // zero: never
	Error      string    // cause of the last failure; empty: none
	ErrorAt    time.Time
}

// State returns the state of the service of a name.
func (s *Services) State(name string) State {
	s.mu.Lock()
	one := s.known[name]
	s.mu.Unlock()
	if one == nil {
		return State{Health: lookup.New}
	}
	state := one.tally.state()
	switch one.breaker.State() {
	case gobreaker.StateOpen:
		state.Health = lookup.Down
	case gobreaker.StateHalfOpen:
		state.Health = lookup.Probing
	case gobreaker.StateClosed:
	}
	return state
}

// stats are the remembered results of a service's checks.
type stats struct {
	mu   sync.Mutex
	seen State
}

// heard records the result of a check. A check abandoned by its caller does not count.
func (t *stats) heard(err error, now time.Time) {
	if errors.Is(err, context.Canceled) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.seen.Health, t.seen.AnsweredAt = lookup.Up, now
		return
	}
	t.seen.Health, t.seen.Error, t.seen.ErrorAt = lookup.Failing, err.Error(), now
}

func (t *stats) state() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.seen
	if state.Health == "" {
		state.Health = lookup.New
	}
	return state
}
