package server

import (
	"context"
	"log/slog"
	"time"
)

// rounds runs a periodic task. It logs the first of consecutive failures, and the recovery.
type rounds struct {
	every  time.Duration
	atOnce bool // run the first round immediately
	do     func(context.Context) error
	log    *slog.Logger
	level  slog.Level // of failed
	failed string     // log message of a failure; the next round retries
	works  string     // log message of the recovery

	failing bool // the last round failed
}

// Run runs rounds until ctx ends.
func (r *rounds) Run(ctx context.Context) error {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	if r.atOnce {
		r.once(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.once(ctx)
		}
	}
}

// once runs one round. It logs no result of a round that ctx ended.
func (r *rounds) once(ctx context.Context) {
	err := r.do(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && !r.failing:
		r.log.Log(ctx, r.level, r.failed+"; trying again", "again_in", r.every, "err", err)
	case err == nil && r.failing:
		r.log.Info(r.works)
	}
	r.failing = err != nil
}
