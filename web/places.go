package web

import (
	"context"
	"sync"
	"time"
)

// places counts what a node does at a time of one kind, for each owner, and refuses what is beyond its bounds. It is safe for
// concurrent use.
type places[K comparable] struct {
	perNode, perOwner int
	// full is why there is no place: the owner has all that it may have, or the node has.
	full func(owner K, node bool) *Problem
	free K // the owner who is bounded by the node alone
	// kept is how many places of the node are for owners that guest does not report; nil: for all.
	kept  int
	guest func(owner K) bool

	mu      sync.Mutex
	taken   int
	byOwner map[K]int
	left    chan struct{} // closed when a place is given back; nil: nobody waits
}

// take takes a place, or returns the problem that there is none.
func (p *places[K]) take(owner K) *Problem {
	full, _ := p.try(owner)
	return full
}

// try is take; left is closed when it may be tried again.
func (p *places[K]) try(owner K) (full *Problem, left <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case owner != p.free && p.byOwner[owner] >= p.perOwner:
		full = p.full(owner, false)
	case p.taken >= p.perNode, p.guest != nil && p.guest(owner) && p.taken >= p.perNode-p.kept:
		full = p.full(owner, true)
	default:
		if p.byOwner == nil {
			p.byOwner = make(map[K]int)
		}
		p.taken++
		p.byOwner[owner]++
		return nil, nil
	}
	if p.left == nil {
		p.left = make(chan struct{})
	}
	return full, p.left
}

// wait takes a place, and waits for one for a while. The error is the problem that there was none, or that ctx is done.
func (p *places[K]) wait(ctx context.Context, owner K, most time.Duration) error {
	late := time.NewTimer(most)
	defer late.Stop()
	for {
		full, left := p.try(owner)
		if full == nil {
			return nil
		}
		select {
		case <-left:
		case <-late.C:
			return full
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leave gives the place of an owner back.
func (p *places[K]) leave(owner K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.byOwner[owner]--; p.byOwner[owner] == 0 {
		delete(p.byOwner, owner)
	}
	if p.left != nil {
		close(p.left)
		p.left = nil
	}
}
