package events

import (
	"cmp"
	"slices"
	"time"
)

// Span is a range of sequences of a stream, inclusive.
type Span struct{ First, Last uint64 }

// Loss describes messages lost by a stream before they were read.
type Loss struct {
	Gone   []Span    // ordered and disjoint
	AtMost bool      // the stream has other subjects, so lost messages may be irrelevant
	Until  time.Time // time at which the stream received the message after the last gap; zero: unknown
}

// Count returns the number of sequences in the spans.
func Count(spans []Span) (n uint64) {
	for _, s := range spans {
		n += s.Last - s.First + 1
	}
	return n
}

// Without returns the sequences of spans that are not in others. Both must be ordered.
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

// Union returns the sequences of both, ordered. It merges adjacent spans.
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
