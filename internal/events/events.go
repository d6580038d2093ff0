// Package events ingests events: it reads streams, matches events against the rules, and applies the effects exactly
// once.
package events

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
)

// ErrGone means that the stream does not exist.
var ErrGone = errors.New("the stream is not there")

// Streams opens readers of streams. The bus implements it.
type Streams interface {
	// Read starts reading the messages of a stream on the subjects after a sequence, in order.
	Read(ctx context.Context, stream string, after uint64, subjects []string) (Reader, error)
	// Info returns the current state of the stream, or ErrGone.
	Info(ctx context.Context, stream string) (Info, error)
	// First returns the first message at or after a sequence; seq is 0 if none exists.
	First(ctx context.Context, stream string, from uint64) (seq uint64, at time.Time, err error)
	// Before returns the sequence before the first message received after the given time.
	Before(ctx context.Context, stream string, at time.Time) (uint64, error)
}

// Info describes a stream, and identifies it after a recreation.
type Info struct {
	CreatedAt time.Time
	FirstSeq  uint64    // of the first message that is or will be in the stream
	FirstAt   time.Time // time at which the stream received that message; zero: the stream is empty
	LastSeq   uint64
	LastAt    time.Time // time at which the stream received that message; zero: it never received one
	Deleted   uint64    // messages that the stream deleted between the first and the last one
	Risk      string    // reason that its settings may cause losses of single unread events; empty: none
}

// Lack describes the deleted events of a stream since a time; empty: it has deleted none, as far as is known. Deleted has those
// since the time. name is the name of the stream in the text.
func (i Info) Lack(name string, since time.Time) string {
	switch {
	case i.LastSeq == 0:
		return name + " is empty."
	case i.LastSeq < i.FirstSeq:
		return name + " is empty: it has deleted its events, and their jobs are missing."
	case !since.IsZero() && i.FirstSeq > 1 && i.FirstAt.After(since):
		return strings.TrimSpace(fmt.Sprintf("%s has deleted its events before %s; jobs of earlier events are missing. %s", name, i.FirstAt.UTC().Format(time.RFC3339), i.lackBetween("It")))
	}
	return i.lackBetween(name)
}

// lackBetween describes the deleted events between the first and the last one; empty: none.
func (i Info) lackBetween(name string) string {
	switch i.Deleted {
	case 0:
		return ""
	case 1:
		return name + " has deleted an event between others; jobs that it starts are missing, and jobs that it ends stay pending."
	}
	return fmt.Sprintf("%s has deleted %d events between others; jobs that they start are missing, and jobs that they end stay pending.", name, i.Deleted)
}

// Reader reads one stream in order. It is used by one goroutine.
type Reader interface {
	// Next returns the available events, up to limit, and blocks for up to wait for the first. It returns no events
	// and no error if none arrived. A call ended by ctx loses nothing: the next one continues after the last returned
	// event.
	Next(ctx context.Context, limit int, wait time.Duration) ([]futurejobs.Event, error)
	// End returns the stream's current last sequence. ok is false if it is uncertain, for example because the stream
	// may have another leader by now.
	End(ctx context.Context) (end uint64, ok bool, err error)
	// Drained reports whether the stream has no message on the subjects after seq up to end, a result of End.
	Drained(ctx context.Context, seq, end uint64) (bool, error)
	// Left returns the number of events on the subjects that followed the last returned one when it was sent, or more
	// if the broker can't filter.
	Left() uint64
	// Lost returns the losses of the stream up to the last returned event, and up to an end for which Drained was
	// true, without those returned by earlier calls. They were removed before being read, by a limit, a purge or a
	// deletion. After an error, the reader is unusable.
	Lost(ctx context.Context) (Loss, error)
	// Close stops reading.
	Close()
}

// Matcher matches events against the rules. rules.Catalog implements it.
type Matcher interface {
	// Match returns the effects of an event on the rules of its line, and the refusals of rules that could not process it.
	Match(e futurejobs.Event) ([]futurejobs.Effect, []futurejobs.Refusal)
	// ChargeRefused adds refusals that were found when the effects of a rule were applied to the cost of the rule.
	ChargeRefused(rule string, refusals int)
	// SubjectsByStream returns the subjects to read, by line of a stream; see futurejobs.TenantsLine.
	SubjectsByStream() map[string][]string
	// RulesReading returns the names of the rules that read a line.
	RulesReading(line string) []string
	// FinestGrids returns, by line, the finest grid of the rules that depend on it.
	FinestGrids() map[string]futurejobs.Grid
	Revision() int64
	// ChangedAt returns the revision of the last change of a line's rules.
	ChangedAt(line string) int64
	Refresh(ctx context.Context) error
}
