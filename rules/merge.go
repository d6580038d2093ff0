package rules

import (
	"iter"

	futurejobs "deadman/future_jobs"
)

// MergeByTime merges sequences of events by their times. It ends with the first error.
func MergeByTime(streams []iter.Seq2[futurejobs.Event, error]) iter.Seq2[futurejobs.Event, error] {
	return func(yield func(futurejobs.Event, error) bool) {
		type head struct {
			event futurejobs.Event
			err   error
			next  func() (futurejobs.Event, error, bool)
		}
		var heads []*head
		var stops []func()
		defer func() {
			for _, stop := range stops {
				stop()
			}
		}()
		for _, s := range streams {
			next, stop := iter.Pull2(s)
			stops = append(stops, stop)
			h := &head{next: next}
			var ok bool
			if h.event, h.err, ok = next(); ok {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i, h := range heads {
				if h.err != nil || heads[first].err == nil && h.event.At.Before(heads[first].event.At) {
					first = i
				}
			}
			h := heads[first]
			if !yield(h.event, h.err) || h.err != nil {
				return
			}
			var ok bool
			if h.event, h.err, ok = h.next(); !ok {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}
