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

// Headers of an atomic batch (NATS architecture decision record 50; server 2.12).
const (
	batchID       = "Nats-Batch-Id"
	batchSequence = "Nats-Batch-Sequence"
	batchCommit   = "Nats-Batch-Commit"
)

// errApart means that the messages of a batch were stored individually.
var errApart = errors.New("the stream took the batch apart")

// sendBatch publishes all parcels or none. It returns a refusal (see refused), a timeout after which all or none are
// stored, or the error that prevented sending.
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

// commit sends the messages of a batch. The stream answers only the last one, for all of them.
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

// withConnection returns a context that is cancelled when the connection is lost or the subject is denied, because a
// pending request gets no answer then.
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

// noAnswerError returns the cause that ended a context of withConnection, or err if it is another error.
func noAnswerError(ctx context.Context, err error) error {
	if deaf := context.Cause(ctx); err != nil && (errors.Is(deaf, nats.ErrDisconnected) || errors.Is(deaf, ErrDenied)) {
		return deaf
	}
	return err
}

// inBatch returns a copy of a message as a part of a batch. The original can still be published alone.
func inBatch(m *nats.Msg, id string, sequence int) *nats.Msg {
	header := make(nats.Header, len(m.Header)+3)
	for k, v := range m.Header {
		header[k] = v
	}
	header[batchID] = []string{id}
	header[batchSequence] = []string{strconv.Itoa(sequence)}
	return &nats.Msg{Subject: m.Subject, Header: header, Data: m.Data}
}

// batchAck is the stream's answer to a batch.
type batchAck struct {
	Error *jetstream.APIError `json:"error"`
	Count int                 `json:"count"`
}

// of returns nil if the answer is for a batch of count messages. A server without batch support stores the messages
// individually and answers the last one.
func (a batchAck) of(count int) error {
	switch {
	case a.Error != nil:
		return a.Error
	case a.Count != count:
		return fmt.Errorf("%w: it acknowledges %d of %d messages", errApart, a.Count, count)
	}
	return nil
}

// refused reports whether a batch was refused for its content. Its alerts may get through individually, and each
// rejected one has its own reason.
func refused(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) || errors.Is(err, errApart) || errors.Is(err, ErrDenied) ||
		errors.Is(err, nats.ErrMaxPayload)
}
