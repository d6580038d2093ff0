package events

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"deadman/internal/periodic"
)

// Status describes a line of a stream read by this node.
type Status struct {
	Line     string
	Seq      uint64    // the last applied sequence
	MarkedAt time.Time // the database time up to which no event is known to be unread
	CaughtUp time.Time // the database time through which it was read; the stream's, while it is behind
	Left     uint64    // unread events for the rules, as known when the last event was received
	Risk     string    // reason that the stream's settings may cause losses of single unread events; empty: none
	Err      error     // current error of reading; nil: none
}

// failureMemory is the time without another failure after which a line that is behind counts as read again.
const failureMemory = 30 * time.Second

// lineStatus holds the current Status of a line. It is safe for concurrent use.
type lineStatus struct {
	result *periodic.Status

	mu       sync.Mutex
	now      Status // without its Err
	failedAt time.Time
}

func newLineStatus(log *slog.Logger, line string) *lineStatus {
	return &lineStatus{result: periodic.NewStatus(log.With("stream", line), slog.LevelWarn, "reading a stream"), now: Status{Line: line}}
}

// get returns the current status.
func (s *lineStatus) get() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now
	now.Err = s.result.Err()
	return now
}

// setResult records the result of a step that ended now. A failure stays until the line has caught up, or nothing failed for
// failureMemory: a line that fails at every other step is not read.
func (s *lineStatus) setResult(ctx context.Context, err error, seq uint64, markedAt, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Seq, s.now.MarkedAt = seq, markedAt
	switch {
	case err != nil:
		s.failedAt = now
	case s.now.Left > 0 && now.Sub(s.failedAt) < failureMemory:
		return
	}
	s.result.Set(ctx, err)
}

// setRisk records the reason that the stream's settings may cause losses.
func (s *lineStatus) setRisk(risk string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Risk = risk
}

// setLeft records the number of unread events.
func (s *lineStatus) setLeft(left uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Left = left
}

// advanceCaughtUp records the time through which the line is read. It never goes back.
func (s *lineStatus) advanceCaughtUp(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.now.CaughtUp) {
		s.now.CaughtUp = at
	}
}

// correctFuture moves a time that is far ahead of now back to it.
func (s *lineStatus) correctFuture(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.CaughtUp.Sub(now) > farAhead {
		s.now.CaughtUp = now
	}
}
