package futurejobs

import (
	"encoding/json"
	"sync"
	"time"
)

// lanes bound the checks that wait for something: so many in all, and no more than half of
// them for one rule, so that a rule whose handler hangs leaves room for the others. A lane
// is free only when its handler has really returned.
type lanes struct {
	most, each int

	mu      sync.Mutex
	all     int
	rules   map[int32]int
	running map[int64]running
	idle    sync.WaitGroup
}

type running struct {
	RuleID    int32     `json:"rule_id"`
	Key       string    `json:"key"`
	StartedAt time.Time `json:"started_at"`
}

func newLanes(most int) *lanes {
	return &lanes{most: most, each: max(most/2, 1), rules: map[int32]int{}, running: map[int64]running{}}
}

// enter takes a lane for a check of the rule; false: none is free.
func (l *lanes) enter(rule int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == l.most || l.rules[rule] == l.each {
		return false
	}
	l.all++
	l.rules[rule]++
	return true
}

// exit frees the lane.
func (l *lanes) exit(rule int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.rules[rule]--; l.rules[rule] == 0 {
		delete(l.rules, rule)
	}
}

// run runs a check in the lane that was entered for it, and frees the lane when the
// handler has returned.
func (l *lanes) run(rule int32, j Job, check func() (returned <-chan struct{})) {
	l.mu.Lock()
	l.running[j.ID] = running{rule, j.Key, j.Last.StartedAt}
	l.mu.Unlock()
	l.idle.Add(1)
	go func() {
		returned := check()
		l.idle.Done()
		<-returned
		l.mu.Lock()
		delete(l.running, j.ID)
		l.mu.Unlock()
		l.exit(rule)
	}()
}

// wait waits until every check has its answer or was abandoned, which each check's timeout
// bounds.
func (l *lanes) wait() { l.idle.Wait() }

// doing describes some of the running checks as JSON; empty when there are none.
func (l *lanes) doing() string {
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
