package faults_test

import (
	"context"
	"errors"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
)

// brookName is the single stream of a brook.
const brookName = "DEVICES"

// brook is a broker in virtual time, with one stream.
type brook struct {
	mu      sync.Mutex
	created time.Time
	events  []futurejobs.Event
	dry     bool      // rejects publishes and reads
	since   time.Time // end of the last dry period
	came    chan struct{}
}

var errDry = errors.New("the broker is unavailable")

func newBrook() *brook {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return &brook{created: now, since: now, came: make(chan struct{}, 1)}
}

// put stores an event, unless the brook is dry.
func (b *brook) put(subject string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dry {
		return
	}
	b.events = append(b.events, futurejobs.Event{
		Stream: brookName, Subject: subject, Seq: uint64(len(b.events) + 1), At: time.Now().UTC().Truncate(time.Microsecond), Data: data, StreamCreatedAt: b.created,
	})
	select {
	case b.came <- struct{}{}:
	default:
	}
}

func (b *brook) setDry(dry bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dry = dry; !dry {
		b.since = time.Now()
	}
}

// up returns how long the brook has accepted events.
func (b *brook) up() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dry {
		return 0
	}
	return time.Since(b.since)
}

// after returns the events after a sequence.
func (b *brook) after(seq uint64, limit int) ([]futurejobs.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dry {
		return nil, errDry
	}
	left := b.events[min(int(seq), len(b.events)):]
	return left[:min(limit, len(left))], nil
}

// Read implements events.Streams.
func (b *brook) Read(_ context.Context, _ string, after uint64, _ []string) (events.Reader, error) {
	_, err := b.after(after, 0)
	return &brookReader{brook: b, seq: after}, err
}

// Info implements events.Streams.
func (b *brook) Info(context.Context, string) (events.Info, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dry {
		return events.Info{}, errDry
	}
	info := events.Info{CreatedAt: b.created, FirstSeq: 1, LastSeq: uint64(len(b.events))}
	if n := len(b.events); n > 0 {
		info.FirstAt, info.LastAt = b.events[0].At, b.events[n-1].At
	}
	return info, nil
}

// First implements events.Streams.
func (b *brook) First(_ context.Context, _ string, from uint64) (seq uint64, at time.Time, err error) {
	found, err := b.after(max(from, 1)-1, 1)
	if err != nil || len(found) == 0 {
		return 0, at, err
	}
	return found[0].Seq, found[0].At, nil
}

// Before implements events.Streams. It is not called, because the stream is never recreated.
func (b *brook) Before(context.Context, string, time.Time) (uint64, error) {
	return 0, errors.New("the stream was recreated")
}

// brookReader reads all events of a brook.
type brookReader struct {
	*brook
	seq uint64
}

// Next implements events.Reader.
func (r *brookReader) Next(ctx context.Context, limit int, wait time.Duration) ([]futurejobs.Event, error) {
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
func (r *brookReader) End(ctx context.Context) (end uint64, ok bool, err error) {
	info, err := r.Info(ctx, brookName)
	return info.LastSeq, err == nil, err
}

// Drained implements events.Reader.
func (r *brookReader) Drained(_ context.Context, seq, end uint64) (bool, error) {
	_, err := r.after(seq, 0)
	return seq >= end, err
}

// Left implements events.Reader.
func (r *brookReader) Left() uint64 {
	left, err := r.after(r.seq, 1)
	if err != nil {
		return 1
	}
	return uint64(len(left))
}

// Lost implements events.Reader.
func (r *brookReader) Lost(context.Context) (events.Loss, error) { return events.Loss{}, nil }

// Close implements events.Reader.
func (r *brookReader) Close() {}
