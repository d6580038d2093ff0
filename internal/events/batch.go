package events

import (
	"context"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
)

// aheadBytes bounds the bodies that are read while others are applied: about as many as one
// call of Next returns at most.
const aheadBytes = 8 << 20

// breath is the least time between two transactions of a stream, unless a full haul waits. A
// transaction costs as much as many events, so a trickle goes in few of them; what comes after
// a pause is taken at once.
const breath = 50 * time.Millisecond

// askFor is for about how long the rules are asked what events mean before what they answered is applied. Events that cost them
// much are applied a few at a time: so they wait for none that comes after them, and few are matched again where the rules change
// meanwhile.
const askFor = 200 * time.Millisecond

// haul is events that were read, and what the rules ask for because of the first of them.
type haul struct {
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
func (h *haul) full() bool {
	return len(h.events) >= takeAtOnce || h.size >= aheadBytes || h.asked < len(h.events)
}

// ask asks the rules what events mean, for a while. The subjects that are read belong to the revision.
// Rules that are newer already make the transaction fail, and the events are asked about again.
func (t *tap) ask(got []futurejobs.Event, revision int64) haul {
	h := haul{revision: revision}
	t.add(&h, got)
	return h
}

// add adds events to a haul, and asks the rules about as many as a while is enough for, at least one.
func (t *tap) add(h *haul, got []futurejobs.Event) {
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
			h.letters = append(h.letters, t.letter(e, size, r))
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

// next is what was read ahead, or else what has arrived, after waiting for it a while.
func (t *tap) next(ctx context.Context) (haul, error) {
	h := t.ahead
	t.ahead = haul{}
	if h.err != nil || len(h.events) > 0 || len(h.loss.Gone) > 0 {
		return h, h.err
	}
	got, err := t.reader.Next(ctx, takeAtOnce, t.patience())
	if err != nil {
		return haul{}, err
	}
	h = t.ask(got, t.revision)
	h.loss, err = t.reader.Lost(ctx)
	return h, err
}

// takeAndRead takes a haul, and reads the next one meanwhile. The reader is at rest when it
// returns, at the earliest a breath after it began, unless so much came that there is a next
// haul already.
func (t *tap) takeAndRead(ctx context.Context, h haul) error {
	if len(h.events) == 0 {
		return nil
	}
	rest := time.NewTimer(breath)
	defer rest.Stop()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	ahead := make(chan haul, 1)
	go func(revision int64) { ahead <- t.read(reading, revision) }(t.revision)
	err := t.take(ctx, h)
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

// read reads until ctx ends or the haul is full, and finds out what the stream lost in between.
func (t *tap) read(ctx context.Context, revision int64) haul {
	h := haul{revision: revision}
	for !h.full() && h.err == nil && ctx.Err() == nil {
		var got []futurejobs.Event
		got, h.err = t.reader.Next(ctx, takeAtOnce-len(h.events), quiet)
		t.add(&h, got)
	}
	if errors.Is(h.err, context.Canceled) {
		h.err = nil // what was there is read
	}
	if h.err == nil {
		h.loss, h.err = t.reader.Lost(context.WithoutCancel(ctx)) // the reader bounds it
	}
	return h
}
