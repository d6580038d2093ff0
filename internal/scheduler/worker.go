package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/periodic"
)

// shard is the shard whose holder applies ticks. Were two nodes to do so for a moment, the
// cursors let only one of them apply a tick.
const shard = 0

const (
	reloadInterval   = 5 * time.Second // it is looked up whether the shard is held, and whether the time was set
	retryAfter       = 2 * time.Second
	dueRetryInterval = 250 * time.Millisecond // whether what is due was looked at
	dueTimeout       = time.Hour              // that a tick waits for that
	reloads          = 5                      // in a row, because of others
)

// worker applies the ticks of the rules that emit, or of those that do not, one rule after the other.
type worker struct {
	Options
	emits bool
	wake  chan struct{}

	status *periodic.Status

	lines    *tickQueue // nil: where they stand is to be read
	revision int64      // of the rules that the lines are of
	looked   time.Time

	failures failures
}

func newWorker(o Options, emits bool) *worker {
	name := "schedule ticks"
	if emits {
		name = "emitted ticks"
	}
	return &worker{Options: o, emits: emits, wake: make(chan struct{}, 1), status: periodic.NewStatus(o.Log, slog.LevelWarn, name)}
}

func (w *worker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) err() error { return w.status.Err() }

// run applies ticks until ctx ends.
func (w *worker) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-w.wake:
		}
		err := w.round(ctx)
		if ctx.Err() != nil {
			return
		}
		w.status.Set(ctx, err, "again_in", retryAfter)
		timer.Reset(w.wait(err))
	}
}

// wait is how long to wait for the next round.
func (w *worker) wait(err error) time.Duration {
	if err != nil && w.lines == nil {
		return retryAfter
	}
	now := w.Now()
	if w.lines == nil || now.IsZero() || w.lines.Len() == 0 {
		return reloadInterval
	}
	return min(reloadInterval, max(w.lines.first().at.Sub(now), 0))
}

// round applies what is due, rule by rule in the order of time. What fails for one is returned
// after the others are done; it is tried again a little later.
//
//  1. Where the ticks stand is read, once, and again when the rules changed.
//  2. The ticks of a rule that are due are applied as one.
//  3. Where another node was faster, or the rules changed meanwhile, all of that begins again.
func (w *worker) round(ctx context.Context) error {
	if !w.Shards.Holds(shard) {
		w.lines = nil
		return nil
	}
	now := w.Now()
	if now.IsZero() {
		return nil
	}
	if w.looked.Sub(now) > time.Second { // the clock was set back
		w.lines = nil
	}
	w.looked = now
	var errs []error
	for again := 0; ; {
		if err := w.load(ctx, now); err != nil {
			w.lines = nil
			return err
		}
		if w.lines.Len() == 0 || w.lines.first().at.After(now) {
			return errors.Join(errs...)
		}
		l := w.lines.first()
		switch err := w.step(ctx, l, now); {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, futurejobs.ErrCursorMoved), errors.Is(err, futurejobs.ErrRulesChanged):
			if again++; again > reloads {
				return err
			}
			w.lines = nil
			if err := w.Book.Refresh(ctx); err != nil {
				return fmt.Errorf("look at the rules: %w", err)
			}
		case errors.Is(err, futurejobs.ErrJobDue):
			if l.held.IsZero() {
				l.held = now
			}
			w.lines.put(l, now.Add(dueRetryInterval))
		case errors.Is(err, futurejobs.ErrPutOff): // the node is not at fault
			w.lines.put(l, now.Add(retryAfter))
		case err != nil:
			errs = append(errs, fmt.Errorf("rule %s: %w", l.Name(), err))
			w.lines.put(l, now.Add(retryAfter))
		default:
			again = 0
		}
	}
}

// load reads where the ticks stand, unless that is known of the rules as they are. A rule that
// ticks for the first time gets its cursor. A cursor of the future is of a clock that was ahead: the ticks from now on
// come, whether they were applied or not.
func (w *worker) load(ctx context.Context, now time.Time) error {
	if w.lines != nil && w.revision == w.Book.Revision() {
		return nil
	}
	revision, all := w.Book.Scheduled()
	all = slices.DeleteFunc(all, func(s futurejobs.TickingRule) bool { return s.Emits() != w.emits })
	var cursors map[string]futurejobs.Cursor
	if len(all) > 0 {
		var err error
		if cursors, err = w.Cursors.TickCursors(ctx); err != nil {
			return err
		}
	}
	loaded := &tickQueue{}
	for _, s := range all {
		c, known := cursors[futurejobs.TickStream(s.RuleID())]
		if !known {
			c = futurejobs.Cursor{Stream: futurejobs.TickStream(s.RuleID()), LastSeq: uint64(s.From().Unix())}
			if err := w.Cursors.OpenCursor(ctx, c); err != nil {
				return err
			}
		}
		loaded.add(&ruleTicks{TickingRule: s, cursor: c.LastSeq, past: min(c.LastSeq, uint64(now.Unix()))}) //nolint:gosec // a second since 1970
	}
	w.lines, w.revision = loaded, revision
	return nil
}
