package server

import (
	"context"
	"log/slog"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/periodic"
	"deadman/internal/store"
)

// loadFlushInterval is the interval at which check counts are saved. A crash loses at most the counts of one
// interval, and no other data.
const loadFlushInterval = 10 * time.Second

// lastFlushTimeout bounds the last save at shutdown.
const lastFlushTimeout = 2 * time.Second

// loadRecorder saves the check counts of this node, for the load of past slots.
type loadRecorder struct {
	store   *store.Store
	sweeper *futurejobs.Sweeper
	log     *slog.Logger
}

// Run saves check counts until ctx ends.
func (s *loadRecorder) Run(ctx context.Context) error {
	return periodic.RunAfter(ctx, loadFlushInterval, s.log, "load recorder", s.flush)
}

// flush saves check counts. Counts that can't be saved are added to the next attempt.
func (s *loadRecorder) flush(ctx context.Context) error {
	loads := s.sweeper.TakeLoads()
	err := s.store.AddLoads(ctx, loads)
	if err != nil {
		s.sweeper.PutBackLoads(loads)
	}
	return err
}

// flushLast saves the remaining check counts after the sweep has ended.
func (s *loadRecorder) flushLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastFlushTimeout)
	defer cancel()
	if err := s.flush(ctx); err != nil {
		s.log.Warn("how many jobs were checked last cannot be written down", "err", err)
	}
}
