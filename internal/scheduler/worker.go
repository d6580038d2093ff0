package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/periodic"
)

const (
	concurrentRules  = 8               // rules of a worker whose ticks are applied at the same time
	reloadInterval   = 5 * time.Second // maximum time until the shard and the clock are checked again
	retryAfter       = 2 * time.Second
	dueRetryInterval = 250 * time.Millisecond // until it is checked again whether the due job was decided
	dueTimeout       = time.Hour              // how long a tick waits for that
	reloads          = 5                      // in a row, because another node was faster or the rules changed
)

// worker applies the ticks of the rules that emit events, or of the others, as far as this node holds their shards. If two
// nodes do so for a moment, the cursors allow only one of them to apply a tick.
type worker struct {
	Options
	emits bool
	wake  chan struct{}

	status *periodic.Status

	queue    *tickQueue // nil: to be loaded
	shards   []bool     // those of this node, of which queue has the rules
	revision int64      // of the rules in queue
	ranAt    time.Time  // the last round

	failures failures
	dueWaits dueWaits
}

func newWorker(o Options, emits bool) *worker {
	name := "schedule ticks"
	if emits {
		name = "emitted ticks"
	}
	return &worker{Options: o, emits: emits, wake: make(chan struct{}, 1), status: periodic.NewStatus(o.Log, slog.LevelWarn, name)}
}

// signal starts a round.
func (w *worker) signal() {
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

// wait returns the pause until the next round.
func (w *worker) wait(err error) time.Duration {
	if err != nil && w.queue == nil {
		return retryAfter
	}
	now := w.Now()
	if w.queue == nil || now.IsZero() || w.queue.Len() == 0 {
		return reloadInterval
	}
	return min(reloadInterval, max(w.queue.first().at.Sub(now), 0))
}

// round applies the due ticks in the order of time, those of some rules at the same time. Errors of a rule are returned
// after the other rules are done; the rule is retried later.
//
//  1. The cursors are loaded once, and again after a change of the rules or of the shards.
//  2. The due ticks of a rule are applied together.
//  3. If another node was faster or the rules changed meanwhile, the round starts again.
func (w *worker) round(ctx context.Context) error {
	if held := w.heldShards(); !slices.Equal(held, w.shards) {
		w.shards, w.queue = held, nil
	}
	now := w.Now()
	if now.IsZero() || !slices.Contains(w.shards, true) {
		return nil
	}
	if w.ranAt.Sub(now) > time.Second { // the clock was set back
		w.queue = nil
	}
	w.ranAt = now
	var errs []error
	for again := 0; ; {
		if err := w.load(ctx, now); err != nil {
			w.queue = nil
			return err
		}
		due := w.queue.takeDue(now, concurrentRules)
		if len(due) == 0 {
			return errors.Join(errs...)
		}
		results := w.attemptAll(ctx, due, now)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		outdated := error(nil)
		for i, err := range results {
			switch {
			case errors.Is(err, futurejobs.ErrCursorMoved), errors.Is(err, futurejobs.ErrRulesChanged):
				outdated = err
			case err != nil:
				errs = append(errs, fmt.Errorf("rule %s: %w", due[i].Name(), err))
			}
			w.queue.put(due[i])
		}
		if outdated == nil {
			again = 0
			continue
		}
		if again++; again > reloads {
			return outdated
		}
		w.queue = nil
		if err := w.Catalog.Refresh(ctx); err != nil {
			return fmt.Errorf("refresh the rules: %w", err)
		}
	}
}

// attemptAll applies the due ticks of some rules at the same time.
func (w *worker) attemptAll(ctx context.Context, due []*ruleTicks, now time.Time) []error {
	results := make([]error, len(due))
	var working sync.WaitGroup
	for i, l := range due {
		working.Go(func() { results[i] = w.attempt(ctx, l, now) })
	}
	working.Wait()
	return results
}

// attempt applies the ticks of a rule that are due by now, and sets the time of its next tick or attempt.
func (w *worker) attempt(ctx context.Context, l *ruleTicks, now time.Time) error {
	next, err := w.step(ctx, l, now)
	var wait quotaWait
	switch {
	case errors.As(err, &wait):
		next, err = now.Add(wait.span), nil
	case errors.Is(err, futurejobs.ErrJobDue):
		w.dueWaits.begin(l, now)
		next, err = now.Add(dueRetryInterval), nil
	case errors.Is(err, futurejobs.ErrPutOff): // the node is not at fault
		next, err = now.Add(retryAfter), nil
	case err != nil:
		next = now.Add(retryAfter)
	}
	l.at = next
	return err
}

// heldShards returns for each shard whether this node holds it.
func (w *worker) heldShards() []bool {
	held := make([]bool, w.Shards.Count())
	for i := range held {
		held[i] = w.Shards.Holds(int16(i)) //nolint:gosec // a shard
	}
	return held
}

// shardOf returns the shard, out of n, whose node applies the ticks of a rule.
func shardOf(r futurejobs.TickingRule, n int) int16 {
	return futurejobs.ShardOf("tick", futurejobs.TickStream(r.RuleID()), n)
}

// load reads the cursors, unless they are known for the current rules. A rule without a cursor gets one. A cursor in the
// future is from a clock that was ahead: ticks continue from now on, applied before or not. The database says if it is in the
// future: the clock of a node whose machine has slept is behind for a while, and ticks must not be applied again then.
func (w *worker) load(ctx context.Context, now time.Time) error {
	if w.queue != nil && w.revision == w.Catalog.Revision() {
		return nil
	}
	revision, all := w.Catalog.Scheduled()
	all = slices.DeleteFunc(all, func(s futurejobs.TickingRule) bool {
		return s.Emits() != w.emits || !w.shards[shardOf(s, len(w.shards))]
	})
	var cursors map[string]futurejobs.Cursor
	var open map[string]time.Time
	if len(all) > 0 {
		var err error
		if cursors, err = w.Cursors.TickCursors(ctx); err != nil {
			return err
		}
		if open, err = w.openAlerts(ctx); err != nil {
			return err
		}
	}
	loaded, queued := &tickQueue{}, make(map[int32]bool, len(all))
	for _, s := range all {
		queued[s.RuleID()] = true
		c, known := cursors[futurejobs.TickStream(s.RuleID())]
		if !known {
			c = futurejobs.Cursor{Stream: futurejobs.TickStream(s.RuleID()), LastSeq: uint64(s.From().Unix())}
			if err := w.Cursors.OpenCursor(ctx, c); err != nil {
				return err
			}
		}
		if c.LastSeq > uint64(now.Unix()) { //nolint:gosec // a second since 1970
			present, err := w.Cursors.Now(ctx)
			if err != nil {
				return err
			}
			if present.After(now) {
				now = present
			}
		}
		l := &ruleTicks{TickingRule: s, cursor: c.LastSeq, past: min(c.LastSeq, uint64(now.Unix()))} //nolint:gosec // a second since 1970
		l.at, _ = l.Next(l.after())
		if l.alertSince = open[failingTopic(s.Name())]; !l.alertSince.IsZero() {
			l.at = now // to close the alert, whose ticks may be applied
		}
		loaded.put(l)
	}
	w.dueWaits.keep(queued)
	w.queue, w.revision = loaded, revision
	return nil
}

// openAlerts returns when the open alerts about ticks began, by their topic.
func (w *worker) openAlerts(ctx context.Context) (map[string]time.Time, error) {
	all, err := w.Cursors.UnresolvedAlerts(ctx, failingStep)
	since := make(map[string]time.Time, len(all))
	for _, r := range all {
		since[r.Topic] = r.Since
	}
	return since, err
}
