package server

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// unfitness says why this node should hold no shards. Each part that can tell gives a reason, a sentence without
// secrets, or none.
type unfitness []func() (reason string)

// reason is all that speaks against the node; empty: nothing does.
func (u unfitness) reason() string {
	var all []string
	for _, part := range u {
		if reason := part(); reason != "" {
			all = append(all, reason)
		}
	}
	return strings.Join(all, "; ")
}

// brokerless finds that the broker cannot be used for longer than a lease. It is called by one goroutine.
type brokerless struct {
	err   func() error     // why the broker cannot be used at the moment; nil: it can
	now   func() time.Time // a monotonic clock
	bound time.Duration
	since time.Time // it cannot be used; zero: it can
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

// unfitness is that of the node.
func (n *node) unfitness() unfitness {
	all := unfitness{n.schema.Unfit, func() string { return n.sweeper.Unfit(n.Lease) }}
	if n.server == nil { // one in the process is another node's no more than the node's own jobs are
		broker := brokerless{err: n.brokerErr, now: time.Now, bound: n.Lease}
		all = append(all, broker.reason)
	}
	return all
}

// brokerErr is why this node cannot use the broker: it is not connected, or the last look at the stream of alerts failed. A
// server may be there and not know the leader of the streams, have no JetStream, or deny this node's user what it needs.
func (n *node) brokerErr() error {
	_, err := n.bus.AlertsStreamUsage()
	return errors.Join(n.natsErr(), err)
}
