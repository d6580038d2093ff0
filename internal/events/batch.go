package events

import (
	"context"
	"errors"

	futurejobs "deadman/future_jobs"
)

// maxPrefetchBytes bounds the bodies that are prefetched while others are applied. It is about the maximum that one
// call of Next returns.
const maxPrefetchBytes = 8 << 20

// batch holds read events, and the effects of the first, matched part of them.
type batch struct {
	events   []futurejobs.Event
	matched  int   // number of matched events
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
func (b *batch) full() bool {
	return len(b.events) >= maxBatch || b.size >= maxPrefetchBytes || b.matched < len(b.events)
}

// isCostly reports whether a part of a batch costs as much as a tenants' line may write at once.
func (b *batch) isCostly() bool { return b.writes >= maxTenantsWrites }

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
	h = t.matcher.newBatch(got, t.sub.revision)
	h.loss, err = t.reader.Lost(ctx)
	return h, err
}

// prefetch reads until ctx ends or the batch is full, and determines the losses in between.
func (t *streamReader) prefetch(ctx context.Context, revision int64) batch {
	h := batch{revision: revision}
	for !h.full() && h.err == nil && ctx.Err() == nil {
		var got []futurejobs.Event
		got, h.err = t.reader.Next(ctx, maxBatch-len(h.events), pollTimeout)
		t.matcher.appendEvents(&h, got)
	}
	if errors.Is(h.err, context.Canceled) {
		h.err = nil // the available events are read
	}
	if h.err == nil {
		h.loss, h.err = t.reader.Lost(context.WithoutCancel(ctx)) // the reader bounds the duration
	}
	return h
}
