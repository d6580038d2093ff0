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

// SlotLoad counts the checks of a rule's jobs with slots in one minute.
type SlotLoad struct {
	At          time.Time // the beginning of the minute
	RuleID      int32     // 0: the rules that are not counted separately
	Checks      int64     // settled checks; retries count again
	Alerts      int64     // raised by these checks
	MaxLateness time.Duration
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

// CheckedLoad is the past load of one part of a range.
type CheckedLoad struct {
	Checks      int64
	Alerts      int64
	MaxLateness time.Duration // the largest of the checks
}

// PlannedLoad is the number of pending jobs that are due in one part of a range.
type PlannedLoad struct {
	Jobs  int64
	Ticks int64 // next ticks of stored schedules; the ticks after them are not counted
	More  bool  // there may be more: not all were counted
}

// add adds the counts of m, for the same minute and rule.
func (l *SlotLoad) add(m SlotLoad) {
	l.Checks += m.Checks
	l.Alerts += m.Alerts
	l.MaxLateness = max(l.MaxLateness, m.MaxLateness)
}

// busy returns the rank of a rule in its minute. Rules that are counted together come last.
func (l *SlotLoad) busy() int64 {
	if l.RuleID == 0 {
		return -1
	}
	return l.Checks
}

// loadCounter counts checks until TakeLoads collects them.
type loadCounter struct {
	mu  sync.Mutex
	all map[loadKey]*SlotLoad
}

type loadKey struct {
	minute int64 // since 1970
	rule   int32
}

// count counts the settled decisions of a batch.
func (l *loadCounter) count(batch []*task, got Settled, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range batch {
		if !got.Jobs[v.Job.ID] {
			continue
		}
		l.add(SlotLoad{
			At: v.slot.Truncate(LoadWidth), RuleID: v.rule.ID, Checks: 1, Alerts: int64(len(v.Alerts)),
			MaxLateness: max(now.Sub(v.slot), 0),
		})
	}
}

func (l *loadCounter) add(m SlotLoad) {
	if l.all == nil {
		l.all = make(map[loadKey]*SlotLoad)
	}
	key := loadKey{m.At.Unix() / 60, m.RuleID}
	if have := l.all[key]; have != nil {
		have.add(m)
		return
	}
	fresh := m // m itself would be allocated on the heap each time
	l.all[key] = &fresh
}

// take removes and returns the counts, by minute and rule.
func (l *loadCounter) take() []SlotLoad {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]SlotLoad, 0, len(l.all))
	for _, m := range l.all {
		all = append(all, *m)
	}
	l.all = nil
	return bounded(all)
}

// putBack restores counts that could not be stored.
func (l *loadCounter) putBack(all []SlotLoad) {
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
			kept[len(kept)-1].add(m)
			continue
		}
		kept = append(kept, m)
	}
	slices.SortFunc(kept, func(a, b SlotLoad) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.RuleID, b.RuleID)) })
	return kept
}
