package faults_test

import (
	"context"
	"errors"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
)

// memoryStreamName is the single stream of a stream.
const memoryStreamName = "DEVICES"

// memoryStream is a broker in virtual time, with one stream.
type memoryStream struct {
	mu      sync.Mutex
	created time.Time
	events  []futurejobs.Event
	dry     bool      // rejects publishes and reads
	since   time.Time // end of the last dry period
	came    chan struct{}
}

var errUnavailable = errors.New("the broker is unavailable")

func newMemoryStream() *memoryStream {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return &memoryStream{created: now, since: now, came: make(chan struct{}, 1)}
}

// publish stores an event, unless the stream is dry.
func (b *memoryStream) publish(subject string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dry {
		return
	}
	b.events = append(b.events, futurejobs.Event{
		Stream: memoryStreamName, Subject: subject, Seq: uint64(len(b.events) + 1), At: time.Now().UTC().Truncate(time.Microsecond), Data: data, StreamCreatedAt: b.created,
	})
	select {
	case b.came <- struct{}{}:
	default:
	}
}

func (b *memoryStream) setUnavailable(dry bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dry = dry; !dry {
		b.since = time.Now()
	}
}

// uptime returns how long the stream has accepted events.
func (b *memoryStream) uptime() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dry {
		return 0
	}
	return time.Since(b.since)
}

// after returns the events after a sequence.
func (b *memoryStream) after(seq uint64, limit int) ([]futurejobs.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dry {
		return nil, errUnavailable
	}
	left := b.events[min(int(seq), len(b.events)):]
	return left[:min(limit, len(left))], nil
}

// Read implements events.Streams.
func (b *memoryStream) Read(_ context.Context, _ string, after uint64, _ []string) (events.Reader, error) {
	_, err := b.after(after, 0)
	return &memoryReader{memoryStream: b, seq: after}, err
}

// Info implements events.Streams.
func (b *memoryStream) Info(context.Context, string) (events.Info, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dry {
		return events.Info{}, errUnavailable
	}
	info := events.Info{CreatedAt: b.created, FirstSeq: 1, LastSeq: uint64(len(b.events))}
	if n := len(b.events); n > 0 {
		info.FirstAt, info.LastAt = b.events[0].At, b.events[n-1].At
	}
	return info, nil
}

// First implements events.Streams.
func (b *memoryStream) First(_ context.Context, _ string, from uint64) (seq uint64, at time.Time, err error) {
	found, err := b.after(max(from, 1)-1, 1)
	if err != nil || len(found) == 0 {
		return 0, at, err
	}
	return found[0].Seq, found[0].At, nil
}

// Before implements events.Streams. It is not called, because the stream is never recreated.
func (b *memoryStream) Before(context.Context, string, time.Time) (uint64, error) {
	return 0, errors.New("the stream was recreated")
}

// memoryReader reads all events of a stream.
type memoryReader struct {
	*memoryStream
	seq uint64
}

// Next implements events.Reader.
func (r *memoryReader) Next(ctx context.Context, limit int, wait time.Duration) ([]futurejobs.Event, error) {
	found, err := r.after(r.seq, limit)
	if err == nil && len(found) == 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-r.came:
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		found, err = r.after(r.seq, limit)
	}
	r.seq += uint64(len(found))
	return found, err
}

// End implements events.Reader.
func (r *memoryReader) End(ctx context.Context) (end uint64, ok bool, err error) {
	info, err := r.Info(ctx, memoryStreamName)
	return info.LastSeq, err == nil, err
}

// Drained implements events.Reader.
func (r *memoryReader) Drained(_ context.Context, seq, end uint64) (bool, error) {
	_, err := r.after(seq, 0)
	return seq >= end, err
}

// Left implements events.Reader.
func (r *memoryReader) Left() uint64 {
	left, err := r.after(r.seq, 1)
	if err != nil {
		return 1
	}
	return uint64(len(left))
}

// Lost implements events.Reader.
func (r *memoryReader) Lost(context.Context) (events.Loss, error) { return events.Loss{}, nil }

// Close implements events.Reader.
func (r *memoryReader) Close() {}
