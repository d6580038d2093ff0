package events

import (
	"cmp"
	"slices"
	"time"
)

// Span is a run of sequences of a stream, both ends included.
type Span struct{ First, Last uint64 }

// Loss is what a stream lost before it was read.
type Loss struct {
	Gone   []Span    // in order, and apart from each other
	AtMost bool      // the stream has other subjects too, and a lost message may have been on those
	Until  time.Time // when the stream took in the message that followed the last gap; zero: not known
}

// Count returns how many sequences the spans have.
func Count(spans []Span) (n uint64) {
	for _, s := range spans {
		n += s.Last - s.First + 1
	}
	return n
}

// Without returns the sequences of spans that are not in others. Both are in order.
func Without(spans, others []Span) (left []Span) {
	for _, s := range spans {
		for len(others) > 0 && others[0].Last < s.First {
			others = others[1:]
		}
		for _, o := range others {
			if o.First > s.Last {
				break
			}
			if o.First > s.First {
				left = append(left, Span{First: s.First, Last: o.First - 1})
			}
			s.First = o.Last + 1
		}
		if s.First <= s.Last {
			left = append(left, s)
		}
	}
	return left
}

// Union returns the sequences of both, in order. Spans that touch become one.
func Union(a, b []Span) (all []Span) {
	both := slices.Concat(a, b)
	slices.SortFunc(both, func(a, b Span) int { return cmp.Compare(a.First, b.First) })
	for _, s := range both {
		if n := len(all); n > 0 && s.First <= all[n-1].Last+1 {
			all[n-1].Last = max(all[n-1].Last, s.Last)
		} else {
			all = append(all, s)
		}
	}
	return all
}
