package futurejobs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"deadman/checks"
)

// recordingHandler records the order of calls of inline handlers.
type recordingHandler struct {
	mu    sync.Mutex
	order []string // rule/key
}

func (a *recordingHandler) Inline() {}

func (a *recordingHandler) Check(_ context.Context, c checks.Check) (checks.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.order = append(a.order, c.Rule+"/"+c.Key)
	return checks.Answer{Outcome: checks.Exhausted}, nil
}

const ticketRule = `
name: %s
entity: thing
trigger: {event: %s.created, key: event.id}
resolve: {event: slow.done, key: event.id}
escalate: [{after: %s, step: only, severity: %s}]
slot: 1s
`

// If jobs were left for minutes, those of critical rules are checked first, though their slot came last. Each job is
// checked exactly once.
func TestVirtualCriticalRulesAreReadFirst(t *testing.T) {
	const calm, critical, early = 6000, 40, 40
	synctest.Test(t, func(t *testing.T) {
		a := &recordingHandler{}
		e := startEngine(t, map[string]checks.Handler{"calm": a, "loud": a, "loud-and-early": a},
			fmt.Sprintf(ticketRule, "calm", "calm", "10s", "error"),
			fmt.Sprintf(ticketRule, "loud", "loud", "20s", "critical"),
			fmt.Sprintf(ticketRule, "loud-and-early", "early", "5s", "critical"))
		e.publish("calm.created", keys(calm)...)
		e.publish("loud.created", keys(critical)...)
		e.publish("early.created", keys(early)...) // they are in the first page, too
		time.Sleep(3 * time.Minute)                // the stream is behind, and they wait for it
		e.applyEvents()
		e.sweeper.Wake()
		time.Sleep(5 * time.Second)
		e.stop()
		<-e.finished

		seen, last := map[string]int{}, 0
		for i, job := range a.order {
			seen[job]++
			if job[:4] == "loud" {
				last = i
			}
		}
		if last >= 1000 { // a page of the calm rule has 4000; some are checked together with the critical ones
			t.Errorf("the last of the loud was queried as number %d of %d", last, len(a.order))
		}
		if all := calm + critical + early; len(seen) != all || len(a.order) != all {
			t.Errorf("%d were queried %d times, want each of %d once", len(seen), len(a.order), all)
		}
	})
}
