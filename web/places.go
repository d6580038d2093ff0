package web

import (
	"context"
	"slices"
	"sync"
	"time"
)

// places bounds what a node does at a time of one kind, for each owner and for all. A place is one request, or a byte of an answer. Requests
// wait in order, and are refused where they wait too long. It is safe for concurrent use.
type places[K comparable] struct {
	perNode, perOwner int64
	// full is why there is no place: the owner has all that it may have, or the node has.
	full func(owner K, node bool) *Problem
	free K // the owner who is bounded by the node alone
	// fair leaves an owner no more places than it leaves free for others of its kind, guests or not: each further owner still finds some, as
	// long as half of what is free is a place.
	fair bool
	// kept is how many places of the node are for owners that guest does not report; nil: for all.
	kept  int64
	guest func(owner K) bool
	line  int64 // how many requests of an owner may have a place or wait for one; 0: any number

	mu      sync.Mutex
	taken   int64
	byOwner map[K]int64
	waiting []*waiter[K] // first come first; none of them fits
}

// waiter is a request that waits for places.
type waiter[K comparable] struct {
	owner  K
	places int64
	served chan struct{} // closed when it has them
}

// take takes a place, or returns the problem that there is none.
func (p *places[K]) take(owner K) *Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problem(owner, p.try(owner, 1))
}

// lack is why there are too few places: an owner has all that it may have, or the node has.
type lack int

const (
	lacksNothing lack = iota
	lacksOwn
	lacksNodes
)

// problem is the problem that there are too few places; nil: there were enough.
func (p *places[K]) problem(owner K, l lack) *Problem {
	if l == lacksNothing {
		return nil
	}
	return p.full(owner, l == lacksNodes)
}

// try takes places, or returns why there are too few. p.mu is held.
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

// wait takes places, and waits for them for a while. The error is the problem that there were too few, or that ctx is done.
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

// queue takes places, or waits in line for them: then w is not nil.
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

// inLine is how many requests of an owner wait. p.mu is held.
func (p *places[K]) inLine(owner K) (n int64) {
	for _, w := range p.waiting {
		if w.owner == owner {
			n++
		}
	}
	return n
}

// giveUp takes a request out of the line. It returns why the request has no places; nil: it was served at the last moment.
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
	if full := p.problem(w.owner, p.try(w.owner, w.places)); full != nil { // whose places are taken decides what the client is told
		return full
	}
	return nil
}

// leave gives the place of an owner back.
func (p *places[K]) leave(owner K) { p.give(owner, 1) }

// give gives places of an owner back.
func (p *places[K]) give(owner K, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveBack(owner, n)
}

// giveBack gives places back, and serves those in line for whom there are enough now. p.mu is held.
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
