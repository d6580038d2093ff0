package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/failpoints"
)

// apply applies the ticks of a rule that are due by now, the last of them for all.
//
//  0. An event that a quota has no room for waits. Of the ticks that come due meanwhile the last counts.
//  1. What people have to know is said: said again it is no news.
//  2. An event is published, unless the rule changed, and the stream has it: published again it is there
//     already. No change of the rule is committed while the event is on its way.
//  3. A wait that is due is looked at before its tick begins it anew: after an outage nobody would
//     hear of it. After a while it ends without, and that is said.
//  4. The waits begin, and the cursor moves, in one transaction. So whatever fails before it is
//     done again, and nothing after it.
func (w *worker) apply(ctx context.Context, l *ruleTicks, now time.Time) error {
	due, ok, err := l.Due(l.after(), now)
	if err != nil {
		return err
	}
	if !ok { // the next tick is of a time that is not there yet
		w.lines.put(l, now.Add(reloadInterval))
		return nil
	}
	if due.Emit != nil && w.Allow != nil {
		if wait := w.Allow(l.Name(), due.Emit.Size(), now); wait > 0 {
			w.lines.put(l, now.Add(wait))
			return nil
		}
	}
	for _, r := range due.Alerts {
		if err := w.Announce(ctx, r); err != nil {
			return err
		}
	}
	if due.Emit != nil {
		if err := w.Emitter.PublishTick(ctx, *due.Emit, w.held(l)); err != nil {
			return fmt.Errorf("emit %s: %w", due.Emit.ID, err)
		}
		failpoints.Point("tick.emitted")
	}
	applied, err := w.Cursors.Apply(ctx, futurejobs.EffectBatch{
		Stream: futurejobs.TickStream(l.RuleID()), After: l.cursor, Last: uint64(due.At.Unix()), LastAt: due.At, //nolint:gosec // a second since 1970
		RuleSet: w.revision, Rules: []int32{l.RuleID()}, Effects: due.Effects, FailIfDue: l.held.IsZero() || now.Sub(l.held) < dueTimeout,
	})
	if err != nil {
		return err
	}
	w.observe(l, due, applied, now)
	w.lines.moved(l, uint64(due.At.Unix())) //nolint:gosec // the same
	return nil
}

// publishTimeout bounds the publication of an event, which has to be over before changes of the rule go on.
const publishTimeout = futurejobs.HoldTickFor * 4 / 5

// held keeps a rule as it was when its ticks were read while an event is published: what is published cannot be taken
// back. A hold that no answer ended stays until its end, as the event may be on its way; else the next one is ended by
// the transaction that applies the tick.
func (w *worker) held(l *ruleTicks) Held {
	return func(ctx context.Context, send func(ctx context.Context) (isAnswered bool, err error)) error {
		sending, cancel := context.WithTimeout(ctx, publishTimeout)
		defer cancel()
		if err := w.Cursors.HoldTick(sending, l.RuleID(), w.revision); err != nil {
			return err
		}
		isAnswered, err := send(sending)
		if err != nil && isAnswered {
			return errors.Join(err, w.Cursors.ReleaseTick(ctx, l.RuleID()))
		}
		return err
	}
}

// observe counts what became of ticks, and says of which nothing did.
func (w *worker) observe(l *ruleTicks, due futurejobs.DueTicks, applied futurejobs.ApplyResult, now time.Time) {
	w.Observer.Ticked(l.Name(), due.Outcome, 1)
	if due.Missed > 0 {
		w.Observer.Ticked(l.Name(), futurejobs.TickMissed, due.Missed)
	}
	for _, a := range applied.Alerts {
		w.Observer.Alerted(a)
	}
	about := []any{"rule", l.Name(), "tick", due.At, "outcome", due.Outcome, "late", now.Sub(due.At).Truncate(time.Millisecond)}
	switch {
	case due.Missed > 0:
		w.Log.Warn("ticks were missed; the last of them counts for all", append(about, "missed", due.Missed)...)
	case due.Outcome == futurejobs.TickSkipped, due.Outcome == futurejobs.TickExpired:
		w.Log.Warn("a tick was found late", about...)
	default:
		w.Log.Debug("a tick was applied", about...)
	}
}
