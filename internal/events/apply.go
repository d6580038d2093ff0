package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/failpoints"
)

// MaxBody is the maximum size of an ingested event's body, in bytes.
const MaxBody = 256 << 10

// BodyTooLarge returns the reason for rejecting a body of the given size.
func BodyTooLarge(size int) string {
	return fmt.Sprintf("the body has %d bytes, at most %d are taken in; only its start is kept here", size, MaxBody)
}

// ruleTries bounds the attempts to match a batch after concurrent rule changes.
const ruleTries = 5

// minBatchInterval is the minimum interval between two transactions of a stream, unless a full batch is ready. A
// transaction costs as much as many events, so a trickle is combined into few; the first event after a pause is
// applied at once.
const minBatchInterval = 50 * time.Millisecond

// applyAndPrefetch applies a batch while prefetching the next. The reader is idle on return. It returns no earlier
// than minBatchInterval after its start, unless the next batch is full already.
func (t *streamReader) applyAndPrefetch(ctx context.Context, h batch) error {
	if len(h.events) == 0 {
		return nil
	}
	rest := time.NewTimer(minBatchInterval)
	defer rest.Stop()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	ahead := make(chan batch, 1)
	go func(revision int64) { ahead <- t.prefetch(reading, revision) }(t.sub.revision)
	err := t.applyBatch(ctx, h)
	if err == nil {
		select {
		case t.ahead = <-ahead:
			return nil
		case <-rest.C:
		}
	}
	stop()
	t.ahead = <-ahead
	return err
}

// applyBatch applies a batch and moves the cursor, in one or more transactions: the rules or the database may be too
// slow for one. After a slow transaction it halves the number of events per transaction, down to one, and doubles it
// again after fast ones.
func (t *streamReader) applyBatch(ctx context.Context, h batch) error {
	for {
		if h = t.revalidate(h); len(h.events) == 0 {
			return nil
		}
		part := h
		if t.maxTx > 0 && len(h.events) > t.maxTx {
			part = t.matcher.newBatch(h.events[:t.maxTx], t.sub.revision)
		}
		n := part.matched
		err := t.applyMatched(ctx, part)
		switch {
		case errors.Is(err, futurejobs.ErrTooSlow) && n > 1:
			t.maxTx = n / 2
			t.in.Log.Warn("apply took too long, applying fewer events at a time", "stream", t.line, "events", n, "err", err)
			continue
		case err != nil:
			return err
		}
		t.noteApplied()
		if t.maxTx *= 2; t.maxTx >= maxBatch {
			t.maxTx = 0
		}
	}
}

// applyMatched applies the matched events of a batch in one transaction. Frequent rule changes do not stall the stream:
// after a failed attempt, further changes are held off until the batch is applied.
func (t *streamReader) applyMatched(ctx context.Context, h batch) error {
	for range ruleTries {
		if h = t.revalidate(h); len(h.events) == 0 {
			return nil
		}
		failpoints.Point("intake.read")
		err := t.apply(ctx, t.toFutureJobsBatch(h), h.ignored)
		if errors.Is(err, futurejobs.ErrRefused) {
			err = t.bisect(ctx, h.events[:h.matched], err)
		}
		if !errors.Is(err, futurejobs.ErrRulesChanged) {
			return err
		}
		if err := t.in.Store.HoldOff(ctx, t.line); err != nil {
			return err
		}
		if err := t.in.Catalog.Refresh(ctx); err != nil {
			return fmt.Errorf("refresh the rules: %w", err)
		}
		if err := t.sub.check(); err != nil {
			return err
		}
	}
	return fmt.Errorf("apply events: %w, %d times in a row", futurejobs.ErrRulesChanged, ruleTries)
}

// revalidate returns the current form of a batch: without applied events, and matched again if the rules of the
// stream changed meanwhile.
func (t *streamReader) revalidate(h batch) batch {
	left := h.events
	for len(left) > 0 && left[0].Seq <= t.cursor.LastSeq {
		left = left[1:]
	}
	if len(left) == len(h.events) && t.in.Catalog.ChangedAt(t.line) <= h.revision {
		h.revision = max(h.revision, t.sub.revision)
		return h
	}
	return t.matcher.newBatch(left, t.sub.revision)
}

// toFutureJobsBatch returns the matched part of a batch as an effect batch.
func (t *streamReader) toFutureJobsBatch(h batch) futurejobs.EffectBatch {
	last := h.events[h.matched-1]
	return futurejobs.EffectBatch{
		Stream: t.line, After: t.cursor.LastSeq, Last: last.Seq, LastAt: last.At,
		RuleSet: h.revision, Effects: h.effects, DeadLetters: h.letters,
	}
}

// apply applies an effect batch and moves the cursor.
func (t *streamReader) apply(ctx context.Context, b futurejobs.EffectBatch, ignored int) error {
	b.Lost = t.losses.through(b.Last)
	applied := func(error) {}
	if t.in.Tracer != nil {
		applied = t.in.Tracer.Received(b.Effects)
	}
	done, err := t.in.Store.Apply(ctx, b)
	if failed := failpoints.PointErr("intake.applied"); failed != nil {
		err = cmp.Or(err, failed)
	}
	applied(err)
	switch {
	case err == nil:
		t.addPassedLosses(b.Lost)
		t.cursor.LastSeq, t.cursor.LastAt = b.Last, b.LastAt
		t.losses.passThrough(b.Last)
		for rule, n := range done.RefusedBy {
			t.in.Catalog.ChargeRefused(rule, n)
		}
		observe(t.in.Observer, done, len(b.DeadLetters), ignored)
		t.alertRefused(ctx, b)
		return nil
	case errors.Is(err, futurejobs.ErrCursorMoved):
		return errReopenReader
	}
	t.unsure = true
	return fmt.Errorf("apply events: %w", err)
}

// observe reports the results of a batch to an observer, if any.
func observe(o Observer, done futurejobs.ApplyResult, letters, ignored int) {
	if o == nil {
		return
	}
	for outcome, n := range map[string]int{
		Created: done.Created, Ended: done.Ended, Kept: done.Kept, Restarted: done.Restarted, Updated: done.Updated,
		Postponed: done.Postponed, Coalesced: done.Coalesced,
		Paused: done.Paused, Resumed: done.Resumed, Remembered: done.Remembered, Unmatched: done.Missed,
		DeadLetter: letters + done.Refused, Ignored: ignored,
	} {
		if n > 0 {
			o.Ingested(outcome, n)
		}
	}
	if done.Summarized > 0 {
		o.Summarized(done.Summarized)
	}
	for _, a := range done.Alerts {
		o.Alerted(a)
	}
}
