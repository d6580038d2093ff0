package futurejobs

import (
	"encoding/json"
	"sync"
	"time"
)

// limiter bounds the asynchronous checks: a total, and for one rule at most half of the workers that other rules leave
// free, so that rules with hanging handlers leave capacity. An abandoned handler occupies a lane of its rule until it
// has really returned, and none of the other rules.
type limiter struct {
	limit int
	freed func() // called when a lane becomes free

	mu      sync.Mutex
	all     int           // without abandoned handlers
	rules   map[int32]int // with abandoned handlers
	left    map[int32]int // abandoned handlers
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

func newLimiter(limit int, freed func()) *limiter {
	return &limiter{limit: limit, freed: freed, rules: map[int32]int{}, left: map[int32]int{}, running: map[int64]running{}}
}

// acquire takes a lane for a check of the rule; false: none is free.
func (l *limiter) acquire(rule int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	others := l.all - (l.rules[rule] - l.left[rule])
	if l.all == l.limit || l.rules[rule] >= max((l.limit-others)/2, 1) {
		return false
	}
	l.all++
	l.rules[rule]++
	return true
}

// abandon moves a handler that has not returned from the total to the abandoned ones.
func (l *limiter) abandon(rule int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	l.left[rule]++
}

// abandoned returns the number of abandoned handlers that have not returned.
func (l *limiter) abandoned() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, left := range l.left {
		n += left
	}
	return n
}

// release frees the lane of a handler that has returned.
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

// run runs a check in the lane acquired for it, and frees the lane when the handler has returned.
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

// wait blocks until every check has an answer or was abandoned; the timeout of each check bounds it.
func (l *limiter) wait() { l.idle.Wait() }

// runningJSON describes some of the running checks as JSON; empty: none.
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
