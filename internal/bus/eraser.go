package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Eraser deletes messages from deadman's own streams, and overwrites them in the files of the broker.
type Eraser struct{ streams *Streams }

// EraseSubject erases the last message on a subject of a stream, and reports whether the stream had one. The subject of an alert
// has one message.
func (e *Eraser) EraseSubject(ctx context.Context, stream, subject string) (erased bool, err error) {
	m, err := e.streams.last(ctx, stream, subject)
	if err != nil || m.Seq == 0 {
		return false, unanswered(err)
	}
	return e.Erase(ctx, stream, m.Seq)
}

// Erase erases the message of a stream at a sequence, and reports whether the stream had one.
func (e *Eraser) Erase(ctx context.Context, stream string, seq uint64) (erased bool, err error) {
	body, err := json.Marshal(messageQuery{Seq: seq})
	if err != nil {
		return false, err
	}
	var got struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := e.streams.call(ctx, streamAPI("MSG.DELETE", stream), body, &got); err != nil {
		return false, fmt.Errorf("erase message %d of stream %s: %w", seq, stream, unanswered(err))
	}
	if got.Error == nil {
		return true, nil
	}
	if _, gone := e.streams.getMessage(ctx, stream, messageQuery{Seq: seq}); isCode(gone, jetstream.JSErrCodeMessageNotFound) {
		return false, nil // the broker has no code of its own for it
	}
	return false, fmt.Errorf("erase message %d of stream %s: %w", seq, stream, got.Error)
}
