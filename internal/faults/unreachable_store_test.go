package faults_test

import (
	"context"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// gatedStore is a store that is unreachable while its gate is shut, or from which no call returns while the process is
// stopped.
type gatedStore struct {
	*store.Store
	gate *gate
}

// gate is open, shut, or stopped.
type gate struct {
	mu    sync.Mutex
	shut  bool
	still chan struct{} // closed on resume; nil: not stopped
}

// pass returns when the gate is open, or an error if it is shut. A stopped process does not notice the end of its
// contexts.
func (g *gate) pass() error {
	g.mu.Lock()
	shut, still := g.shut, g.still
	g.mu.Unlock()
	if still != nil {
		<-still
	}
	if shut {
		return store.ErrUnavailable
	}
	return nil
}

func (g *gate) set(shut, still bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	switch {
	case still && g.still == nil:
		g.still = make(chan struct{})
	case !still && g.still != nil:
		close(g.still)
		g.still = nil
	}
}

// Now implements futurejobs.Queue.
func (g gatedStore) Now(ctx context.Context) (time.Time, error) {
	if err := g.gate.pass(); err != nil {
		return time.Time{}, err
	}
	return g.Store.Now(ctx)
}

// Due implements futurejobs.Queue.
func (g gatedStore) Due(ctx context.Context, q futurejobs.DueQuery) ([]futurejobs.Job, error) {
	if err := g.gate.pass(); err != nil {
		return nil, err
	}
	return g.Store.Due(ctx, q)
}

// Settle implements futurejobs.Queue.
func (g gatedStore) Settle(ctx context.Context, s futurejobs.Settlement) (futurejobs.Settled, error) {
	if err := g.gate.pass(); err != nil {
		return futurejobs.Settled{}, err
	}
	return g.Store.Settle(ctx, s)
}

// ReadThrough implements futurejobs.Queue.
func (g gatedStore) ReadThrough(ctx context.Context) (map[string]futurejobs.StreamProgress, error) {
	if err := g.gate.pass(); err != nil {
		return nil, err
	}
	return g.Store.ReadThrough(ctx)
}

// Apply implements futurejobs.EffectStore.
func (g gatedStore) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	if err := g.gate.pass(); err != nil {
		return futurejobs.ApplyResult{}, err
	}
	return g.Store.Apply(ctx, b)
}

// Cursor implements futurejobs.EffectStore.
func (g gatedStore) Cursor(ctx context.Context, stream string) (futurejobs.Cursor, bool, error) {
	if err := g.gate.pass(); err != nil {
		return futurejobs.Cursor{}, false, err
	}
	return g.Store.Cursor(ctx, stream)
}

// MarkRead implements futurejobs.EffectStore.
func (g gatedStore) MarkRead(ctx context.Context, stream string, seq uint64, through time.Time) error {
	if err := g.gate.pass(); err != nil {
		return err
	}
	return g.Store.MarkRead(ctx, stream, seq, through)
}

// RecordGap implements futurejobs.GapStore.
func (g gatedStore) RecordGap(ctx context.Context, topic string, since time.Time) error {
	if err := g.gate.pass(); err != nil {
		return err
	}
	return g.Store.RecordGap(ctx, topic, since)
}

// OtherNodeAlive implements futurejobs.GapStore.
func (g gatedStore) OtherNodeAlive(ctx context.Context, node string, since time.Time) (bool, error) {
	if err := g.gate.pass(); err != nil {
		return false, err
	}
	return g.Store.OtherNodeAlive(ctx, node, since)
}
