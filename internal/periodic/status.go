package periodic

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Status holds the result of the last step of a component. It logs the first of consecutive failures and the recovery.
// It is safe for concurrent use.
type Status struct {
	log   *slog.Logger
	level slog.Level
	name  string

	mu  sync.Mutex
	err error
}

// NewStatus returns the status of a component without a failure. The level is that of a failure; the name is the noun of
// the log messages.
func NewStatus(log *slog.Logger, level slog.Level, name string) *Status {
	return &Status{log: log, level: level, name: name}
}

// Run runs a step at once and then at each interval, until ctx ends, and records its results.
func (s *Status) Run(ctx context.Context, interval time.Duration, step func(context.Context) error) error {
	s.Set(ctx, step(ctx), "again_in", interval)
	return s.repeat(ctx, interval, step)
}

// repeat runs a step at each interval until ctx ends.
func (s *Status) repeat(ctx context.Context, interval time.Duration, step func(context.Context) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.Set(ctx, step(ctx), "again_in", interval)
		}
	}
}

// Set records the result of a step, with the attributes for the log of a failure. It ignores a result after the end of
// ctx, because the end may have caused it.
func (s *Status) Set(ctx context.Context, err error, attrs ...any) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	before := s.err
	s.err = err
	s.mu.Unlock()
	switch {
	case err != nil && before == nil:
		s.log.Log(ctx, s.level, s.name+" failed, retrying", append(attrs, "err", err)...)
	case err == nil && before != nil:
		s.log.Info(s.name + " recovered")
	}
}

// Reset forgets a failure without a log message, for example because another node does the work now.
func (s *Status) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = nil
}

// Err returns the error of the last step, or nil.
func (s *Status) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
