package futurejobs

import (
	"testing"
	"time"
)

// TestLoadsAreBounded: the busiest rules of each minute are counted separately and the others together, and no count
// is lost, with or without PutBack.
func TestLoadsAreBounded(t *testing.T) {
	at := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	var l LoadCounter
	for rule := range int32(2*loadsApart + 1) {
		for minute := range 2 {
			l.add(SlotLoad{At: at.Add(time.Duration(minute) * time.Minute), RuleID: rule + 1, PastLoad: PastLoad{Checks: int64(rule) + 1, Alerts: 1, MaxLateness: time.Duration(rule)}})
		}
	}
	taken := l.Take()
	l.PutBack(taken)
	again := l.Take()
	if len(taken) != 2*(loadsApart+1) || len(again) != len(taken) {
		t.Fatalf("%d loads of two minutes, and %d after they were put back; want %d", len(taken), len(again), 2*(loadsApart+1))
	}
	var sum SlotLoad
	for i, m := range again {
		if m != taken[i] {
			t.Errorf("%+v was put back and is %+v", taken[i], m)
		}
		if quiet := m.RuleID <= loadsApart+1; m.RuleID != 0 && quiet {
			t.Errorf("rule %d is among the busiest", m.RuleID)
		}
		if m.RuleID == 0 && (m.Checks != (loadsApart+1)*(loadsApart+2)/2 || m.MaxLateness != loadsApart) {
			t.Errorf("the others together: %+v", m)
		}
		sum.Add(m.PastLoad)
	}
	rules := int64(2*loadsApart + 1)
	if sum.Checks != rules*(rules+1) || sum.Alerts != 2*rules {
		t.Errorf("%d checks and %d alerts in all, want %d and %d", sum.Checks, sum.Alerts, rules*(rules+1), 2*rules)
	}
	if left := l.Take(); len(left) != 0 {
		t.Errorf("%d are left", len(left))
	}
}
