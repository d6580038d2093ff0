package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/events"
)

// electionTimeout is the shortest time after which a NATS server without news of a leader
// asks to be elected.
const electionTimeout = 4 * time.Second

// Info implements events.Streams. It asks the stream's leader.
func (b *Bus) Info(ctx context.Context, stream string) (events.Info, error) {
	ctx, cancel := b.within(ctx)
	defer cancel()
	info, err := b.ask(ctx, stream)
	if err != nil {
		return events.Info{}, err
	}
	return events.Info{CreatedAt: createdAt(info), LastSeq: info.State.LastSeq}, nil
}

func (b *Bus) ask(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("ask for stream %s: %w", stream, err)
	}
	return s.CachedInfo(), nil
}

func createdAt(info *jetstream.StreamInfo) time.Time {
	return info.Created.UTC().Truncate(time.Microsecond)
}

// leads reports whether the one who answered is the stream's leader still. A server that was
// cut off from its peers goes on answering for a while with what it knew; its peers do not
// elect another before electionTimeout after they heard of it last.
func leads(c *jetstream.ClusterInfo) bool {
	if c == nil || len(c.Replicas) == 0 {
		return true
	}
	heard := 1
	for _, p := range c.Replicas {
		if !p.Offline && p.Active > 0 && p.Active < electionTimeout-time.Second {
			heard++
		}
	}
	return heard > (len(c.Replicas)+1)/2
}

// Before implements events.Streams.
func (b *Bus) Before(ctx context.Context, stream string, at time.Time) (uint64, error) {
	ctx, cancel := b.within(ctx)
	defer cancel()
	start := at.Add(time.Microsecond) // instants are cut to microseconds
	c, err := b.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Description: "deadman", DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &start,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Second,
	})
	if err != nil {
		return 0, fmt.Errorf("find a time in stream %s: %w", stream, err)
	}
	return c.CachedInfo().Delivered.Stream, nil
}

// End implements events.Reader. It asks the stream's leader, which alone has everything that
// was acknowledged; the consumer may live beside a copy that is behind.
func (r *reader) End(ctx context.Context) (end uint64, ok bool, err error) {
	ctx, cancel := r.bus.within(ctx)
	defer cancel()
	info, err := r.bus.ask(ctx, r.stream)
	if err != nil {
		return 0, false, err
	}
	if !createdAt(info).Equal(r.created) {
		return 0, false, fmt.Errorf("%w: stream %s", ErrStreamReplaced, r.stream)
	}
	return info.State.LastSeq, leads(info.Cluster), nil
}

// Drained implements events.Reader. Most often the end is where the reader stands, and there
// is nothing to ask.
func (r *reader) Drained(ctx context.Context, seq, end uint64) (bool, error) {
	ctx, cancel := r.bus.within(ctx)
	defer cancel()
	from := max(seq, r.clear)
	if end <= from {
		return true, nil
	}
	for _, subject := range r.asked() {
		next, err := r.bus.next(ctx, r.stream, subject, from+1)
		if err != nil || next > 0 && next <= end {
			return false, err
		}
	}
	r.clear = end
	return true, nil
}

// asked are the subjects to ask for.
func (r *reader) asked() []string {
	if len(r.subjects) == 0 {
		return []string{">"}
	}
	return r.subjects
}

// next returns the sequence of the first message on the subject at or after seq, as the
// stream's leader has it; 0: there is none. JetStream's client would ask any copy.
func (b *Bus) next(ctx context.Context, stream, subject string, seq uint64) (uint64, error) {
	body, err := json.Marshal(struct {
		Seq  uint64 `json:"seq"`
		Next string `json:"next_by_subj"`
	}{seq, subject})
	if err != nil {
		return 0, fmt.Errorf("ask stream %s: %w", stream, err)
	}
	answer, err := b.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, body)
	if err != nil {
		return 0, fmt.Errorf("ask stream %s for its next message: %w", stream, err)
	}
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return 0, fmt.Errorf("ask stream %s for its next message: %w", stream, err)
	}
	switch {
	case got.Error != nil && got.Error.ErrorCode == codeNoMessage:
		return 0, nil
	case got.Error != nil:
		return 0, fmt.Errorf("ask stream %s for its next message: %w", stream, got.Error)
	case got.Message.Seq < seq:
		return 0, fmt.Errorf("ask stream %s for its next message after %d: the answer has sequence %d", stream, seq, got.Message.Seq)
	}
	return got.Message.Seq, nil
}
