package server

import (
	"context"
	"log/slog"
	"time"
)

// rounds is work that a node does again and again. The first failure of a row is logged, and so is the recovery.
type rounds struct {
	every  time.Duration
	atOnce bool // the first round does not wait for the first tick
	do     func(context.Context) error
	log    *slog.Logger
	level  slog.Level // of failed
	failed string     // what is logged with the error; it is tried again with the next round
	works  string     // what is logged after that

	failing bool // the last round failed
}

// Run does rounds until ctx ends.
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

// once does one round. How a round went that ctx ended is not logged.
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
