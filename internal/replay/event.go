package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// Event is a past event. Its time is the time at which a stream would have stored it.
type Event struct {
	Subject string          `json:"subject"`
	Time    time.Time       `json:"time"`
	Data    json.RawMessage `json:"data"`

	Header map[string][]string `json:"-"` // of a message; nil: none
	Seq    uint64              `json:"-"` // in the stream; 0: the place in the input
}

// Reader reads events.
type Reader interface {
	// Next returns the next event and its place in the input; io.EOF after the last one.
	Next() (Event, Place, error)
}

// Place is the place of an event in the input. Only an error makes a text of the place.
type Place struct {
	line   int    // of a file; 0: the event is a message
	seq    uint64 // of a message
	stream string // of the message, if there are several
}

// Line returns the place of a line of a file, from 1.
func Line(line int) Place { return Place{line: line} }

// String returns the place as a text, such as line 7.
func (p Place) String() string {
	switch {
	case p.line > 0:
		return fmt.Sprintf("line %d", p.line)
	case p.stream != "":
		return fmt.Sprintf("message %d of %s", p.seq, p.stream)
	}
	return fmt.Sprintf("message %d", p.seq)
}

// Stream reads the events that streams store.
type Stream struct {
	next    func() (futurejobs.Event, error, bool)
	several bool // streams: the sequences of one say nothing about another

	// Close ends the reading.
	Close func()
}

// NewStream returns a reader of the events of streams, merged by time. The caller closes it.
func NewStream(stored ...iter.Seq2[futurejobs.Event, error]) *Stream {
	s := &Stream{several: len(stored) > 1}
	s.next, s.Close = iter.Pull2(rules.MergeByTime(stored))
	return s
}

// Next implements Reader.
func (s *Stream) Next() (Event, Place, error) {
	e, err, ok := s.next()
	switch {
	case !ok:
		return Event{}, Place{}, io.EOF
	case err != nil:
		return Event{}, Place{}, err
	}
	place := Place{seq: e.Seq}
	if s.several {
		place.stream, e.Seq = e.Stream, 0
	}
	return Event{Subject: e.Subject, Time: e.At, Data: e.Data, Header: e.Header, Seq: e.Seq}, place, nil
}
