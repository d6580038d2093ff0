// Package ticks applies the ticks of schedules: each once, by whichever node comes first, over
// restarts and changes of who does it.
package ticks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
)

// shard is the shard whose holder applies ticks. Were two nodes to do so for a moment, the
// cursors let only one of them apply a tick.
const shard = 0

const (
	lookEvery  = 5 * time.Second // it is looked up whether the shard is held, and whether the time was set
	retryAfter = 2 * time.Second
	lookAgain  = 250 * time.Millisecond // whether what is due was looked at
	unlooked   = time.Hour              // that a tick waits for that
	reloads    = 5                      // in a row, because of others
)

// Ticker waits for ticks and applies them.
type Ticker struct {
	Options
	wake chan struct{}

	lines    *lines // nil: where they stand is to be read
	revision int64  // of the rules that the lines are of

	mu     sync.Mutex
	failed error
}

// New returns a ticker that is not running yet.
func New(o Options) *Ticker { return &Ticker{Options: o, wake: make(chan struct{}, 1)} }

// Wake says that the shards or the rules changed. It is a hint; the ticker looks by itself too.
func (t *Ticker) Wake() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Err is why ticks cannot be applied at the moment, or nil.
func (t *Ticker) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// Run applies ticks until ctx ends, while the node holds the shard. What fails is tried again for
// ever; Err says so.
func (t *Ticker) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-t.wake:
		}
		err := t.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		t.report(err)
		timer.Reset(t.wait(err))
	}
}

// report takes in how a round went.
func (t *Ticker) report(err error) {
	t.mu.Lock()
	before := t.failed
	t.failed = err
	t.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		t.Log.Warn("ticks of schedules cannot be applied; trying again", "again_in", retryAfter, "err", err)
	case err == nil && before != nil:
		t.Log.Info("ticks of schedules are applied again")
	}
}

// wait is how long to wait for the next round.
func (t *Ticker) wait(err error) time.Duration {
	if err != nil && t.lines == nil {
		return retryAfter
	}
	now := t.Now()
	if t.lines == nil || now.IsZero() || t.lines.Len() == 0 {
		return lookEvery
	}
	return min(lookEvery, max(t.lines.first().at.Sub(now), 0))
}

// round applies what is due, rule by rule in the order of time. What fails for one is returned
// after the others are done; it is tried again a little later.
//
//  1. Where the ticks stand is read, once, and again when the rules changed.
//  2. The ticks of a rule that are due are applied as one.
//  3. Where another node was faster, or the rules changed meanwhile, all of that begins again.
func (t *Ticker) round(ctx context.Context) error {
	if !t.Shards.Holds(shard) {
		t.lines = nil
		return nil
	}
	now := t.Now()
	if now.IsZero() {
		return nil
	}
	var errs []error
	for again := 0; ; {
		if err := t.load(ctx); err != nil {
			t.lines = nil
			return err
		}
		if t.lines.Len() == 0 || t.lines.first().at.After(now) {
			return errors.Join(errs...)
		}
		l := t.lines.first()
		switch err := t.step(ctx, l, now); {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, futurejobs.ErrMoved), errors.Is(err, futurejobs.ErrRulesChanged):
			if again++; again > reloads {
				return err
			}
			t.lines = nil
			if err := t.Book.Refresh(ctx); err != nil {
				return fmt.Errorf("look at the rules: %w", err)
			}
		case errors.Is(err, futurejobs.ErrDue):
			if l.held.IsZero() {
				l.held = now
			}
			t.lines.put(l, now.Add(lookAgain))
		case err != nil:
			errs = append(errs, fmt.Errorf("rule %s: %w", l.Name(), err))
			t.lines.put(l, now.Add(retryAfter))
		default:
			again = 0
		}
	}
}

// load reads where the ticks stand, unless that is known of the rules as they are. A rule that
// ticks for the first time gets its cursor.
func (t *Ticker) load(ctx context.Context) error {
	revision, all := t.Book.Scheduled()
	if t.lines != nil && t.revision == revision {
		return nil
	}
	var cursors map[string]futurejobs.Cursor
	if len(all) > 0 {
		var err error
		if cursors, err = t.Ledger.TickCursors(ctx); err != nil {
			return err
		}
	}
	loaded := &lines{}
	for _, s := range all {
		c, known := cursors[futurejobs.TickStream(s.RuleID())]
		if !known {
			c = futurejobs.Cursor{Stream: futurejobs.TickStream(s.RuleID()), LastSeq: uint64(s.From().Unix())}
			if err := t.Ledger.OpenCursor(ctx, c); err != nil {
				return err
			}
		}
		loaded.add(&line{Scheduled: s, cursor: c.LastSeq})
	}
	t.lines, t.revision = loaded, revision
	return nil
}
