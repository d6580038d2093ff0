package remotehandlers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"deadman/checks/lookup"
)

// State is how a service did when it was asked, on this node.
type State struct {
	Health     lookup.Health
	AnsweredAt time.Time // zero: it never did
	Error      string    // why it gave no answer last; empty: it always did
	ErrorAt    time.Time
}

// State is how the service of a name did.
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
		state.Health = lookup.Trying
	case gobreaker.StateClosed:
	}
	return state
}

// stats is what is remembered of the checks of a service.
type stats struct {
	mu   sync.Mutex
	seen State
}

// heard takes in what came of a check. That nobody waited for the answer says nothing.
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
