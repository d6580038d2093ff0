package bus

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/events"
)

// Bounds of the search for messages that a stream lost between others.
const (
	maxDetails = 100_000 // deleted sequences that the stream's leader may list
	maxCounted = 100_000 // sequences read again without bodies, if the list would be longer
)

// deletions searches a stream for sequences without a message.
type deletions struct {
	streams *Streams
	stream  string
	created time.Time // creation time of the stream; another one means another stream
}

// gone returns the sequences of spans at which the stream's leader has no message.
func (d deletions) gone(ctx context.Context, spans []events.Span) ([]events.Span, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	info, err := d.streams.leaderInfo(ctx, d.stream)
	if err != nil {
		return nil, err
	}
	front, rest := cut(spans, info.State.FirstSeq)
	switch {
	case !createdAt(info).Equal(d.created):
		return nil, fmt.Errorf("%w: stream %s", ErrStreamReplaced, d.stream)
	case len(rest) == 0 || info.State.NumDeleted == 0 || thinned(info):
		return front, nil
	case info.State.NumDeleted <= maxDetails:
		return d.listed(ctx, spans)
	}
	absent, err := d.absent(ctx, rest)
	return append(front, absent...), err
}

// cut divides spans at a sequence into those before it and those from it on.
func cut(spans []events.Span, at uint64) (before, from []events.Span) {
	for _, s := range spans {
		if s.First < at {
			before = append(before, events.Span{First: s.First, Last: min(s.Last, at-1)})
		}
		if s.Last >= at {
			from = append(from, events.Span{First: max(s.First, at), Last: s.Last})
		}
	}
	return before, from
}

// listed implements gone with the leader's list of deleted sequences.
func (d deletions) listed(ctx context.Context, spans []events.Span) ([]events.Span, error) {
	info, err := d.streams.details(ctx, d.stream)
	if err != nil {
		return nil, err
	}
	if !createdAt(info).Equal(d.created) {
		return nil, fmt.Errorf("%w: stream %s", ErrStreamReplaced, d.stream)
	}
	gone, rest := cut(spans, info.State.FirstSeq)
	deleted := info.State.Deleted
	slices.Sort(deleted)
	for _, s := range rest {
		from, _ := slices.BinarySearch(deleted, s.First)
		for _, seq := range deleted[from:] {
			if seq > s.Last {
				break
			}
			gone = append(gone, events.Span{First: seq, Last: seq})
		}
	}
	return gone, nil
}

// absent implements gone by reading the messages in the spans, on all subjects and without bodies. Spans of too many
// sequences count as gone.
func (d deletions) absent(ctx context.Context, spans []events.Span) ([]events.Span, error) {
	total := uint64(0)
	for _, s := range spans {
		total += s.Last - s.First + 1
	}
	if total > maxCounted {
		return spans, nil
	}
	there, err := d.present(ctx, spans[0].First, spans[len(spans)-1].Last)
	if err != nil {
		return nil, err
	}
	return events.Without(spans, there), nil
}

// present returns the sequences from first to last at which the stream has a message.
func (d deletions) present(ctx context.Context, first, last uint64) (there []events.Span, err error) {
	all := newConsumer(d.streams.conn, d.stream, nil)
	all.created = d.created
	all.ctx, all.cancel = context.WithCancel(ctx)
	defer all.cancel()
	if err := all.openWith(ctx, func(cfg *jetstream.ConsumerConfig) {
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.HeadersOnly = jetstream.DeliverByStartSequencePolicy, first, true
	}); err != nil {
		return nil, err
	}
	defer all.Close()
	for {
		if done, err := all.exhausted(ctx); done || err != nil {
			return there, err
		}
		quiet := time.NewTimer(pastQuiet)
		for {
			msg, err := all.one(ctx, quiet.C, false)
			if err != nil {
				quiet.Stop()
				return nil, err
			}
			if msg == nil {
				break // the outer loop asks whether more remain
			}
			e, _, err := all.event(msg)
			if err != nil || e.Seq >= last {
				quiet.Stop()
				if err == nil && e.Seq == last {
					there = append(there, events.Span{First: last, Last: last})
				}
				return there, err
			}
			there = append(there, events.Span{First: e.Seq, Last: e.Seq})
			if all.pending == 0 {
				break
			}
		}
		quiet.Stop()
	}
}
