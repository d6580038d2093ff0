package access

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"golang.org/x/time/rate"
)

// quotaSet holds the quotas at one time. It is immutable except for the counters of its meters.
type quotaSet struct {
	meters  map[string]*meter // by prefix
	lengths []int             // lengths of the prefixes, distinct, descending
	room    int64             // maximum size of the stream of alerts at the last change of all quotas
}

// meter returns the meter of a prefix, or nil.
func (s *quotaSet) meter(prefix string) *meter {
	if s == nil {
		return nil
	}
	return s.meters[prefix]
}

// of returns the meters of a rule: that of the longest matching prefix, and those of shorter prefixes with a limit
// that was set. Thus tenants below a prefix with only defaults do not share those.
func (s *quotaSet) of(what Limited, rule string) (all []*meter) {
	if s == nil {
		return nil
	}
	for _, n := range s.lengths {
		if n > len(rule) {
			continue
		}
		m := s.meters[rule[:n]]
		if m == nil {
			continue
		}
		if _, set := m.Set[what]; set || len(all) == 0 {
			all = append(all, m)
		}
	}
	return all
}

// newQuotaSet creates the meters of quotas. Existing prefixes keep their counts.
func newQuotaSet(quotas []Quota, room int64, before *quotaSet) *quotaSet {
	s := &quotaSet{meters: make(map[string]*meter, len(quotas)), room: room}
	for _, q := range quotas {
		s.meters[q.Prefix] = before.continued(q, room)
	}
	s.setLengths()
	return s
}

// replaced returns the set with new quotas for the prefixes that begin with a text. Meters of further prefixes stay.
func (s *quotaSet) replaced(within string, quotas []Quota, room int64) *quotaSet {
	changed := &quotaSet{meters: make(map[string]*meter), room: room}
	if s != nil {
		changed.room = s.room
		for prefix, m := range s.meters {
			if !strings.HasPrefix(prefix, within) {
				changed.meters[prefix] = m
			}
		}
	}
	for _, q := range quotas {
		changed.meters[q.Prefix] = s.continued(q, room)
	}
	changed.setLengths()
	return changed
}

// continued returns the meter of a quota: the meter of the set if neither the quota nor room has changed, otherwise a new
// meter with its counts.
func (s *quotaSet) continued(q Quota, room int64) *meter {
	known := s.meter(q.Prefix)
	same := known != nil && maps.Equal(known.Set, q.Set) && known.SetAt.Equal(q.SetAt)
	if same && s.room == room {
		return known
	}
	m := &meter{Quota: q, limits: make(map[Limited]int64, limits)}
	for _, l := range Limits {
		m.limits[l.Limited] = q.Most(l.Limited, room)
	}
	if same && maps.Equal(known.limits, m.limits) {
		return known
	}
	m.jobs = new(jobCount)
	m.events = rate.NewLimiter(rate.Limit(m.limits[LimitEvents]), int(2*m.limits[LimitEvents]))
	m.bytes = rate.NewLimiter(rate.Limit(m.limits[LimitEventBytes]), burstOf(m.limits[LimitEventBytes]))
	if known != nil {
		m.continueFrom(known)
	}
	return m
}

// setLengths sets the lengths to those of the meters' prefixes.
func (s *quotaSet) setLengths() {
	lengths := make(map[int]bool)
	for prefix := range s.meters {
		lengths[len(prefix)] = true
	}
	s.lengths = slices.Sorted(maps.Keys(lengths))
	slices.Reverse(s.lengths)
}

// within returns the meters of the prefixes that begin with a text.
func (s *quotaSet) within(text string) iter.Seq2[string, *meter] {
	return func(yield func(string, *meter) bool) {
		if s == nil {
			return
		}
		for prefix, m := range s.meters {
			if strings.HasPrefix(prefix, text) && !yield(prefix, m) {
				return
			}
		}
	}
}

// sum returns the sum of the numbers of the rules, by name, that count toward a meter.
func (s *quotaSet) sum(of *meter, what Limited, byRule map[string]int64) (sum int64) {
	for name, n := range byRule {
		if slices.Contains(s.of(what, name), of) {
			sum += n
		}
	}
	return sum
}
