package replay

import (
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
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
