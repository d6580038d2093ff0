package futurejobs

import (
	"encoding/json"
	"sync"
	"time"
)

// limiter bound the checks that wait for something: so many in all, and for one rule no more than
// half of what the others leave, so that rules whose handlers hang leave room. A handler that
// was abandoned keeps a lane of its rule until it has really returned, and none of the others'.
type limiter struct {
	most  int
	freed func() // is called when there is room again

	mu      sync.Mutex
	all     int           // without those that were abandoned
	rules   map[int32]int // with them
	left    map[int32]int // those that were abandoned
	running map[int64]running
	idle    sync.WaitGroup
}

type running struct {
	RuleID    int32     `json:"rule_id"`
	Rule      string    `json:"rule"`
	Entity    string    `json:"entity"`
	Key       string    `json:"key"`
	StartedAt time.Time `json:"started_at"`
}

func newLimiter(most int, freed func()) *limiter {
	return &limiter{most: most, freed: freed, rules: map[int32]int{}, left: map[int32]int{}, running: map[int64]running{}}
}

// acquire takes a lane for a check of the rule; false: none is free.
func (l *limiter) acquire(rule int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	others := l.all - (l.rules[rule] - l.left[rule])
	if l.all == l.most || l.rules[rule] >= max((l.most-others)/2, 1) {
		return false
	}
	l.all++
	l.rules[rule]++
	return true
}

// abandon leaves the lane to a handler that has not returned.
func (l *limiter) abandon(rule int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	l.left[rule]++
}

// abandoned is how many handlers were abandoned and have not returned.
func (l *limiter) abandoned() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, left := range l.left {
		n += left
	}
	return n
}

// release frees the lane of a handler that has returned, however late.
func (l *limiter) release(rule int32, abandoned bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !abandoned {
		l.all--
	} else if l.left[rule]--; l.left[rule] == 0 {
		delete(l.left, rule)
	}
	if l.rules[rule]--; l.rules[rule] == 0 {
		delete(l.rules, rule)
	}
}

// run runs a check in the lane that was entered for it, and frees the lane when the
// handler has returned.
func (l *limiter) run(rule *Rule, j Job, check func() (returned <-chan struct{})) {
	l.mu.Lock()
	l.running[j.ID] = running{rule.ID, rule.Name, rule.Entity, j.Key, j.Last.StartedAt}
	l.mu.Unlock()
	l.idle.Add(1)
	go func() {
		returned := check()
		l.idle.Done()
		abandoned := !isClosed(returned)
		if abandoned {
			l.abandon(rule.ID)
			l.freed()
		}
		<-returned
		l.mu.Lock()
		delete(l.running, j.ID)
		l.mu.Unlock()
		l.release(rule.ID, abandoned)
		l.freed()
	}()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// wait waits until every check has its answer or was abandoned, which each check's timeout
// bounds.
func (l *limiter) wait() { l.idle.Wait() }

// runningJSON describes some of the running checks as JSON; empty when there are none.
func (l *limiter) runningJSON() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.running) == 0 {
		return ""
	}
	some := make([]running, 0, 20)
	for _, r := range l.running {
		if some = append(some, r); len(some) == cap(some) {
			break
		}
	}
	text, err := json.Marshal(some)
	if err != nil {
		return "" // unreachable: numbers, valid strings and times
	}
	return string(text)
}
