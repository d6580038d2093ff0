package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/failpoints"
)

var _ events.Reader = (*reader)(nil)

var errSubjects = errors.New("the subjects of the stream changed")

// reader reads a stream and accounts for the sequences that it does not return. A new reader continues from the cursor,
// so no message is skipped.
type reader struct {
	*consumer
	streams *Streams
	takes   []string // subjects of the stream at opening

	clear uint64        // no message on the subjects up to this sequence
	quiet bool          // the last Next returned no messages
	own   bool          // the stream takes in only the subjects of the reader
	last  uint64        // last sequence that was returned or is in a gap
	gaps  []events.Span // sequences not returned: on other subjects, or lost
	until time.Time     // time of the message after the last gap; zero: none yet
	loss  events.Loss   // found but not yet returned by Lost
}

// Next implements events.Reader.
func (r *reader) Next(ctx context.Context, limit int, wait time.Duration) ([]futurejobs.Event, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var got []futurejobs.Event
	for len(got) < limit {
		msg, err := r.one(ctx, timer.C, len(got) > 0)
		if err != nil {
			return nil, err
		}
		if msg == nil {
			break
		}
		e, ok, err := r.event(msg)
		if err != nil {
			return nil, err
		}
		r.skip(e.Seq, e.At)
		if ok {
			got = append(got, e)
			failpoints.Point("reader.message")
		}
	}
	r.quiet = len(got) == 0
	return got, nil
}

// skip records that the sequences after r.last and before seq were not returned. Lost checks whether the stream still
// has messages there.
func (r *reader) skip(seq uint64, until time.Time) {
	if seq > r.last+1 {
		r.gaps = append(r.gaps, events.Span{First: r.last + 1, Last: seq - 1})
		r.until = until
	}
	r.last = max(r.last, seq)
}

// Left implements events.Reader. While no message arrives, the broker's answer about the pull may know of more.
func (r *reader) Left() uint64 {
	if r.batch == nil {
		return r.pending
	}
	return max(r.pending, r.batch.unread.Load())
}

// Lost implements events.Reader.
//
// 1. Without a gap nothing is lost, and the broker is not asked.
// 2. The leader is queried after the last message was returned. So a message in a gap that the stream still has is on
// another subject.
// 3. A sequence in a gap is lost if the stream has no message at it.
func (r *reader) Lost(ctx context.Context) (events.Loss, error) {
	if err := r.settlePending(ctx); err != nil {
		return events.Loss{}, err
	}
	loss := r.loss
	if len(r.gaps) > 0 {
		gone, err := r.deletions().gone(ctx, r.gaps)
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

// deletions returns the search for deleted messages of the stream.
func (r *reader) deletions() deletions { return deletions{r.streams, r.stream, r.created} }

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

// End implements events.Reader. It asks the stream's leader, because only the leader has every acknowledged message.
// The consumer may run beside a copy that is behind.
func (r *reader) End(ctx context.Context) (end uint64, ok bool, err error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	info, err := r.streams.fetchInfo(ctx, r.stream)
	if err != nil {
		return 0, false, err
	}
	if !createdAt(info).Equal(r.created) {
		return 0, false, fmt.Errorf("%w: stream %s", ErrStreamReplaced, r.stream)
	}
	if !slices.Equal(r.takes, info.Config.Subjects) {
		return 0, false, r.lost(errSubjects)
	}
	return info.State.LastSeq, leads(info.Cluster) && r.feedsAllSubjects(info), nil
}

// feedsAllSubjects reports whether the stream takes in all subjects that are read from it. If a subject moved to
// another stream, the end of this stream is not the end of its events.
func (r *reader) feedsAllSubjects(info *jetstream.StreamInfo) bool {
	return !slices.ContainsFunc(r.subjects, func(s string) bool { return !carries(info, s) })
}

// Drained implements events.Reader. Most often the end is the reader's position, so no request is necessary.
//
// 1. The stream's leader is queried for a message on the subjects.
// 2. Then it is queried for the messages lost up to the end. A message that still exists existed before, so it is on
// another subject.
// 3. A lost message may still be on its way to the reader. The consumer is queried for it.
func (r *reader) Drained(ctx context.Context, seq, end uint64) (bool, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	from := max(seq, r.clear)
	if end <= from {
		return true, nil
	}
	for _, subject := range r.querySubjects() {
		next, err := r.streams.next(ctx, r.stream, subject, from+1)
		if err != nil || next.Seq > 0 && next.Seq <= end {
			return false, err
		}
	}
	if end > r.last {
		gone, err := r.deletions().gone(ctx, []events.Span{{First: r.last + 1, Last: end}})
		if err != nil {
			return false, err
		}
		if len(gone) > 0 {
			if done, err := r.exhausted(ctx); !done || err != nil {
				return false, err
			}
			r.loss.Gone = append(r.loss.Gone, gone...)
		}
		r.last = end
	}
	r.clear = end
	return true, nil
}

// querySubjects returns the subjects to query.
func (r *reader) querySubjects() []string {
	if len(r.subjects) == 0 {
		return []string{">"}
	}
	return r.subjects
}
