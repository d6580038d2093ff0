package futurejobs

import (
	"context"
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
	// Spent returns the cost of all checks of the rule's version so far.
	Spent() int64
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

// takesTurn reports whether the check waits for a turn of its tenant.
func (v *task) takesTurn() bool {
	return !v.unasked && v.rule.Allowance != nil && v.rule.Finder == nil && isInline(v.rule)
}

// checkInTurns decides the queued checks of tenants until the queues are closed. Once ctx ends, it leaves them due.
func (s *Sweeper) checkInTurns(ctx context.Context, belt *pipeline) {
	for q := s.turns.next(); q != nil; q = s.turns.next() {
		s.takeTurn(ctx, q, belt)
	}
}

// takeTurn decides queued checks of a tenant until the turn ends. While the tenant's allowance is used up, it puts
// them off.
func (s *Sweeper) takeTurn(ctx context.Context, q *turnQueue, belt *pipeline) {
	belt.coming.Add(1)
	defer belt.done()
	var ready []*task
	isPutOff, now := false, s.clock.Now()
	for cost := int64(0); len(ready) < maxTurn && cost < turnCost; {
		v := s.turns.take(q)
		if v == nil {
			break
		}
		allowance := v.rule.Allowance
		switch before := allowance.Spent(); {
		case ctx.Err() != nil:
			v.shard.finish(v.Job.ID, v.slot)
		case allowance.IsUsedUp(now):
			isPutOff = true
			s.putOff.note(v.rule, v.slot, now)
			v.shard.finish(v.Job.ID, v.slot)
		default:
			now = s.checkInline(context.WithoutCancel(ctx), v, now)
			cost += allowance.Spent() - before
			ready = append(ready, v)
		}
	}
	if len(ready) > 0 {
		belt.decided <- ready
	}
	if s.turns.end(q) {
		s.capacityFreed()
	}
	if isPutOff {
		time.AfterFunc(maxRetry, s.Wake)
	}
}
