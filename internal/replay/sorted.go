package replay

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"time"
)

// Sorted reads the events of another reader in order of time, as long as none comes later than a bound after an event that is
// younger. Events of the same time keep their order.
type Sorted struct {
	from   Reader
	bound  time.Duration
	latest time.Time // of all events read
	ended  bool
	read   int64

	inOrder aheadQueue // each is at least as old as the one after it
	late    aheadHeap  // the others
}

// NewSorted returns a reader that sorts within a bound.
func NewSorted(from Reader, bound time.Duration) *Sorted { return &Sorted{from: from, bound: bound} }

// Next implements Reader. An event beyond the bound is ErrOrder.
func (s *Sorted) Next() (Event, Place, error) {
	for !s.ended {
		if first := s.first(); first != nil && s.latest.Sub(first.Time) > s.bound {
			break
		}
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
			s.put(e, place)
		}
	}
	first := s.first()
	if first == nil {
		return Event{}, Place{}, io.EOF
	}
	e, place := first.Event, first.place
	if len(s.late) > 0 && first == &s.late[0] {
		heap.Pop(&s.late)
	} else {
		s.inOrder.pop()
	}
	return e, place, nil
}

// put stores an event that was read ahead.
func (s *Sorted) put(e Event, place Place) {
	s.read++
	if ahead := (aheadEvent{e, place, s.read}); e.Time.Before(s.latest) {
		heap.Push(&s.late, ahead)
	} else {
		s.latest = e.Time
		s.inOrder.push(ahead)
	}
}

// first returns the first of the events that were read ahead; nil: no event was.
func (s *Sorted) first() *aheadEvent {
	first := s.inOrder.first()
	if len(s.late) > 0 && (first == nil || s.late[0].precedes(first)) {
		first = &s.late[0]
	}
	return first
}

// aheadEvent is an event that was read ahead.
type aheadEvent struct {
	Event
	place Place
	order int64 // in the input
}

func (e *aheadEvent) precedes(other *aheadEvent) bool {
	if c := e.Time.Compare(other.Time); c != 0 {
		return c < 0
	}
	return e.order < other.order
}

// aheadQueue has events in order of time. Most inputs are sorted, so that an event costs less than in a heap.
type aheadQueue struct {
	events []aheadEvent
	head   int
}

func (q *aheadQueue) first() *aheadEvent {
	if q.head == len(q.events) {
		return nil
	}
	return &q.events[q.head]
}

// push appends an event, in the room of removed events once these are half of the queue.
func (q *aheadQueue) push(e aheadEvent) {
	if len(q.events) == cap(q.events) && q.head >= (len(q.events)+1)/2 {
		rest := copy(q.events, q.events[q.head:])
		clear(q.events[rest:])
		q.events, q.head = q.events[:rest], 0
	}
	q.events = append(q.events, e)
}

func (q *aheadQueue) pop() {
	q.events[q.head] = aheadEvent{}
	q.head++
}

// aheadHeap has events, the oldest first.
type aheadHeap []aheadEvent

// Len implements sort.Interface.
func (h aheadHeap) Len() int { return len(h) }

// Less implements sort.Interface.
func (h aheadHeap) Less(i, j int) bool { return h[i].precedes(&h[j]) }

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
