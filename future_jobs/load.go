package futurejobs

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// LoadWidth is the resolution of load counters: slots of the same minute are counted together.
const LoadWidth = time.Minute

// loadsApart is how many rules are counted separately per minute and TakeLoads; the other rules of the minute are
// counted together. It bounds the stored rows.
const loadsApart = 200

// PastLoad counts checks by their slots, and ticks of schedules by their nominal times.
type PastLoad struct {
	Checks      int64         // settled checks; retries count again
	Alerts      int64         // raised by these checks
	MaxLateness time.Duration // the largest of the checks

	Ticks           int64         // with a record, whatever their outcome
	MissedTicks     int64         // ticks before them that have no record
	MaxTickLateness time.Duration // the largest time from a tick until its event was accepted or its jobs were started
}

// SlotLoad is the load of a rule in one minute.
type SlotLoad struct {
	At     time.Time // the beginning of the minute
	RuleID int32     // 0: the rules that are not counted separately
	PastLoad
}

// BucketRange is a time range, divided into parts of one width.
type BucketRange struct {
	From  time.Time
	Until time.Time // exclusive
	Width time.Duration
	Rule  string // empty: all rules
}

// Parts returns the number of parts. The last one may reach past the end of the range.
func (s BucketRange) Parts() int { return int((s.Until.Sub(s.From) + s.Width - 1) / s.Width) }

// Part returns the index of the part that contains a time.
func (s BucketRange) Part(at time.Time) int { return int(at.Sub(s.From) / s.Width) }

// PlannedLoad is the number of pending jobs that are due in one part of a range.
type PlannedLoad struct {
	Jobs  int64
	Ticks int64 // next ticks of stored schedules; the ticks after them are not counted
	More  bool  // there may be more: not all were counted
}

// Add adds the counts of m.
func (l *PastLoad) Add(m PastLoad) {
	l.Checks += m.Checks
	l.Alerts += m.Alerts
	l.MaxLateness = max(l.MaxLateness, m.MaxLateness)
	l.Ticks += m.Ticks
	l.MissedTicks += m.MissedTicks
	l.MaxTickLateness = max(l.MaxTickLateness, m.MaxTickLateness)
}

// busy returns the rank of a rule in its minute. Rules that are counted together come last.
func (l *SlotLoad) busy() int64 {
	if l.RuleID == 0 {
		return -1
	}
	return l.Checks + l.Ticks
}

// LoadCounter counts the checks and ticks of a node until Take collects them. Its zero value is ready for use; nil counts no
// ticks.
type LoadCounter struct {
	mu  sync.Mutex
	all map[loadKey]*SlotLoad
}

type loadKey struct {
	minute int64 // since 1970
	rule   int32
}

// count counts the settled decisions of a batch.
func (l *LoadCounter) count(batch []*task, got Settled, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range batch {
		if !got.Jobs[v.Job.ID] {
			continue
		}
		l.add(SlotLoad{
			At: v.slot.Truncate(LoadWidth), RuleID: v.rule.ID,
			PastLoad: PastLoad{Checks: 1, Alerts: int64(len(v.Alerts)), MaxLateness: max(now.Sub(v.slot), 0)},
		})
	}
}

// Ticked counts a tick of a rule, the missed ticks that it stands for, and how late its event was published or its jobs were
// started; 0 if neither happened.
func (l *LoadCounter) Ticked(rule int32, at time.Time, missed int, late time.Duration) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(SlotLoad{At: at.Truncate(LoadWidth), RuleID: rule, PastLoad: PastLoad{Ticks: 1, MissedTicks: int64(missed), MaxTickLateness: max(late, 0)}})
}

func (l *LoadCounter) add(m SlotLoad) {
	if l.all == nil {
		l.all = make(map[loadKey]*SlotLoad)
	}
	key := loadKey{m.At.Unix() / 60, m.RuleID}
	if have := l.all[key]; have != nil {
		have.Add(m.PastLoad)
		return
	}
	fresh := m // m itself would be allocated on the heap each time
	l.all[key] = &fresh
}

// Take removes and returns the counts since the last call, by minute and rule. A caller that cannot store them returns them by
// PutBack.
func (l *LoadCounter) Take() []SlotLoad {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]SlotLoad, 0, len(l.all))
	for _, m := range l.all {
		all = append(all, *m)
	}
	l.all = nil
	return bounded(all)
}

// PutBack restores counts that were taken.
func (l *LoadCounter) PutBack(all []SlotLoad) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range all {
		l.add(m)
	}
}

// bounded merges all but the busiest rules of each minute.
func bounded(all []SlotLoad) []SlotLoad {
	slices.SortFunc(all, func(a, b SlotLoad) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(b.busy(), a.busy()), cmp.Compare(a.RuleID, b.RuleID))
	})
	var kept []SlotLoad
	apart := 0 // in the current minute
	for i, m := range all {
		if i == 0 || !m.At.Equal(all[i-1].At) {
			apart = 0
		}
		switch apart++; {
		case apart <= loadsApart:
		case apart == loadsApart+1:
			m.RuleID = 0
		default:
			kept[len(kept)-1].Add(m.PastLoad)
			continue
		}
		kept = append(kept, m)
	}
	slices.SortFunc(kept, func(a, b SlotLoad) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.RuleID, b.RuleID)) })
	return kept
}
