package bus

import (
	"cmp"
	"context"
	"encoding/json"
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

// skip records that the sequences after r.last and before seq were not returned. Lost checks whether the stream still
// has messages there.
func (r *reader) skip(seq uint64, until time.Time) {
	if seq > r.last+1 {
		r.gaps = append(r.gaps, events.Span{First: r.last + 1, Last: seq - 1})
		r.until = until
	}
	r.last = max(r.last, seq)
}

// Left implements events.Reader.
func (r *reader) Left() uint64 { return r.pending }

// Lost implements events.Reader.
//
// 1. Without a gap nothing is lost, and the broker is not asked.
// 2. The leader is asked after the last message was returned. So a message in a gap that the stream still has is on
// another subject.
// 3. A sequence in a gap is lost if the stream has no message at it.
func (r *reader) Lost(ctx context.Context) (events.Loss, error) {
	if err := r.settlePending(ctx); err != nil {
		return events.Loss{}, err
	}
	loss := r.loss
	if len(r.gaps) > 0 {
		gone, err := r.gone(ctx, r.gaps)
		if err != nil {
			return events.Loss{}, err
		}
		loss.Gone = append(loss.Gone, gone...)
		loss.Until = r.until
	}
	slices.SortFunc(loss.Gone, func(a, b events.Span) int { return cmp.Compare(a.First, b.First) })
	loss.AtMost = !r.own
	r.gaps, r.loss = nil, events.Loss{}
	return loss, nil
}

// settlePending asks the consumer whether its pending messages still exist. A stream that lost all of them sends no
// further message that would show it.
func (r *reader) settlePending(ctx context.Context) error {
	if !r.quiet || r.pending == 0 {
		return nil
	}
	done, err := r.exhausted(ctx)
	if done {
		r.pending = 0
	}
	return err
}

// gone returns the sequences of spans at which the stream's leader has no message.
func (r *reader) gone(ctx context.Context, spans []events.Span) ([]events.Span, error) {
	ctx, cancel := r.bus.withTimeout(ctx)
	defer cancel()
	info, err := r.bus.leaderInfo(ctx, r.stream)
	if err != nil {
		return nil, err
	}
	front, rest := cut(spans, info.State.FirstSeq)
	switch {
	case !createdAt(info).Equal(r.created):
		return nil, fmt.Errorf("%w: stream %s", ErrStreamReplaced, r.stream)
	case len(rest) == 0 || info.State.NumDeleted == 0 || thinned(info):
		return front, nil
	case info.State.NumDeleted <= maxDetails:
		return r.listed(ctx, spans)
	}
	absent, err := r.absent(ctx, rest)
	return append(front, absent...), err
}

// thinned reports whether the stream mirrors a part of another stream under its sequences. Such a stream never had
// messages at the other sequences.
func thinned(info *jetstream.StreamInfo) bool {
	m := info.Config.Mirror
	return m != nil && (m.FilterSubject != "" || len(m.SubjectTransforms) > 0)
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
func (r *reader) listed(ctx context.Context, spans []events.Span) ([]events.Span, error) {
	info, err := r.bus.details(ctx, r.stream)
	if err != nil {
		return nil, err
	}
	if !createdAt(info).Equal(r.created) {
		return nil, fmt.Errorf("%w: stream %s", ErrStreamReplaced, r.stream)
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

// details returns the leader's information about a stream, with the sequences deleted between its first and last
// message.
func (b *Bus) details(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	begun, about := time.Now(), streamAPI("INFO", stream)
	answer, err := b.nc.RequestWithContext(ctx, about, []byte(`{"deleted_details":true}`))
	if err != nil {
		return nil, b.denied.explain(err, begun, about)
	}
	var got struct {
		Error *jetstream.APIError `json:"error"`
		jetstream.StreamInfo
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return nil, err
	}
	if got.Error != nil {
		return nil, fmt.Errorf("ask for the deleted messages of stream %s: %w", stream, got.Error)
	}
	if !leads(got.Cluster) {
		return nil, fmt.Errorf("ask for the deleted messages of stream %s: %w", stream, ErrNoLeader)
	}
	return &got.StreamInfo, nil
}

// absent implements gone by reading the messages in the spans, on all subjects and without bodies. Spans of too many
// sequences count as gone.
func (r *reader) absent(ctx context.Context, spans []events.Span) ([]events.Span, error) {
	total := uint64(0)
	for _, s := range spans {
		total += s.Last - s.First + 1
	}
	if total > maxCounted {
		return spans, nil
	}
	there, err := r.present(ctx, spans[0].First, spans[len(spans)-1].Last)
	if err != nil {
		return nil, err
	}
	return events.Without(spans, there), nil
}

// present returns the sequences from first to last at which the stream has a message.
func (r *reader) present(ctx context.Context, first, last uint64) (there []events.Span, err error) {
	all := &reader{bus: r.bus, stream: r.stream, created: r.created, reconnects: r.bus.nc.Stats().Reconnects}
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

// ownsAll reports whether the stream takes in only the subjects that are read from it. In that case each lost message
// was an event.
func ownsAll(info *jetstream.StreamInfo, subjects []string) bool {
	cfg := info.Config
	if len(cfg.Subjects) == 0 || cfg.Mirror != nil || len(cfg.Sources) > 0 || cfg.SubjectTransform != nil {
		return false
	}
	return len(subjects) == 0 || !slices.ContainsFunc(cfg.Subjects, func(s string) bool { return !covers(s, subjects) })
}
