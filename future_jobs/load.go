package futurejobs

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// LoadWidth is the width of what is counted of the past: slots of one minute are counted
// together.
const LoadWidth = time.Minute

// loadsApart is how many rules of one minute are counted apart each time that loads are taken;
// the others of the minute are counted together. It bounds what is kept.
const loadsApart = 200

// SlotLoad is what was checked of a rule's jobs whose slots lie in one minute.
type SlotLoad struct {
	At     time.Time // the beginning of the minute
	RuleID int32     // 0: of rules that are not counted apart
	Checks int64     // looks that were settled; what a job was tried again for counts again
	Alerts int64     // that they decided
	Lag    time.Duration
}

// BucketRange is a stretch of time in parts of one width.
type BucketRange struct {
	From  time.Time
	Until time.Time // not part of it
	Width time.Duration
	Rule  string // empty: of all rules
}

// Parts is how many parts the span has. The last one may reach past its end.
func (s BucketRange) Parts() int { return int((s.Until.Sub(s.From) + s.Width - 1) / s.Width) }

// Part is the part that an instant lies in.
func (s BucketRange) Part(at time.Time) int { return int(at.Sub(s.From) / s.Width) }

// CheckedLoad is the past load of one part of a span.
type CheckedLoad struct {
	Checks int64
	Alerts int64
	Lag    time.Duration // of the check that was the latest behind its slot
}

// PlannedLoad is how many pending jobs are due in one part of a span.
type PlannedLoad struct {
	Jobs int64
	More bool // there may be more: not all were counted
}

// add adds what the same minute and rule had besides.
func (l *SlotLoad) add(m SlotLoad) {
	l.Checks += m.Checks
	l.Alerts += m.Alerts
	l.Lag = max(l.Lag, m.Lag)
}

// busy is the rank of a rule in its minute. What was counted together comes last.
func (l *SlotLoad) busy() int64 {
	if l.RuleID == 0 {
		return -1
	}
	return l.Checks
}

// loadCounter counts what is checked, until somebody takes it to where it is kept.
type loadCounter struct {
	mu  sync.Mutex
	all map[loadKey]*SlotLoad
}

type loadKey struct {
	minute int64 // since 1970
	rule   int32
}

// count counts the decisions of a batch that were taken.
func (l *loadCounter) count(batch []*task, got Settled, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range batch {
		if !got.Jobs[v.Job.ID] {
			continue
		}
		l.add(SlotLoad{
			At: v.slot.Truncate(LoadWidth), RuleID: v.rule.ID, Checks: 1, Alerts: int64(len(v.Alerts)),
			Lag: max(now.Sub(v.slot), 0),
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
	fresh := m // m itself would be on the heap each time
	l.all[key] = &fresh
}

// take takes out what was counted, by minute and rule.
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

// putBack counts again what could not be kept.
func (l *loadCounter) putBack(all []SlotLoad) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range all {
		l.add(m)
	}
}

// bounded counts the rules of each minute together that are not among the busiest of it.
func bounded(all []SlotLoad) []SlotLoad {
	slices.SortFunc(all, func(a, b SlotLoad) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(b.busy(), a.busy()), cmp.Compare(a.RuleID, b.RuleID))
	})
	var kept []SlotLoad
	apart := 0 // of the minute at hand
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

// TakeLoads takes out what was checked since the last call, by minute and rule. Who can't keep
// it puts it back.
func (s *Sweeper) TakeLoads() []SlotLoad { return s.loads.take() }

// PutBackLoads has loads that were taken taken again.
func (s *Sweeper) PutBackLoads(all []SlotLoad) { s.loads.putBack(all) }
