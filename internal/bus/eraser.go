package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Eraser deletes messages from deadman's own streams, and overwrites them in the files of the broker.
type Eraser struct{ conn *Conn }

// EraseSubject erases the last message on a subject of a stream, and reports whether there was one. The subject of an alert has
// one message.
func (e *Eraser) EraseSubject(ctx context.Context, stream, subject string) (erased bool, err error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	s, err := e.open(ctx, stream)
	if err != nil {
		return false, err
	}
	begun, about := time.Now(), streamAPI("MSG.GET", stream)
	msg, err := s.GetLastMsgForSubject(ctx, subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("erase from stream %s: %w", stream, unanswered(e.conn.denied.explain(err, begun, about)))
	}
	return e.erase(ctx, s, stream, msg.Sequence)
}

// Erase erases the message of a stream at a sequence, and reports whether there was one.
func (e *Eraser) Erase(ctx context.Context, stream string, seq uint64) (erased bool, err error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	s, err := e.open(ctx, stream)
	if err != nil {
		return false, err
	}
	return e.erase(ctx, s, stream, seq)
}

func (e *Eraser) open(ctx context.Context, stream string) (jetstream.Stream, error) {
	s, err := e.conn.js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("erase from stream %s: %w", stream, unanswered(err))
	}
	return s, nil
}

// erase overwrites a message. A message that another client deleted meanwhile is gone as well.
func (e *Eraser) erase(ctx context.Context, s jetstream.Stream, stream string, seq uint64) (erased bool, err error) {
	begun, about := time.Now(), streamAPI("MSG.DELETE", stream)
	ctx, done := e.conn.withConnection(ctx, about)
	defer done()
	err = s.SecureDeleteMsg(ctx, seq)
	if api := new(jetstream.APIError); errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeMessageNotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("erase message %d of stream %s: %w", seq, stream, unanswered(e.conn.denied.explain(noAnswerError(ctx, err), begun, about)))
	}
	return true, nil
}
