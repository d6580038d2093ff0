package futurejobs

import (
	"fmt"
	"sync"
	"time"
)

// Limits of the queued checks of tenants' rules.
const (
	maxTurn        = 250      // checks of one turn
	turnCost       = 250_000  // after which a turn ends, in the unit of Allowance.Spent
	maxTenantTasks = 1000     // queued for one tenant
	maxTenantBytes = 2 << 20  // of bodies queued for one tenant
	maxQueueBytes  = 32 << 20 // of bodies queued for all tenants; each tenant may queue one job beyond it
)

// Allowance bounds the cost of the checks of a tenant's rules on this node over time. The rules of a tenant share it.
// Implementations are safe for concurrent use.
type Allowance interface {
	// Tenant identifies the tenant on this node.
	Tenant() string
	// IsUsedUp reports whether checks have to be put off.
	IsUsedUp(now time.Time) bool
	// HasRecovered reports whether enough is left to resume checks that were put off.
	HasRecovered(now time.Time) bool
	// RecoversIn returns the least time until HasRecovered.
	RecoversIn(now time.Time) time.Duration
	// Spent returns the cost of all checks of the rule's version so far.
	Spent() int64
}

// UsedUpError means that a manual check is refused because the allowance of the rule's tenant is used up.
type UsedUpError struct {
	Tenant string        // as of Allowance
	After  time.Duration // estimated time until checks resume
}

// Error implements error.
func (e *UsedUpError) Error() string {
	return fmt.Sprintf("the conditions of checks of %s cost too much at the moment, and checks are put off; try again in %s, or simplify the rules",
		e.Tenant, e.After.Round(time.Second))
}

// turns queues the inline checks of rules with an allowance, in one queue for each tenant. The tenants take turns, so
// that the checks of one tenant wait for a short turn of each other tenant, and never for a whole queue. It is safe for
// concurrent use.
type turns struct {
	mu       sync.Mutex
	some     *sync.Cond
	queues   map[string]*turnQueue
	order    []*turnQueue // those with tasks, the next first
	bytes    int          // of all queues
	isClosed bool
}

// turnQueue holds the tasks of one tenant.
type turnQueue struct {
	tenant string
	tasks  []*task
	bytes  int
}

func newTurns() *turns {
	t := &turns{queues: map[string]*turnQueue{}}
	t.some = sync.NewCond(&t.mu)
	return t
}

// hasRoom reports whether a task of a tenant can be queued.
func (t *turns) hasRoom(tenant string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[tenant]
	return q == nil || len(q.tasks) < maxTenantTasks && q.bytes < maxTenantBytes && t.bytes < maxQueueBytes
}

// put queues a task. A tenant without queued tasks has its turn after those with some.
func (t *turns) put(v *task) {
	tenant := v.rule.Allowance.Tenant()
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[tenant]
	if q == nil {
		q = &turnQueue{tenant: tenant}
		t.queues[tenant] = q
		t.order = append(t.order, q)
	}
	q.tasks = append(q.tasks, v)
	q.bytes, t.bytes = q.bytes+v.Job.Size(), t.bytes+v.Job.Size()
	t.some.Signal()
}

// next returns the queue that has the turn, and waits for one; nil: no task is left, and none is put any more.
func (t *turns) next() *turnQueue {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.order) == 0 && !t.isClosed {
		t.some.Wait()
	}
	if len(t.order) == 0 {
		return nil
	}
	q := t.order[0]
	t.order = t.order[1:]
	return q
}

// take removes and returns the first task of the queue that has the turn; nil: it has none.
func (t *turns) take(q *turnQueue) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(q.tasks) == 0 {
		return nil
	}
	v := q.tasks[0]
	q.tasks[0], q.tasks = nil, q.tasks[1:]
	q.bytes, t.bytes = q.bytes-v.Job.Size(), t.bytes-v.Job.Size()
	return v
}

// end ends the turn of a queue, and reports whether half of it or more is free.
func (t *turns) end(q *turnQueue) (isHalfFree bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(q.tasks) > 0 {
		t.order = append(t.order, q)
	} else {
		delete(t.queues, q.tenant)
	}
	return len(q.tasks) <= maxTenantTasks/2 && q.bytes <= maxTenantBytes/2
}

// close has next return nil once no task is left.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isClosed = true
	t.some.Broadcast()
}
