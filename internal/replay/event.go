package replay

import (
	"container/heap"
	"encoding/json"
	"errors"
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
	// Next returns the next event and its place in the input, such as line 7; io.EOF after the last one.
	Next() (e Event, place string, err error)
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
func (s *Stream) Next() (Event, string, error) {
	e, err, ok := s.next()
	switch {
	case !ok:
		return Event{}, "", io.EOF
	case err != nil:
		return Event{}, "", err
	}
	place := fmt.Sprintf("message %d", e.Seq)
	if s.several {
		place, e.Seq = place+" of "+e.Stream, 0
	}
	return Event{Subject: e.Subject, Time: e.At, Data: e.Data, Header: e.Header, Seq: e.Seq}, place, nil
}

// Sorted reads the events of another reader in order of time, as long as none comes later than a bound after an event that is
// younger. Events of the same time keep their order.
type Sorted struct {
	from   Reader
	bound  time.Duration
	latest time.Time // of all events read
	ahead  aheadHeap
	read   int64
	ended  bool
}

// NewSorted returns a reader that sorts within a bound.
func NewSorted(from Reader, bound time.Duration) *Sorted { return &Sorted{from: from, bound: bound} }

// Next implements Reader. An event beyond the bound is ErrOrder.
func (s *Sorted) Next() (Event, string, error) {
	for !s.ended && (len(s.ahead) == 0 || s.latest.Sub(s.ahead[0].Time) <= s.bound) {
		e, place, err := s.from.Next()
		switch {
		case errors.Is(err, io.EOF):
			s.ended = true
		case err != nil:
			return e, place, err
		case s.latest.Sub(e.Time) > s.bound:
			return e, place, fmt.Errorf("%s: %w: the event of %s is more than %s older than the one of %s before it; sort the input, or raise --max-disorder",
				place, ErrOrder, e.Time.Format(time.RFC3339), s.bound, s.latest.Format(time.RFC3339))
		default:
			if e.Time.After(s.latest) {
				s.latest = e.Time
			}
			s.read++
			heap.Push(&s.ahead, aheadEvent{e, place, s.read})
		}
	}
	if len(s.ahead) == 0 {
		return Event{}, "", io.EOF
	}
	first := heap.Pop(&s.ahead).(aheadEvent) //nolint:forcetypeassert // the heap has no other type
	return first.Event, first.place, nil
}

// aheadEvent is an event that was read ahead.
type aheadEvent struct {
	Event
	place string
	order int64 // in the input
}

// aheadHeap has events, the oldest first.
type aheadHeap []aheadEvent

// Len implements sort.Interface.
func (h aheadHeap) Len() int { return len(h) }

// Less implements sort.Interface.
func (h aheadHeap) Less(i, j int) bool {
	if c := h[i].Time.Compare(h[j].Time); c != 0 {
		return c < 0
	}
	return h[i].order < h[j].order
}

// Swap implements sort.Interface.
func (h aheadHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *aheadHeap) Push(x any) { *h = append(*h, x.(aheadEvent)) } //nolint:forcetypeassert // only Sorted pushes

// Pop implements heap.Interface.
func (h *aheadHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = aheadEvent{}
	*h = (*h)[:last]
	return e
}
