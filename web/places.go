package web

import (
	"context"
	"slices"
	"sync"
	"time"
)

// places bounds concurrent work of one kind, for each owner and for all. A place is one request, or a byte of an answer.
// Requests wait in order, and are refused if they wait too long. It is safe for concurrent use.
type places[K comparable] struct {
	perNode, perOwner int64
	// full returns the problem of a missing place: the owner or the node is at its limit.
	full func(owner K, node bool) *Problem
	free K // the owner bounded only by the node's limit
	// fair leaves an owner at most as many places as remain free for others of its kind, guests or not: each further
	// owner still finds some, as long as half of the free places make one.
	fair bool
	// kept is how many places of the node are reserved for non-guests; guest nil: none.
	kept  int64
	guest func(owner K) bool
	line  int64 // limit of an owner's requests with a place or in the queue; 0: no limit
	// patience is how long a request waits before it ends loans of owners that hold more, and how old these are at least;
	// 0: no request ends any.
	patience time.Duration

	mu      sync.Mutex
	taken   int64
	byOwner map[K]int64
	waiting []*waiter[K] // in order of arrival; none of them fits
	loans   []*loan[K]   // in order of their beginnings
}

// waiter is a request that waits for places.
type waiter[K comparable] struct {
	owner  K
	places int64
	served chan struct{} // closed when it has them
}

// loan is places of a request that a waiting request of another owner may end.
type loan[K comparable] struct {
	owner  K
	places int64
	since  time.Time
	end    func() // ends the request; it does not block
}

// take takes a place, or returns the problem of a missing one.
func (p *places[K]) take(owner K) *Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problem(owner, p.try(owner, 1))
}

// lack is the reason for missing places: the owner's limit or the node's.
type lack int

const (
	lacksNothing lack = iota
	lacksOwn
	lacksNodes
)

// problem returns the problem of missing places, nil if none are missing.
func (p *places[K]) problem(owner K, l lack) *Problem {
	if l == lacksNothing {
		return nil
	}
	return p.full(owner, l == lacksNodes)
}

// try takes places, or returns the reason that too few are free. p.mu is held.
func (p *places[K]) try(owner K, n int64) lack {
	if l := p.lacks(owner, n); l != lacksNothing {
		return l
	}
	if p.byOwner == nil {
		p.byOwner = make(map[K]int64)
	}
	p.taken += n
	p.byOwner[owner] += n
	return lacksNothing
}

// lacks returns the reason that too few places are free. p.mu is held.
func (p *places[K]) lacks(owner K, n int64) lack {
	had, left := p.byOwner[owner], p.perNode-p.taken
	if p.guest != nil && p.guest(owner) {
		left -= p.kept
	}
	switch {
	case owner != p.free && (had+n > p.perOwner || p.fair && had > 0 && had+n > left):
		return lacksOwn
	case n > left:
		return lacksNodes
	}
	return lacksNothing
}

// wait takes places, and waits for them up to limit. The error is the problem of missing places, or that of ctx.
func (p *places[K]) wait(ctx context.Context, owner K, n int64, limit time.Duration) error {
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
	if p.patience > 0 {
		tick := time.NewTicker(p.patience)
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

// queue takes places, or joins the queue for them: then w is not nil.
func (p *places[K]) queue(owner K, n int64) (w *waiter[K], full *Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.try(owner, n) == lacksNothing {
		return nil, nil
	}
	if p.line > 0 && p.byOwner[owner]+p.inLine(owner) >= p.line {
		return nil, p.full(owner, false)
	}
	w = &waiter[K]{owner: owner, places: n, served: make(chan struct{})}
	p.waiting = append(p.waiting, w)
	return w, nil
}

// inLine returns the number of an owner's waiting requests. p.mu is held.
func (p *places[K]) inLine(owner K) (n int64) {
	for _, w := range p.waiting {
		if w.owner == owner {
			n++
		}
	}
	return n
}

// giveUp removes a request from the queue. It returns the reason for missing places; nil if the request got them
// meanwhile.
func (p *places[K]) giveUp(ctx context.Context, w *waiter[K]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.waiting, w)
	if err := ctx.Err(); err != nil {
		if at < 0 {
			p.giveBack(w.owner, w.places)
		} else {
			p.waiting = slices.Delete(p.waiting, at, at+1)
		}
		return err
	}
	if at < 0 {
		return nil
	}
	p.waiting = slices.Delete(p.waiting, at, at+1)
	if full := p.problem(w.owner, p.try(w.owner, w.places)); full != nil { // the missing kind of places decides the client's error
		return full
	}
	return nil
}

// leave returns one place of an owner.
func (p *places[K]) leave(owner K) { p.give(owner, 1) }

// give returns places of an owner.
func (p *places[K]) give(owner K, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveBack(owner, n)
}

// giveBack returns places, and serves the waiting requests that fit now. p.mu is held.
func (p *places[K]) giveBack(owner K, n int64) {
	p.taken -= n
	if p.byOwner[owner] -= n; p.byOwner[owner] == 0 {
		delete(p.byOwner, owner)
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(w *waiter[K]) bool {
		if p.try(w.owner, w.places) != lacksNothing {
			return false
		}
		close(w.served)
		return true
	})
}

// lend lets waiting requests end a loan, whose places its owner has.
func (p *places[K]) lend(l *loan[K]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loans = append(p.loans, l)
}

// shrink returns the places of a loan beyond size; none if the loan was ended. After size 0, no request ends the loan.
func (p *places[K]) shrink(l *loan[K], size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if size < l.places {
		p.giveBack(l.owner, l.places-size)
		l.places = size
	}
	if size == 0 {
		p.loans = slices.DeleteFunc(p.loans, func(one *loan[K]) bool { return one == l })
	}
}

// reclaim ends loans until a waiting request has its places, or until no owner has too many.
func (p *places[K]) reclaim(w *waiter[K], now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for slices.Contains(p.waiting, w) {
		l := p.excess(w, now)
		if l == nil {
			return
		}
		p.loans = slices.DeleteFunc(p.loans, func(one *loan[K]) bool { return one == l })
		n := l.places
		l.places = 0
		l.end()
		p.giveBack(l.owner, n) // may serve w
	}
}

// excess returns the oldest loan of the owner that holds most, nil if the owner of w would then hold more, unless that
// one has nothing. Loans younger than the patience do not count. p.mu is held.
func (p *places[K]) excess(w *waiter[K], now time.Time) (worst *loan[K]) {
	had := p.byOwner[w.owner]
	for _, l := range p.loans {
		held := p.byOwner[l.owner]
		switch {
		case l.owner == w.owner || now.Sub(l.since) < p.patience:
		case had > 0 && (had+w.places > p.perOwner || held <= had+w.places):
		case worst == nil || held > p.byOwner[worst.owner]:
			worst = l
		}
	}
	return worst
}
