package bus

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestSilentPull checks which silent requests end, and after what time: those of which the broker knows nothing, and
// those without any message for pullExpiry.
func TestSilentPull(t *testing.T) {
	const before = 10 // messages of earlier requests
	for name, test := range map[string]struct {
		sent    uint64 // messages of this request that the broker has sent
		waiting int
		err     error
		ends    time.Duration
		unread  uint64
	}{
		"messages are on their way":  {sent: 5, ends: pullExpiry, unread: 12},
		"the request waits":          {waiting: 1, ends: pullExpiry, unread: 7},
		"the broker has no request":  {ends: 4 * pullHeartbeat, unread: 7},
		"the broker has no consumer": {err: jetstream.ErrConsumerNotFound, ends: 2 * pullHeartbeat},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pull{messages: make(chan *nats.Msg, pullMessages), received: before}
				p.info = func(context.Context) (*jetstream.ConsumerInfo, error) {
					return &jetstream.ConsumerInfo{
						Delivered: jetstream.SequenceInfo{Consumer: before + test.sent}, NumWaiting: test.waiting, NumPending: 7,
					}, test.err
				}
				begun := time.Now()
				err := p.run(t.Context(), make(chan *nats.Msg), pullBytes)
				if !errors.Is(err, jetstream.ErrNoHeartbeat) || !errors.Is(err, test.err) && test.err != nil {
					t.Errorf("it ended with %v", err)
				}
				if after := time.Since(begun); after < test.ends || after > test.ends+2*pullHeartbeat {
					t.Errorf("it ended after %v, want %v", after, test.ends)
				}
				if got := p.unread.Load(); got != test.unread {
					t.Errorf("%d messages are unread, want %d", got, test.unread)
				}
			})
		})
	}
}

// TestLateAnswersOfPull checks that a request continues after silences that are longer than two heartbeats, and counts
// the messages that are still unread.
func TestLateAnswersOfPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pull{messages: make(chan *nats.Msg, pullMessages)}
		var sent atomic.Uint64
		p.info = func(context.Context) (*jetstream.ConsumerInfo, error) {
			return &jetstream.ConsumerInfo{Delivered: jetstream.SequenceInfo{Consumer: sent.Load()}}, nil
		}
		arrived := make(chan *nats.Msg)
		ended := make(chan error, 1)
		go func() { ended <- p.run(t.Context(), arrived, pullBytes) }()
		for range 5 {
			sent.Add(1)
			time.Sleep(pullExpiry / 2)
			if got := p.unread.Load(); got != 1 {
				t.Errorf("%d messages are unread, want 1", got)
			}
			arrived <- &nats.Msg{Reply: "$JS.ACK", Data: []byte("{}")}
			synctest.Wait()
			if got := p.unread.Load(); got != 0 {
				t.Errorf("%d messages are unread after the last one arrived", got)
			}
		}
		if len(p.messages) != 5 {
			t.Errorf("%d messages arrived, want 5", len(p.messages))
		}
		select {
		case err := <-ended:
			t.Errorf("it ended with %v", err)
		default:
		}
	})
}

// TestKnownTicksAreBounded checks that the ticks of all subjects are forgotten beyond maxKnownTicks.
func TestKnownTicksAreBounded(t *testing.T) {
	var known tickIndex
	first := known.on("imports.due")
	known.count(maxKnownTicks)
	if known.on("imports.due") != first {
		t.Error("the ticks are forgotten too early")
	}
	known.count(1)
	if known.on("imports.due") == first {
		t.Error("the ticks are not forgotten")
	}
}
