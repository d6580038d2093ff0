package periodic

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"
)

// maxCauses is the largest number of causes that are logged between two successes.
const maxCauses = 20

// Status holds the result of the last step of a component. Of consecutive failures it logs each cause once, and then the
// recovery. It is safe for concurrent use.
type Status struct {
	log   *slog.Logger
	level slog.Level
	name  string

	mu     sync.Mutex
	err    error
	logged map[string]bool // the causes that were logged since the last success
}

// NewStatus returns the status of a component without a failure. The level is that of a failure; the name is the noun of
// the log messages.
func NewStatus(log *slog.Logger, level slog.Level, name string) *Status {
	return &Status{log: log, level: level, name: name, logged: make(map[string]bool)}
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
	failed, recovered := s.isNewCause(err), err == nil && s.err != nil
	s.set(err)
	s.mu.Unlock()
	switch {
	case failed:
		s.log.Log(ctx, s.level, s.name+" failed, retrying", append(attrs, "err", err)...)
	case recovered:
		s.log.Info(s.name + " recovered")
	}
}

// isNewCause reports whether an error is to be logged: nothing with its text was, apart from digits. They are times,
// numbers and ports, which differ at each step.
func (s *Status) isNewCause(err error) bool {
	return err != nil && !s.logged[cause(err)] && len(s.logged) < maxCauses
}

func (s *Status) set(err error) {
	s.err = err
	switch {
	case err == nil:
		clear(s.logged)
	case len(s.logged) < maxCauses:
		s.logged[cause(err)] = true
	}
}

// cause returns the text of an error without digits.
func cause(err error) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
}

// Reset forgets a failure without a log message, for example because another node does the work now.
func (s *Status) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(nil)
}

// Err returns the error of the last step, or nil.
func (s *Status) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
