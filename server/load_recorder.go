package server

import (
	"context"
	"log/slog"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/periodic"
	"deadman/internal/store"
)

// loadFlushInterval is the interval at which the counts of checks and ticks are saved. A crash loses at most the counts of one
// interval, and no other data.
const loadFlushInterval = 10 * time.Second

// lastFlushTimeout bounds the last save at shutdown.
const lastFlushTimeout = 2 * time.Second

// loadRecorder saves the counts of the checks and ticks of this node, for the load of past slots.
type loadRecorder struct {
	store *store.Store
	loads *futurejobs.LoadCounter
	log   *slog.Logger
}

// Run saves counts until ctx ends.
func (s *loadRecorder) Run(ctx context.Context) error {
	return periodic.RunAfter(ctx, loadFlushInterval, s.log, "load recorder", s.flush)
}

// flush saves counts. Counts that can't be saved are added to the next attempt.
func (s *loadRecorder) flush(ctx context.Context) error {
	loads := s.loads.Take()
	err := s.store.AddLoads(ctx, loads)
	if err != nil {
		s.loads.PutBack(loads)
	}
	return err
}

// flushLast saves the remaining counts after the sweep has ended.
func (s *loadRecorder) flushLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastFlushTimeout)
	defer cancel()
	if err := s.flush(ctx); err != nil {
		s.log.Warn("the last counts of checks and ticks are lost, and the load of past slots lacks them", "err", err)
	}
}
