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

	mu      sync.Mutex
	taken   int64
	byOwner map[K]int64
	waiting []*waiter[K] // in order of arrival; none of them fits
}

// waiter is a request that waits for places.
type waiter[K comparable] struct {
	owner  K
	places int64
	served chan struct{} // closed when it has them
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
	if p.byOwner == nil {
		p.byOwner = make(map[K]int64)
	}
	p.taken += n
	p.byOwner[owner] += n
	return lacksNothing
}

// wait takes places, and waits for them up to most. The error is the problem of missing places, or that of ctx.
func (p *places[K]) wait(ctx context.Context, owner K, n int64, most time.Duration) error {
	w, full := p.queue(owner, n)
	if w == nil {
		if full != nil {
			return full
		}
		return nil
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-w.served:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	return p.giveUp(ctx, w)
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
