package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The headers of an atomic batch (NATS architecture decision record 50; server 2.12).
const (
	batchID       = "Nats-Batch-Id"
	batchSequence = "Nats-Batch-Sequence"
	batchCommit   = "Nats-Batch-Commit"
)

// errApart means that the messages of a batch were stored as if they were none.
var errApart = errors.New("the stream took the batch apart")

// sendBatch publishes all parcels or none. It returns a refusal, see refused; silence,
// after which all are stored or none; or why nothing was sent.
func (b *Bus) sendBatch(ctx context.Context, parcels []outgoing) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	ctx, done := b.withConnection(ctx, parcels[len(parcels)-1].msg.Subject)
	defer done()
	ack, err := b.commit(ctx, parcels)
	err = noAnswerError(ctx, err)
	b.pace.record(!noAnswer(err), len(parcels))
	if err != nil {
		return err
	}
	return ack.of(len(parcels))
}

// commit sends the messages. Only the last is answered, for all of them.
func (b *Bus) commit(ctx context.Context, parcels []outgoing) (ack batchAck, err error) {
	id, last := uuid.NewString(), len(parcels)-1
	for i, p := range parcels[:last] {
		if err := b.nc.PublishMsg(inBatch(p.msg, id, i+1)); err != nil {
			return ack, err
		}
	}
	msg := inBatch(parcels[last].msg, id, last+1)
	msg.Header[batchCommit] = []string{"1"}
	answer, err := b.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return ack, err
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return ack, fmt.Errorf("the answer to a batch is none: %w", err)
	}
	return ack, nil
}

// withConnection ends a context when the connection is lost, or a subject is denied: nobody answers
// then what was sent before.
func (b *Bus) withConnection(ctx context.Context, subject string) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	begun, denied := time.Now(), b.denied.next()
	lost := b.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	go func() {
		for {
			select {
			case <-lost:
				cancel(nats.ErrDisconnected)
				return
			case <-denied:
				denied = b.denied.next()
				if err := b.denied.since(begun, subject); err != nil {
					cancel(err)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		b.nc.RemoveStatusListener(lost)
	}
}

// noAnswerError is the error of a request within whileHeard: why no answer can come, where it is that.
func noAnswerError(ctx context.Context, err error) error {
	if deaf := context.Cause(ctx); err != nil && (errors.Is(deaf, nats.ErrDisconnected) || errors.Is(deaf, ErrDenied)) {
		return deaf
	}
	return err
}

// inBatch is a message as a part of a batch. The message itself stays fit to go alone.
func inBatch(m *nats.Msg, id string, sequence int) *nats.Msg {
	header := make(nats.Header, len(m.Header)+3)
	for k, v := range m.Header {
		header[k] = v
	}
	header[batchID] = []string{id}
	header[batchSequence] = []string{strconv.Itoa(sequence)}
	return &nats.Msg{Subject: m.Subject, Header: header, Data: m.Data}
}

// batchAck is what the stream answers to a batch.
type batchAck struct {
	Error *jetstream.APIError `json:"error"`
	Count int                 `json:"count"`
}

// of returns no error if the answer is for a batch of so many messages. A server that knows
// no batches stores each message by itself, and answers the last one.
func (a batchAck) of(count int) error {
	switch {
	case a.Error != nil:
		return a.Error
	case a.Count != count:
		return fmt.Errorf("%w: it acknowledges %d of %d messages", errApart, a.Count, count)
	}
	return nil
}

// refused reports whether a batch was not taken in for what is in it. One by one, its
// alerts may get through, and each that does not has a reason of its own.
func refused(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) || errors.Is(err, errApart) || errors.Is(err, ErrDenied) ||
		errors.Is(err, nats.ErrMaxPayload)
}
