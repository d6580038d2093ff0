package events_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/events"
)

// slowStreams is a broker that receives an event right after each query of a stream's end, so the result does not
// include it.
type slowStreams struct {
	*bus.Streams
	w *fixture

	mu   sync.Mutex
	sent map[uint64]time.Time // by sequence
}

// Read implements events.Streams.
func (b *slowStreams) Read(ctx context.Context, stream string, after uint64, subjects []string) (events.Reader, error) {
	r, err := b.Streams.Read(ctx, stream, after, subjects)
	return slowReader{r, b}, err
}

type slowReader struct {
	events.Reader
	bus *slowStreams
}

// End implements events.Reader.
func (r slowReader) End(ctx context.Context) (end uint64, ok bool, err error) {
	end, ok, err = r.Reader.End(ctx)
	if err == nil {
		err = r.bus.send()
	}
	return end, ok, err
}

func (b *slowStreams) send() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	seq, err := b.w.send("order.created", fmt.Sprintf(`{"id":%d}`, len(b.sent)))
	if err != nil {
		return err
	}
	_, at, err := b.First(b.w.t.Context(), bus.EventsStream, seq)
	b.sent[seq] = at
	return err
}

// markRecorder is a database that observes the marks of a stream.
type markRecorder struct {
	futurejobs.EffectStore
	marked func(seq uint64, through time.Time)
}

// MarkRead implements futurejobs.EffectStore.
func (m markRecorder) MarkRead(ctx context.Context, stream string, seq uint64, through time.Time) error {
	m.marked(seq, through)
	return m.EffectStore.MarkRead(ctx, stream, seq, through)
}

// The time of a mark is read before the end of the stream: messages stored between the two are unread, and must be
// newer than the mark.
func TestReadMarkPrecedesMessagesAfterItsEnd(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.saveOrderRule("order")
	b := &slowStreams{Streams: w.bus.Streams, w: w, sent: make(map[uint64]time.Time)}
	marks := make(chan string, 100)
	w.startReading(b, markRecorder{w.store, func(seq uint64, through time.Time) {
		b.mu.Lock()
		defer b.mu.Unlock()
		wrong := ""
		for sent, at := range b.sent {
			if sent > seq && !at.After(through) {
				wrong = fmt.Sprintf("marked through %v at %d, but %d came at %v", through, seq, sent, at)
			}
		}
		select {
		case marks <- wrong:
		default: // enough marks were checked
		}
	}})
	for range 3 {
		select {
		case wrong := <-marks:
			if wrong != "" {
				t.Fatal(wrong)
			}
		case <-time.After(5 * time.Minute):
			t.Fatal("in five minutes the stream was not marked")
		}
	}
}
