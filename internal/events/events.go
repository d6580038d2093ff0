// Package events takes in what happened: it reads streams, asks the rules what an event
// means, and applies it, exactly once.
package events

import (
	"context"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
)

// ErrGone means that there is no stream of a name.
var ErrGone = errors.New("the stream is not there")

// Streams opens readers on streams. The bus implements it.
type Streams interface {
	// Read starts reading a stream's messages on the subjects after seq, in order.
	Read(ctx context.Context, stream string, after uint64, subjects []string) (Reader, error)
	// Info says what the stream is at the moment, or returns ErrGone.
	Info(ctx context.Context, stream string) (Info, error)
	// First returns the first message at or after a sequence; seq is 0 where there is none.
	First(ctx context.Context, stream string, from uint64) (seq uint64, at time.Time, err error)
	// Before returns the sequence before the first message that came in after at.
	Before(ctx context.Context, stream string, at time.Time) (uint64, error)
}

// Info is what tells a stream from one that was put in its place.
type Info struct {
	CreatedAt time.Time
	FirstSeq  uint64    // of the first message that it still has, or will have
	FirstAt   time.Time // when the stream took that one in; zero: it has none
	LastSeq   uint64
	LastAt    time.Time // when the stream took that one in; zero: it never took anything in
	Risk      string    // why its settings may have it lose single events before they are read; empty: they do not
}

// Reader reads one stream in order. It is used by one goroutine.
type Reader interface {
	// Next returns what has arrived, up to limit events, and waits up to wait for the
	// first. No events and no error: nothing came. A call that ctx ends has lost nothing:
	// the next one goes on where the last event was returned.
	Next(ctx context.Context, limit int, wait time.Duration) ([]futurejobs.Event, error)
	// End returns the stream's last sequence at the time of the call. ok is false when that
	// is not certain, as when the stream may have another leader by now.
	End(ctx context.Context) (end uint64, ok bool, err error)
	// Drained reports whether the stream holds no message on the subjects after seq and up
	// to end. It is asked with what End returned.
	Drained(ctx context.Context, seq, end uint64) (bool, error)
	// Left returns how many events on the subjects followed the last one that was returned, when
	// that was sent, or more where the broker cannot filter.
	Left() uint64
	// Lost returns what the stream lost up to the last event that was returned, and up to an end
	// for which Drained was true, as far as earlier calls have not told it. A limit, a purge or a
	// deletion took it away before it was read. After an error, the reader is of no more use.
	Lost(ctx context.Context) (Loss, error)
	// Close ends reading.
	Close()
}

// Book says what an event means. rules.Catalog implements it.
type Book interface {
	// Match returns what the rules ask for because of e, and the rules that could not
	// take it in.
	Match(e futurejobs.Event) ([]futurejobs.Effect, []futurejobs.Refusal)
	// SubjectsByStream returns the subjects to read, by stream.
	SubjectsByStream() map[string][]string
	// RulesReading returns the names of the rules that read a stream.
	RulesReading(stream string) []string
	// FinestGrids returns the finest grid of the rules that wait for a stream, by stream.
	FinestGrids() map[string]futurejobs.Grid
	Revision() int64
	// ChangedAt is the revision of the last change of the rules that a stream is read for.
	ChangedAt(stream string) int64
	Refresh(ctx context.Context) error
}
