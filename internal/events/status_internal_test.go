package events

import (
	"errors"
	"log/slog"
	"testing"
	"time"
)

// TestFailureOfLineStays checks that a line which fails at every other step counts as failing, until it has caught up
// or nothing failed for a while.
func TestFailureOfLineStays(t *testing.T) {
	failure := errors.New("no heartbeat")
	now := time.Unix(1_000_000, 0)
	s := newLineStatus(slog.New(slog.DiscardHandler), "ORDERS")
	step := func(err error, left uint64, isFailing bool) {
		t.Helper()
		s.setLeft(left)
		s.setResult(t.Context(), err, 1, now, now)
		if got := s.get().Err; (got != nil) != isFailing {
			t.Errorf("its error is %v", got)
		}
	}
	step(nil, 1000, false)
	for range 10 {
		step(failure, 1000, true)
		now = now.Add(2 * time.Second)
		step(nil, 900, true)
	}
	step(nil, 0, false)

	step(failure, 1000, true)
	now = now.Add(failureMemory - time.Second)
	step(nil, 500, true)
	now = now.Add(time.Second)
	step(nil, 500, false)
}
