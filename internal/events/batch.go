package events

import (
	"context"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
)

// maxPrefetchBytes bounds the bodies that are read while others are applied: about as many as one
// call of Next returns at most.
const maxPrefetchBytes = 8 << 20

// minBatchInterval is the least time between two transactions of a stream, unless a full haul waits. A
// transaction costs as much as many events, so a trickle goes in few of them; what comes after
// a pause is taken at once.
const minBatchInterval = 50 * time.Millisecond

// askFor is for about how long the rules are asked what events mean before what they answered is applied. Events that cost them
// much are applied a few at a time: so they wait for none that comes after them, and few are matched again where the rules change
// meanwhile.
const askFor = 200 * time.Millisecond

// batch is events that were read, and what the rules ask for because of the first of them.
type batch struct {
	events   []futurejobs.Event
	asked    int   // about how many of the events the rules were asked
	revision int64 // of the rules that were asked; they may be newer, never older
	effects  []futurejobs.Effect
	letters  []futurejobs.DeadLetter
	ignored  int   // events of those that no rule asked for anything
	size     int   // of the bodies, in bytes
	loss     Loss  // what the stream lost up to the last event
	err      error // why reading ended
}

// full reports whether nothing more is to be read before the haul is applied.
func (h *batch) full() bool {
	return len(h.events) >= maxBatch || h.size >= maxPrefetchBytes || h.asked < len(h.events)
}

// newBatch asks the rules what events mean, for a while. The subjects that are read belong to the revision.
// Rules that are newer already make the transaction fail, and the events are asked about again.
func (t *streamReader) newBatch(got []futurejobs.Event, revision int64) batch {
	h := batch{revision: revision}
	t.appendEvents(&h, got)
	return h
}

// appendEvents adds events to a haul, and asks the rules about as many as a while is enough for, at least one.
func (t *streamReader) appendEvents(h *batch, got []futurejobs.Event) {
	h.events = append(h.events, got...)
	for _, e := range got {
		h.size += len(e.Data)
	}
	over := time.NewTimer(askFor)
	defer over.Stop()
	for h.asked < len(h.events) {
		e := h.events[h.asked]
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

// nextBatch is what was read ahead, or else what has arrived, after waiting for it a while.
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

// applyAndPrefetch takes a haul, and reads the next one meanwhile. The reader is at rest when it
// returns, at the earliest a breath after it began, unless so much came that there is a next
// haul already.
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

// prefetch reads until ctx ends or the haul is full, and finds out what the stream lost in between.
func (t *streamReader) prefetch(ctx context.Context, revision int64) batch {
	h := batch{revision: revision}
	for !h.full() && h.err == nil && ctx.Err() == nil {
		var got []futurejobs.Event
		got, h.err = t.reader.Next(ctx, maxBatch-len(h.events), pollTimeout)
		t.appendEvents(&h, got)
	}
	if errors.Is(h.err, context.Canceled) {
		h.err = nil // what was there is read
	}
	if h.err == nil {
		h.loss, h.err = t.reader.Lost(context.WithoutCancel(ctx)) // the reader bounds it
	}
	return h
}
