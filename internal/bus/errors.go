package bus

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What callers can tell apart.
var (
	// ErrUnreachable means that the broker is not there, or not ready, yet. Try again.
	ErrUnreachable = errors.New("NATS is not reachable")
	// ErrURL means that the address of the broker is none. Trying again is of no use.
	ErrURL = errors.New("bad NATS URL")
	// ErrIdentity means that a file by which deadman proves who it is, or knows the broker, is of
	// no use. The error names the file. Trying again is of no use.
	ErrIdentity = errors.New("the identity for NATS is of no use")
	// ErrUntrusted means that the connection would not be encrypted, or not to somebody trusted,
	// or that the broker does not trust this client. Nothing was sent.
	ErrUntrusted = errors.New("no trusted connection to NATS")
	// ErrDenied means that the broker's user lacks a permission. The error names it.
	ErrDenied = errors.New("NATS does not permit it")
	// ErrListen means that the embedded server cannot listen where it was told to.
	ErrListen = errors.New("cannot listen")
	// ErrSubject means that nothing can be published on a subject.
	ErrSubject = errors.New("bad subject")
	// ErrTooLarge means that the broker does not take messages of that size.
	ErrTooLarge = errors.New("the event is too large")
	// ErrHeader means that an event may not have a header.
	ErrHeader = errors.New("bad header")
	// ErrNoStream means that no stream takes in a subject.
	ErrNoStream = errors.New("no stream takes in the subject")
	// ErrStreamReplaced means that a stream is no longer the one that was opened.
	ErrStreamReplaced = errors.New("the stream was deleted and created again")
	// ErrNoLeader means that no copy of a stream certainly has everything at the moment.
	ErrNoLeader = errors.New("the stream has no leader")
	// ErrReaderLost means that a reader has to be opened anew where it stood.
	ErrReaderLost = errors.New("reading was interrupted")
)

// The codes of JetStream's API that are told apart and have no name in its client.
const (
	codeNoPeers           jetstream.ErrorCode = 10005
	codeNotAvailable      jetstream.ErrorCode = 10008
	codeStorageExceeded   jetstream.ErrorCode = 10047
	codeMessageTooLarge   jetstream.ErrorCode = 10054
	codeReplicasNotServed jetstream.ErrorCode = 10074
	codeStoreFailed       jetstream.ErrorCode = 10077
)

// offline makes ErrUnreachable of a request that found no connection.
func offline(err error) error {
	if errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("%w: the connection was lost: %w", ErrUnreachable, err)
	}
	return err
}

// unanswered makes ErrUnreachable of a request that found no connection, or nobody who answers.
func unanswered(err error) error {
	if errors.Is(err, ErrUnreachable) {
		return err
	}
	if noAnswer(err) || errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w: no answer: %w", ErrUnreachable, err)
	}
	return offline(err)
}

// isCode reports whether err is JetStream's answer with one of the codes.
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
