package lookup

import (
	"context"
	"errors"
	"sync"
)

// errAllStuck means that none of the client's calls return.
var errAllStuck = errors.New("all concurrent calls were abandoned and have not returned; the source is queried again when one returns")

// semaphore bounds the concurrent calls of a client. An abandoned call keeps its place until it returns.
type semaphore struct {
	held chan struct{} // one value for each place taken

	mu        sync.Mutex
	abandoned int
	stuck     chan struct{} // closed while all places are held by abandoned calls
}

func newSemaphore(limit int) *semaphore {
	return &semaphore{held: make(chan struct{}, limit), stuck: make(chan struct{})}
}

// acquire blocks until a place is free. It returns errAllStuck if all calls are abandoned, or the cause of ctx's end.
func (p *semaphore) acquire(ctx context.Context) error {
	p.mu.Lock()
	stuck := p.stuck
	p.mu.Unlock()
	select {
	case p.held <- struct{}{}:
		return nil
	case <-stuck:
		return errAllStuck
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release frees a place.
func (p *semaphore) release() { <-p.held }

// abandon leaves a place to an abandoned call until the call returns.
func (p *semaphore) abandon(returned <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.abandoned++; p.abandoned == cap(p.held) {
		close(p.stuck)
	}
	go func() {
		<-returned
		p.unstick()
	}()
}

// unstick frees the place of an abandoned call that returned.
func (p *semaphore) unstick() {
	p.mu.Lock()
	if p.abandoned--; p.abandoned == cap(p.held)-1 {
		p.stuck = make(chan struct{})
	}
	p.mu.Unlock()
	p.release()
}

// areStuck reports whether abandoned calls hold all places.
func (p *semaphore) areStuck() bool {
	taken, abandoned := p.count()
	return taken == 0 && abandoned == cap(p.held)
}

// count returns the numbers of running and of abandoned calls.
func (p *semaphore) count() (running, abandoned int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(len(p.held)-p.abandoned, 0), p.abandoned
}
