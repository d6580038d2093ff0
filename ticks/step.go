package ticks

import (
	"context"
	"fmt"
	"time"

	"deadman/failpoints"
	futurejobs "deadman/future_jobs"
)

// apply applies the ticks of a rule that are due by now, the last of them for all.
//
//  1. What people have to know is said: said again it is no news.
//  2. An event is published, unless the rules changed, and the stream has it: published again it is there
//     already.
//  3. A wait that is due is looked at before its tick begins it anew: after an outage nobody would
//     hear of it. After a while it ends without, and that is said.
//  4. The waits begin, and the cursor moves, in one transaction. So whatever fails before it is
//     done again, and nothing after it.
func (w *worker) apply(ctx context.Context, l *line, now time.Time) error {
	due, ok, err := l.Due(l.after(), now)
	if err != nil {
		return err
	}
	if !ok { // the next tick is of a time that is not there yet
		w.lines.put(l, now.Add(lookEvery))
		return nil
	}
	for _, r := range due.Remarks {
		if err := w.Announce(ctx, r); err != nil {
			return err
		}
	}
	if due.Emit != nil {
		if err := w.stands(ctx); err != nil {
			return err
		}
		if err := w.Emitter.Emit(ctx, *due.Emit); err != nil {
			return fmt.Errorf("emit %s: %w", due.Emit.ID, err)
		}
		failpoints.Here("tick.emitted")
	}
	applied, err := w.Ledger.Apply(ctx, futurejobs.Batch{
		Stream: futurejobs.TickStream(l.RuleID()), After: l.cursor, Last: uint64(due.At.Unix()), LastAt: due.At, //nolint:gosec // a second since 1970
		RuleSet: w.revision, Rules: []int32{l.RuleID()}, Effects: due.Effects, Patient: l.held.IsZero() || now.Sub(l.held) < unlooked,
	})
	if err != nil {
		return err
	}
	w.tell(l, due, applied, now)
	w.lines.moved(l, uint64(due.At.Unix())) //nolint:gosec // the same
	return nil
}

// stands returns ErrRulesChanged unless the rules are as they were when the ticks were read: what is published
// cannot be taken back.
func (w *worker) stands(ctx context.Context) error {
	if err := w.Book.Refresh(ctx); err != nil {
		return fmt.Errorf("look at the rules: %w", err)
	}
	if w.Book.Revision() != w.revision {
		return futurejobs.ErrRulesChanged
	}
	return nil
}

// tell counts what became of ticks, and says of which nothing did.
func (w *worker) tell(l *line, due futurejobs.Due, applied futurejobs.Applied, now time.Time) {
	w.Observer.Ticked(l.Name(), due.Outcome, 1)
	if due.Missed > 0 {
		w.Observer.Ticked(l.Name(), futurejobs.TickMissed, due.Missed)
	}
	for _, a := range applied.Said {
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
