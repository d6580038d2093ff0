package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

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
		if err != nil || next.Seq > 0 && next.Seq <= end {
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

// stored is what is asked about a message.
type stored struct {
	Seq  uint64    `json:"seq"` // 0: there is no such message
	Time time.Time `json:"time"`
}

// next returns the first message on the subject at or after seq, as the stream's leader has
// it: no other server answers this. JetStream's client would ask any copy.
func (b *Bus) next(ctx context.Context, stream, subject string, seq uint64) (stored, error) {
	m, err := b.getNext(ctx, stream, subject, seq)
	switch {
	case isCode(err, jetstream.JSErrCodeMessageNotFound):
		return stored{}, nil
	case err == nil && m.Seq < seq:
		err = fmt.Errorf("the answer is message %d", m.Seq)
	}
	if err != nil {
		return stored{}, fmt.Errorf("ask stream %s for its next message from %d: %w", stream, seq, err)
	}
	return m, nil
}

func (b *Bus) getNext(ctx context.Context, stream, subject string, seq uint64) (stored, error) {
	body, err := json.Marshal(struct {
		Seq  uint64 `json:"seq"`
		Next string `json:"next_by_subj"`
	}{seq, subject})
	if err != nil {
		return stored{}, err
	}
	answer, err := b.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, body)
	if err != nil {
		return stored{}, err
	}
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message stored              `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return stored{}, err
	}
	if got.Error != nil {
		return stored{}, got.Error
	}
	return got.Message, nil
}
