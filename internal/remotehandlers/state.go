package remotehandlers

import (
	"context"
	"errors"
	"sync"
	"time"

	"deadman/checks/lookup"
)

// State is the state of a service as seen by this node.
type State struct {
	Health     lookup.Health
	AnsweredAt time.Time // zero: never
	Error      string    // cause of the last failure; empty: none
	ErrorAt    time.Time
}

// stats are the remembered results of a service's checks.
type stats struct {
	mu   sync.Mutex
	seen State
}

// record records the result of a check. A check abandoned by its caller does not count.
func (t *stats) record(err error, now time.Time) {
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
