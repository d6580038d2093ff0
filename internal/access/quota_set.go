package access

import (
	"maps"
	"slices"

	"golang.org/x/time/rate"
)

// quotaSet holds the quotas at one time. It is immutable except for the counters of its meters.
type quotaSet struct {
	meters  map[string]*meter // by prefix
	lengths []int             // lengths of the prefixes, distinct, descending
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
	s := &quotaSet{meters: make(map[string]*meter, len(quotas))}
	for _, q := range quotas {
		m := &meter{Quota: q, limits: make(map[Limited]int64, limits)}
		for _, l := range Limits {
			m.limits[l.Limited] = q.Most(l.Limited, room)
		}
		if known := before.meter(q.Prefix); known != nil && maps.Equal(known.limits, m.limits) && maps.Equal(known.Set, q.Set) && known.SetAt.Equal(q.SetAt) {
			m = known
		} else {
			m.jobs = new(jobCount)
			m.events = rate.NewLimiter(rate.Limit(m.limits[LimitEvents]), int(2*m.limits[LimitEvents]))
			m.bytes = rate.NewLimiter(rate.Limit(m.limits[LimitEventBytes]), burstOf(m.limits[LimitEventBytes]))
			if known != nil {
				m.continueFrom(known)
			}
		}
		s.meters[q.Prefix] = m
		s.lengths = append(s.lengths, len(q.Prefix))
	}
	slices.Sort(s.lengths)
	s.lengths = slices.Compact(s.lengths)
	slices.Reverse(s.lengths)
	return s
}
