package bus

import (
	"errors"
	"fmt"
	"strconv"

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
