package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

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

// publishBatch publishes all messages as one batch, or none. The stream answers only the last one, for all of them. It
// returns a refusal (see refused), a timeout after which all or none are stored, or the error that prevented sending.
func publishBatch(ctx context.Context, c *Conn, msgs []*nats.Msg) error {
	ack, err := commitBatch(ctx, c.nc, msgs)
	if err != nil {
		return noAnswerError(ctx, err)
	}
	return ack.of(len(msgs))
}

func commitBatch(ctx context.Context, nc *nats.Conn, msgs []*nats.Msg) (ack batchAck, err error) {
	id, last := uuid.NewString(), len(msgs)-1
	for i, m := range msgs[:last] {
		if err := nc.PublishMsg(inBatch(m, id, i+1)); err != nil {
			return ack, err
		}
	}
	msg := inBatch(msgs[last], id, last+1)
	msg.Header[batchCommit] = []string{"1"}
	answer, err := nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return ack, err
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return ack, fmt.Errorf("the answer to a batch is none: %w", err)
	}
	return ack, nil
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
