package web

import (
	"context"
	"slices"
	"sync"
	"time"
)

// semaphore bounds concurrent work of one kind, for each owner and for all. A permit is one request, or a byte of an answer.
// Requests wait, and are refused if they wait too long. Permits go to the first waiting request that fits, in order of arrival:
// a request that does not fit, as it is larger or its owner is at its limit, holds up no other, and a new one that fits does not
// wait. It is safe for concurrent use.
type semaphore[K comparable] struct {
	perNode, perOwner int64
	// full returns the problem of a missing permit: the owner or the node is at its limit.
	full func(owner K, node bool) *Problem
	free K // the owner bounded only by the node's limit
	// fair leaves an owner at most as many permits as remain free for others of its kind, guests or not: each further
	// owner still finds some, as long as half of the free permits make one.
	fair bool
	// reserved is how many permits of the node are reserved for non-guests; guest nil: none.
	reserved  int64
	guest     func(owner K) bool
	maxQueued int64 // limit of an owner's requests with a permit or in the queue; 0: no limit
	// reclaimAfter is how long a request waits before it ends loans of owners that hold more, and how old these are at least;
	// 0: no request ends any.
	reclaimAfter time.Duration

	mu      sync.Mutex
	held    int64
	byOwner map[K]int64
	waiting []*waiter[K] // in order of arrival; none of them fits
	loans   []*loan[K]   // in order of their beginnings
}

// waiter is a request that waits for permits.
type waiter[K comparable] struct {
	owner   K
	permits int64
	served  chan struct{} // closed when it has them
}

// loan is permits of a request that a waiting request of another owner may end.
type loan[K comparable] struct {
	owner   K
	permits int64
	since   time.Time
	end     func() // ends the request; it does not block
}

// acquire takes a permit, or returns the problem of a missing one.
func (p *semaphore[K]) acquire(owner K) *Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problem(owner, p.tryAcquire(owner, 1))
}

// shortage is the reason for missing permits: the owner's limit or the node's.
type shortage int

const (
	lacksNothing shortage = iota
	lacksOwn
	lacksNodes
)

// problem returns the problem of missing permits, nil if none are missing.
func (p *semaphore[K]) problem(owner K, l shortage) *Problem {
	if l == lacksNothing {
		return nil
	}
	return p.full(owner, l == lacksNodes)
}

// tryAcquire takes permits, or returns the reason that too few are free. p.mu is held.
func (p *semaphore[K]) tryAcquire(owner K, n int64) shortage {
	if l := p.shortageOf(owner, n); l != lacksNothing {
		return l
	}
	if p.byOwner == nil {
		p.byOwner = make(map[K]int64)
	}
	p.held += n
	p.byOwner[owner] += n
	return lacksNothing
}

// shortageOf returns the reason that too few permits are free. p.mu is held.
func (p *semaphore[K]) shortageOf(owner K, n int64) shortage {
	had, left := p.byOwner[owner], p.perNode-p.held
	if p.guest != nil && p.guest(owner) {
		left -= p.reserved
	}
	switch {
	case owner != p.free && (had+n > p.perOwner || p.fair && had > 0 && had+n > left):
		return lacksOwn
	case n > left:
		return lacksNodes
	}
	return lacksNothing
}

// acquireWithin takes permits, and waits for them up to limit. The error is the problem of missing permits, or that of ctx.
func (p *semaphore[K]) acquireWithin(ctx context.Context, owner K, n int64, limit time.Duration) error {
	w, full := p.queue(owner, n)
	if w == nil {
		if full != nil {
			return full
		}
		return nil
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	var impatient <-chan time.Time
	if p.reclaimAfter > 0 {
		tick := time.NewTicker(p.reclaimAfter)
		defer tick.Stop()
		impatient = tick.C
	}
	for {
		select {
		case <-w.served:
			return nil
		case now := <-impatient:
			p.reclaim(w, now)
		case <-timeout.C:
			return p.giveUp(ctx, w)
		case <-ctx.Done():
			return p.giveUp(ctx, w)
		}
	}
}

// queue takes permits, or joins the queue for them: then w is not nil.
func (p *semaphore[K]) queue(owner K, n int64) (w *waiter[K], full *Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tryAcquire(owner, n) == lacksNothing {
		return nil, nil
	}
	if p.maxQueued > 0 && p.byOwner[owner]+p.queuedOf(owner) >= p.maxQueued {
		return nil, p.full(owner, false)
	}
	w = &waiter[K]{owner: owner, permits: n, served: make(chan struct{})}
	p.waiting = append(p.waiting, w)
	return w, nil
}

// queuedOf returns the number of an owner's waiting requests. p.mu is held.
func (p *semaphore[K]) queuedOf(owner K) (n int64) {
	for _, w := range p.waiting {
		if w.owner == owner {
			n++
		}
	}
	return n
}

// giveUp removes a request from the queue. It returns the reason for missing permits; nil if the request got them
// meanwhile.
func (p *semaphore[K]) giveUp(ctx context.Context, w *waiter[K]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.waiting, w)
	if err := ctx.Err(); err != nil {
		if at < 0 {
			p.releaseLocked(w.owner, w.permits)
		} else {
			p.waiting = slices.Delete(p.waiting, at, at+1)
		}
		return err
	}
	if at < 0 {
		return nil
	}
	p.waiting = slices.Delete(p.waiting, at, at+1)
	if full := p.problem(w.owner, p.tryAcquire(w.owner, w.permits)); full != nil { // the missing kind of permits decides the client's error
		return full
	}
	return nil
}

// release returns one permit of an owner.
func (p *semaphore[K]) release(owner K) { p.releaseN(owner, 1) }

// releaseN returns permits of an owner.
func (p *semaphore[K]) releaseN(owner K, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releaseLocked(owner, n)
}

// releaseLocked returns permits, and serves the waiting requests that fit now. p.mu is held.
func (p *semaphore[K]) releaseLocked(owner K, n int64) {
	p.held -= n
	if p.byOwner[owner] -= n; p.byOwner[owner] == 0 {
		delete(p.byOwner, owner)
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(w *waiter[K]) bool {
		if p.tryAcquire(w.owner, w.permits) != lacksNothing {
			return false
		}
		close(w.served)
		return true
	})
}

// lend lets waiting requests end a loan, whose permits its owner has.
func (p *semaphore[K]) lend(l *loan[K]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loans = append(p.loans, l)
}

// shrink returns the permits of a loan beyond size; none if the loan was ended. After size 0, no request ends the loan.
func (p *semaphore[K]) shrink(l *loan[K], size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if size < l.permits {
		p.releaseLocked(l.owner, l.permits-size)
		l.permits = size
	}
	if size == 0 {
		p.loans = slices.DeleteFunc(p.loans, func(one *loan[K]) bool { return one == l })
	}
}

// reclaim ends loans until a waiting request has its permits, or until no owner has too many.
func (p *semaphore[K]) reclaim(w *waiter[K], now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for slices.Contains(p.waiting, w) {
		l := p.excess(w, now)
		if l == nil {
			return
		}
		p.loans = slices.DeleteFunc(p.loans, func(one *loan[K]) bool { return one == l })
		n := l.permits
		l.permits = 0
		l.end()
		p.releaseLocked(l.owner, n) // may serve w
	}
}

// excess returns the oldest loan of the owner that holds most, nil if the owner of w would then hold more, unless that
// one has nothing. Loans younger than the patience do not count. p.mu is held.
func (p *semaphore[K]) excess(w *waiter[K], now time.Time) (worst *loan[K]) {
	had := p.byOwner[w.owner]
	for _, l := range p.loans {
		held := p.byOwner[l.owner]
		switch {
		case l.owner == w.owner || now.Sub(l.since) < p.reclaimAfter:
		case had > 0 && (had+w.permits > p.perOwner || held <= had+w.permits):
		case worst == nil || held > p.byOwner[worst.owner]:
			worst = l
		}
	}
	return worst
}
