package events

import (
	"context"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
)

// maxPrefetchBytes bounds the bodies that are prefetched while others are applied. It is about the maximum that one
// call of Next returns.
const maxPrefetchBytes = 8 << 20

// minBatchInterval is the minimum interval between two transactions of a stream, unless a full batch is ready. A
// transaction costs as much as many events, so a trickle is combined into few; the first event after a pause is
// applied at once.
const minBatchInterval = 50 * time.Millisecond

// askFor is the approximate time for matching events before the matched ones are applied. Events that are expensive
// to match are applied a few at a time: they are not delayed by later ones, and few are matched again after a rule
// change.
const askFor = 200 * time.Millisecond

// Limits of the tenants' lines. A batch of events that are expensive to match or write is applied in parts, and after each
// part waiting writers of the operator's lines come first.
const (
	tenantsAskFor    = 50 * time.Millisecond // as askFor
	maxTenantsWrites = 500                   // as shares, of one part
	bytesPerWrite    = 32 << 10              // of an effect's event or of a dead letter, which count as one more write
)

// batch holds read events, and the effects of the first, matched part of them.
type batch struct {
	events   []futurejobs.Event
	asked    int   // number of matched events
	revision int64 // of the rules used for matching; the rules may be newer, never older
	effects  []futurejobs.Effect
	letters  []futurejobs.DeadLetter
	ignored  int   // number of matched events without any effect
	writes   int   // cost of the effects and letters
	size     int   // of the bodies, in bytes
	loss     Loss  // losses of the stream up to the last event
	err      error // reason for the end of reading
}

// full reports whether the batch must be applied before more is read.
func (h *batch) full() bool {
	return len(h.events) >= maxBatch || h.size >= maxPrefetchBytes || h.asked < len(h.events)
}

// isCostly reports whether a part of a batch costs as much as a tenants' line may write at once.
func (h *batch) isCostly() bool { return h.writes >= maxTenantsWrites }

// newBatch matches events for up to askFor. The subscribed subjects belong to the revision. If the rules are newer
// already, the transaction fails and the events are matched again.
func (t *streamReader) newBatch(got []futurejobs.Event, revision int64) batch {
	h := batch{revision: revision}
	t.appendEvents(&h, got)
	return h
}

// appendEvents adds events to a batch, and matches as many as possible within askFor, at least one. On a tenants' line
// the time is shorter, the writes are bounded, and other tenants' lines wait: together they take one processor.
func (t *streamReader) appendEvents(h *batch, got []futurejobs.Event) {
	h.events = append(h.events, got...)
	for _, e := range got {
		h.size += len(e.Data)
	}
	most, isTenants := askFor, futurejobs.IsTenantsLine(t.line)
	if isTenants && h.asked < len(h.events) {
		t.in.turn.Lock()
		defer t.in.turn.Unlock()
		most = tenantsAskFor
	}
	over := time.NewTimer(most)
	defer over.Stop()
	for h.asked < len(h.events) && !(isTenants && h.isCostly()) {
		e := h.events[h.asked]
		e.Line = t.line
		h.asked++
		size := len(e.Data)
		if t.in.Place != nil {
			e.At = t.in.Place(e.At)
		}
		effects, refusals := t.match(&e)
		for _, r := range refusals {
			h.letters = append(h.letters, t.deadLetter(e, size, r))
		}
		h.effects = append(h.effects, effects...)
		h.writes += (len(effects) + len(refusals)) * (1 + size/bytesPerWrite)
		if len(effects)+len(refusals) == 0 {
			h.ignored++
		}
		select {
		case <-over.C:
			return
		default:
		}
	}
}

// nextBatch returns the prefetched batch, or else reads one, blocking for up to the poll time.
func (t *streamReader) nextBatch(ctx context.Context) (batch, error) {
	h := t.ahead
	t.ahead = batch{}
	if h.err != nil || len(h.events) > 0 || len(h.loss.Gone) > 0 {
		return h, h.err
	}
	got, err := t.reader.Next(ctx, maxBatch, t.pollFor())
	if err != nil {
		return batch{}, err
	}
	h = t.newBatch(got, t.revision)
	h.loss, err = t.reader.Lost(ctx)
	return h, err
}

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
	go func(revision int64) { ahead <- t.prefetch(reading, revision) }(t.revision)
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

// prefetch reads until ctx ends or the batch is full, and determines the losses in between.
func (t *streamReader) prefetch(ctx context.Context, revision int64) batch {
	h := batch{revision: revision}
	for !h.full() && h.err == nil && ctx.Err() == nil {
		var got []futurejobs.Event
		got, h.err = t.reader.Next(ctx, maxBatch-len(h.events), pollTimeout)
		t.appendEvents(&h, got)
	}
	if errors.Is(h.err, context.Canceled) {
		h.err = nil // the available events are read
	}
	if h.err == nil {
		h.loss, h.err = t.reader.Lost(context.WithoutCancel(ctx)) // the reader bounds the duration
	}
	return h
}
