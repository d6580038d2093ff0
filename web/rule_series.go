package web

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"deadman/alerts"
)

// minRules is the number of rules whose counters are kept without asking whether the rules exist.
const minRules = 1024

// series is one counter of a rule: the one of a vector with a value of its second label.
type series struct {
	of    *prometheus.CounterVec
	label string
}

// ruleSeries has the counters of rules. It removes those of deleted rules whenever the number of rules with counters has
// doubled, so that the names of deleted rules take no memory for good. It is safe for concurrent use.
type ruleSeries struct {
	mu     sync.RWMutex
	exists func(rule string) bool // nil: all rules are kept
	rules  map[string]map[series]struct{}
	most   int // rules before the next removal; 0: minRules
}

// counter returns a counter of a rule.
func (s *ruleSeries) counter(of *prometheus.CounterVec, rule, label string) prometheus.Counter {
	one := series{of, label}
	s.mu.RLock()
	_, known := s.rules[rule][one]
	s.mu.RUnlock()
	if !known {
		s.add(rule, one)
	}
	return of.WithLabelValues(rule, label)
}

func (s *ruleSeries) add(rule string, one series) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rules[rule] == nil {
		if len(s.rules) >= max(minRules, s.most) {
			s.removeDeleted()
		}
		if s.rules == nil {
			s.rules = make(map[string]map[series]struct{})
		}
		s.rules[rule] = make(map[series]struct{})
	}
	s.rules[rule][one] = struct{}{}
}

// removeDeleted removes the counters of rules that do not exist. s.mu is held.
func (s *ruleSeries) removeDeleted() {
	for rule, all := range s.rules {
		if rule == alerts.SystemRule || s.exists == nil || s.exists(rule) {
			continue
		}
		for one := range all {
			one.of.DeleteLabelValues(rule, one.label)
		}
		delete(s.rules, rule)
	}
	s.most = 2 * len(s.rules)
}
