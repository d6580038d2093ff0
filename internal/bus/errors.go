package bus

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Errors of the package.
var (
	// ErrUnreachable means that the broker is not reachable or not ready. Retry later.
	ErrUnreachable = errors.New("NATS is not reachable")
	// ErrURL means that the broker's address is invalid. Retrying is pointless.
	ErrURL = errors.New("bad NATS URL")
	// ErrIdentity means that a credential or certificate file is unusable. The error names the file. Retrying is
	// pointless.
	ErrIdentity = errors.New("the identity for NATS is of no use")
	// ErrUntrusted means that the connection would not be encrypted, or that one side does not trust the other's
	// certificate. Nothing was sent.
	ErrUntrusted = errors.New("no trusted connection to NATS")
	// ErrDenied means that the broker's user lacks a permission. The error names it.
	ErrDenied = errors.New("NATS does not permit it")
	// ErrForeignStream means that the stream of alerts belongs to another database.
	ErrForeignStream = errors.New("another deployment has this stream")
	// ErrListen means that the embedded server can't listen on its address.
	ErrListen = errors.New("cannot listen")
	// ErrSubject means that a subject is not valid for publishing.
	ErrSubject = errors.New("bad subject")
	// ErrTooLarge means that a message exceeds the broker's size limit.
	ErrTooLarge = errors.New("the event is too large")
	// ErrHeader means that an event has a reserved header.
	ErrHeader = errors.New("bad header")
	// ErrNoStream means that no stream takes in a subject.
	ErrNoStream = errors.New("no stream takes in the subject")
	// ErrStreamReplaced means that a stream was deleted and recreated since it was opened.
	ErrStreamReplaced = errors.New("the stream was deleted and created again")
	// ErrNoLeader means that no copy of a stream is certain to have all messages at the moment.
	ErrNoLeader = errors.New("the stream has no leader")
	// ErrReaderLost means that reading was interrupted, and a new reader must continue from the last position.
	ErrReaderLost = errors.New("reading was interrupted")
)

// Error codes of JetStream's API without a name in its client.
const (
	codeNoPeers           jetstream.ErrorCode = 10005
	codeNotAvailable      jetstream.ErrorCode = 10008
	codeStorageExceeded   jetstream.ErrorCode = 10047
	codeMessageTooLarge   jetstream.ErrorCode = 10054
	codeReplicasNotServed jetstream.ErrorCode = 10074
	codeStoreFailed       jetstream.ErrorCode = 10077
)

// offline wraps the error of a request without a connection as ErrUnreachable.
func offline(err error) error {
	if errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("%w: the connection was lost: %w", ErrUnreachable, err)
	}
	return err
}

// unanswered wraps the error of a request without a connection or an answer as ErrUnreachable.
func unanswered(err error) error {
	if errors.Is(err, ErrUnreachable) {
		return err
	}
	if noAnswer(err) || errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w: no answer: %w", ErrUnreachable, err)
	}
	return offline(err)
}

// isCode reports whether err is a JetStream error with one of the codes.
func isCode(err error, codes ...jetstream.ErrorCode) bool {
	var js jetstream.JetStreamError
	if !errors.As(err, &js) || js.APIError() == nil {
		return false
	}
	for _, c := range codes {
		if js.APIError().ErrorCode == c {
			return true
		}
	}
	return false
}
