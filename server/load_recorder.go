package server

import (
	"context"
	"log/slog"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// loadFlushInterval is how often what was checked is written down. What a crash takes with it is the count
// of that long, and nothing else.
const loadFlushInterval = 10 * time.Second

// lastFlushTimeout bounds the last time that it is written down, when the node stops.
const lastFlushTimeout = 2 * time.Second

// loadRecorder writes down what this node checked, for the load of the slots that are past.
type loadRecorder struct {
	store   *store.Store
	sweeper *futurejobs.Sweeper
	log     *slog.Logger
}

// Run writes down what was checked until ctx ends.
func (s *loadRecorder) Run(ctx context.Context) error {
	r := rounds{
		every: loadFlushInterval, do: s.flush, log: s.log, level: slog.LevelWarn,
		failed: "how many jobs were checked cannot be written down", works: "how many jobs were checked is written down again",
	}
	return r.Run(ctx)
}

// flush writes down what was checked. What can't be written is counted again the next time.
func (s *loadRecorder) flush(ctx context.Context) error {
	loads := s.sweeper.TakeLoads()
	err := s.store.AddLoads(ctx, loads)
	if err != nil {
		s.sweeper.PutBackLoads(loads)
	}
	return err
}

// flushLast writes down what was checked since, once the sweep has ended.
func (s *loadRecorder) flushLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastFlushTimeout)
	defer cancel()
	if err := s.flush(ctx); err != nil {
		s.log.Warn("how many jobs were checked last cannot be written down", "err", err)
	}
}
