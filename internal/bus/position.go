package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/events"
)

var errSubjects = errors.New("it takes in other subjects now")

// End implements events.Reader. It asks the stream's leader, because only the leader has every acknowledged message.
// The consumer may run beside a copy that is behind.
func (r *reader) End(ctx context.Context) (end uint64, ok bool, err error) {
	ctx, cancel := r.bus.withTimeout(ctx)
	defer cancel()
	info, err := r.bus.ask(ctx, r.stream)
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
// 1. The stream's leader is asked whether it has a message on the subjects.
// 2. Then it is asked for the messages lost up to the end. A message that still exists existed before, so it is on
// another subject.
// 3. A lost message may still be on its way to the reader. The consumer is asked about that.
func (r *reader) Drained(ctx context.Context, seq, end uint64) (bool, error) {
	ctx, cancel := r.bus.withTimeout(ctx)
	defer cancel()
	from := max(seq, r.clear)
	if end <= from {
		return true, nil
	}
	for _, subject := range r.querySubjects() {
		next, err := r.bus.next(ctx, r.stream, subject, from+1)
		if err != nil || next.Seq > 0 && next.Seq <= end {
			return false, err
		}
	}
	if r.accounts && end > r.last {
		gone, err := r.gone(ctx, []events.Span{{First: r.last + 1, Last: end}})
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

// storedMessage is the answer to a query for a message.
type storedMessage struct {
	Seq    uint64    `json:"seq"` // 0: no such message
	Time   time.Time `json:"time"`
	Header []byte    `json:"hdrs"`
}

// next returns the first message on the subject at or after seq. Only the stream's leader answers this request,
// whereas JetStream's client would ask any copy.
func (b *Bus) next(ctx context.Context, stream, subject string, seq uint64) (storedMessage, error) {
	m, err := b.getMessage(ctx, stream, messageQuery{Seq: seq, Next: subject})
	switch {
	case isCode(err, jetstream.JSErrCodeMessageNotFound):
		return storedMessage{}, nil
	case err == nil && m.Seq < seq:
		err = fmt.Errorf("the answer is message %d", m.Seq)
	}
	if err != nil {
		return storedMessage{}, fmt.Errorf("ask stream %s for its next message from %d: %w", stream, seq, err)
	}
	return m, nil
}

// last returns the last message on the subject, from the stream's leader.
func (b *Bus) last(ctx context.Context, stream, subject string) (storedMessage, error) {
	m, err := b.getMessage(ctx, stream, messageQuery{Last: subject})
	if isCode(err, jetstream.JSErrCodeMessageNotFound) {
		return storedMessage{}, nil
	}
	if err != nil {
		return storedMessage{}, fmt.Errorf("ask stream %s for its last message on %s: %w", stream, subject, err)
	}
	return m, nil
}

// messageQuery is a query for one message of a stream.
type messageQuery struct {
	Seq  uint64 `json:"seq,omitempty"`
	Next string `json:"next_by_subj,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
}

func (b *Bus) getMessage(ctx context.Context, stream string, q messageQuery) (storedMessage, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return storedMessage{}, err
	}
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	begun, about := time.Now(), streamAPI("MSG.GET", stream)
	answer, err := b.nc.RequestWithContext(ctx, about, body)
	if err != nil {
		return storedMessage{}, b.denied.explain(err, begun, about)
	}
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message storedMessage       `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return storedMessage{}, err
	}
	if got.Error != nil {
		return storedMessage{}, got.Error
	}
	return got.Message, nil
}
