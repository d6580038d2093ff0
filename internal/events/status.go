package events

import (
	"log/slog"
	"sync"
	"time"
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

// lineStatus holds the current Status of a line. It is safe for concurrent use.
type lineStatus struct {
	log *slog.Logger

	mu  sync.Mutex
	now Status
}

// get returns the current status.
func (s *lineStatus) get() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// setResult records the result of the last step, and logs the beginning and the end of failures.
func (s *lineStatus) setResult(err error, seq uint64, markedAt time.Time) {
	s.mu.Lock()
	before := s.now.Err
	s.now.Err, s.now.Seq, s.now.MarkedAt = err, seq, markedAt
	line := s.now.Line
	s.mu.Unlock()
	switch {
	case err != nil && before == nil:
		s.log.Warn("a stream cannot be read; trying again", "stream", line, "err", err)
	case err == nil && before != nil:
		s.log.Info("a stream is read again", "stream", line)
	}
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
