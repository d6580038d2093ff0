package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Status codes of a pull. Status messages have no reply subject.
const (
	statusHeader      = "Status"
	descriptionHeader = "Description"

	statusHeartbeat    = "100"
	statusNothing      = "404"
	statusExpired      = "408"
	statusConflict     = "409"
	statusNoResponders = "503"
)

// pull is one request for messages of a consumer, with its result.
//
// It replaces the client's Consumer.Fetch, because that takes a message without a body for a status if it has a
// Status header. The sender of one such message would block all readers of the stream. Here a message of the stream
// is recognized by its reply subject, set by the broker alone.
type pull struct {
	messages chan *nats.Msg // closed at the end
	err      error          // error that ended it; set before messages is closed
	unread   atomic.Uint64  // messages that the broker has for the consumer, as known since the last one arrived
	stop     context.CancelFunc

	info     func(context.Context) (*jetstream.ConsumerInfo, error)
	received uint64 // consumer sequence of the last message that arrived
}

// startPull requests up to pullMessages messages and mostBytes, until ctx ends. All messages of the consumer up to the
// sequence after have arrived.
func startPull(ctx context.Context, nc *nats.Conn, stream string, consumer jetstream.Consumer, after uint64, mostBytes int) (*pull, error) {
	body, err := json.Marshal(struct {
		Batch     int           `json:"batch"`
		MaxBytes  int           `json:"max_bytes"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{pullMessages, mostBytes, pullExpiry, pullHeartbeat})
	if err != nil {
		return nil, err
	}
	arrived := make(chan *nats.Msg, 2*pullMessages)
	sub, err := nc.ChanSubscribe(nc.NewInbox(), arrived)
	if err != nil {
		return nil, err
	}
	if err := nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+consumer.CachedInfo().Name, sub.Subject, body); err != nil {
		return nil, errors.Join(err, sub.Unsubscribe())
	}
	p := &pull{messages: make(chan *nats.Msg, pullMessages), info: consumer.Info, received: after}
	ctx, p.stop = context.WithCancel(ctx)
	go func() {
		defer close(p.messages)
		p.err = p.run(ctx, arrived, mostBytes)
		_ = sub.Unsubscribe() // fails only without a connection
	}()
	return p, nil
}

// run forwards messages until the request is complete. A nil error means that the next request may follow.
func (p *pull) run(ctx context.Context, arrived <-chan *nats.Msg, mostBytes int) error {
	silence := time.NewTimer(2 * pullHeartbeat)
	defer silence.Stop()
	arrival, doubted := time.Now(), false
	messages, bytes := 0, 0
	for messages < pullMessages && bytes < mostBytes {
		select {
		case m := <-arrived:
			silence.Reset(2 * pullHeartbeat)
			arrival, doubted = time.Now(), false
			if m.Reply == "" {
				if over, err := ended(m); over {
					return err
				}
				continue
			}
			p.unread.Store(0)
			p.messages <- m
			p.received, messages, bytes = p.received+1, messages+1, bytes+m.Size()
		case <-silence.C:
			if time.Since(arrival) > pullExpiry {
				return jetstream.ErrNoHeartbeat
			}
			served, err := p.isServed(ctx)
			if err == nil && !served && doubted {
				err = errors.New("the broker does not have the request")
			}
			if err != nil {
				return fmt.Errorf("%w: %w", jetstream.ErrNoHeartbeat, err)
			}
			doubted = !served // a request may be on its way longer than the query
			silence.Reset(2 * pullHeartbeat)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// isServed asks the broker whether the request will still be answered. Missing heartbeats do not show that it will not:
// a broker sends them after it has stored the messages that it received, so they are late under many publishers. A new
// consumer would make it deliver the same messages again and delay it further.
func (p *pull) isServed(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	info, err := p.info(ctx)
	if err != nil {
		return false, err
	}
	sent := info.Delivered.Consumer - min(info.Delivered.Consumer, p.received)
	p.unread.Store(sent + info.NumPending)
	return sent > 0 || info.NumWaiting > 0, nil
}

// ended reports whether a status ends a pull, with its error.
func ended(status *nats.Msg) (over bool, err error) {
	code, words := status.Header.Get(statusHeader), status.Header.Get(descriptionHeader)
	switch code {
	case statusHeartbeat:
		return false, nil
	case statusNothing, statusExpired:
		return true, nil
	case statusNoResponders:
		return true, nats.ErrNoResponders
	case statusConflict:
		if full := strings.ToLower(words); strings.Contains(full, "message size exceeds maxbytes") || strings.Contains(full, "batch completed") {
			return true, nil
		}
	}
	return true, fmt.Errorf("the broker ends the request for messages: %s %s", code, words)
}
