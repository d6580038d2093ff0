package server

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"deadman/internal/bus"
)

// unfitness collects the reasons that this node should hold no shards. Each function returns a sentence without
// secrets, or an empty string.
type unfitness []func() (reason string)

// reason returns all reasons; empty: the node is fit.
func (u unfitness) reason() string {
	var all []string
	for _, part := range u {
		if reason := part(); reason != "" {
			all = append(all, reason)
		}
	}
	return strings.Join(all, "; ")
}

// brokerless detects that the broker has been unusable for longer than a lease. It is called by one goroutine.
type brokerless struct {
	err   func() error     // the current error of the broker; nil: usable
	now   func() time.Time // a monotonic clock
	bound time.Duration
	since time.Time // start of the failure; zero: usable
}

func (b *brokerless) reason() string {
	switch now := b.now(); {
	case b.err() == nil:
		b.since = time.Time{}
	case b.since.IsZero():
		b.since = now
	case now.Sub(b.since) >= b.bound:
		return fmt.Sprintf("the broker, or its JetStream, cannot be used for over %s", b.bound)
	}
	return ""
}

// newBrokerless returns a detector that reports the broker unusable after a lease.
func newBrokerless(b *bus.Bus, lease time.Duration) *brokerless {
	return &brokerless{err: func() error { return brokerErr(b) }, now: time.Now, bound: lease}
}

// brokerErr returns the reason that this node cannot use the broker: it is not connected, or the last query of the
// stream of alerts failed. A server may be reachable but not know the leader of the streams, have no JetStream, or
// deny permissions to the node's user.
func brokerErr(b *bus.Bus) error {
	_, err := b.AlertsStream.Usage()
	return errors.Join(natsErr(b.Conn), err)
}
