package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/failpoints"
)

// apply applies the ticks of a rule that are due by now; the last of them stands for all. It returns the time of the next
// tick or attempt.
//
//  1. An event beyond a quota waits: nothing is applied, and the error is a quotaWait. Of the ticks that come due meanwhile
//     the last counts.
//  2. The alerts of the ticks are raised; a repetition changes nothing.
//  3. The event is published, unless the rule changed. The stream stores it once. No change of the rule is
//     committed while the event is in transit.
//  4. A due job is checked before its tick restarts it: otherwise a failure before an outage would stay
//     unnoticed. After dueTimeout the job ends unchecked, with an alert.
//  5. The jobs start, the tick is recorded and the cursor moves in one transaction. A failure before it repeats all
//     steps, and none after it does.
func (w *worker) apply(ctx context.Context, l *ruleTicks, now time.Time) (next time.Time, err error) {
	due, ok, err := l.Due(l.after(), now)
	if err != nil {
		return next, err
	}
	if !ok { // the next tick is in the future
		if next, _ = l.Next(l.after()); !next.IsZero() && !next.After(now) { // the clock was set back
			next = now.Add(reloadInterval)
		}
		return next, nil
	}
	if due.Emit != nil && w.Allow != nil {
		if wait := w.Allow(l.Name(), due.Emit.Size(), now); wait > 0 {
			return next, quotaWait{wait}
		}
	}
	for _, r := range due.Alerts {
		if err := w.Announce(ctx, r); err != nil {
			return next, err
		}
	}
	if due.Emit != nil {
		if err := w.Emitter.PublishTick(ctx, *due.Emit, w.held(l)); err != nil {
			return next, fmt.Errorf("emit %s: %w", due.Emit.ID, err)
		}
		failpoints.Point("tick.emitted")
	}
	applied, err := w.Cursors.Apply(ctx, futurejobs.EffectBatch{
		Stream: futurejobs.TickStream(l.RuleID()), After: l.cursor, Last: uint64(due.At.Unix()), LastAt: due.At, //nolint:gosec // a second since 1970
		RuleSet: w.revision, Rules: []int32{l.RuleID()}, Effects: due.Effects, FailIfDue: w.dueWaits.time(l, now) < dueTimeout,
		Tick: w.recordOf(l, due),
	})
	if err != nil {
		return next, err
	}
	w.observe(l, due, applied, now)
	return l.advance(uint64(due.At.Unix())), nil //nolint:gosec // the same
}

// recordOf returns the record of due ticks that are applied by this attempt.
func (w *worker) recordOf(l *ruleTicks, due futurejobs.DueTicks) *futurejobs.AppliedTick {
	tick := futurejobs.AppliedTick{RuleID: l.RuleID(), At: due.At, Outcome: due.Outcome, Missed: due.Missed, Attempts: w.failures.attempts(l) + 1}
	if due.Emit != nil {
		tick.EventID = due.Emit.ID
	}
	return &tick
}

// publishTimeout bounds the publication of an event. It ends before changes of the rule continue.
const publishTimeout = futurejobs.HoldTickFor * 4 / 5

// held returns a function that keeps a rule unchanged while an event is published: a published event cannot be recalled.
// After an unanswered publication the hold stays until it expires, because the event may be in transit. Otherwise the
// transaction that applies the tick ends it.
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

// observe counts ticks by outcome, and logs them.
func (w *worker) observe(l *ruleTicks, due futurejobs.DueTicks, applied futurejobs.ApplyResult, now time.Time) {
	w.Observer.Ticked(l.Name(), due.Outcome, 1)
	late := time.Duration(0)
	if due.Outcome == futurejobs.TickStarted || due.Outcome == futurejobs.TickEmitted {
		late = now.Sub(due.At)
	}
	w.Loads.Ticked(l.RuleID(), due.At, due.Missed, late)
	if due.Missed > 0 {
		w.Observer.Ticked(l.Name(), futurejobs.TickMissed, due.Missed)
	}
	for _, a := range applied.Alerts {
		w.Observer.Alerted(a)
	}
	about := []any{"rule", l.Name(), "tick", due.At, "outcome", due.Outcome, "late", now.Sub(due.At).Truncate(time.Millisecond)}
	switch {
	case due.Missed > 0:
		w.Log.Warn("ticks missed; the last one stands for all", append(about, "missed", due.Missed)...)
	case due.Outcome == futurejobs.TickSkipped, due.Outcome == futurejobs.TickExpired:
		w.Log.Warn("tick found late", about...)
	default:
		w.Log.Debug("tick applied", about...)
	}
}
