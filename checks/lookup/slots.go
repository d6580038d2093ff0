package lookup

import (
	"context"
	"errors"
	"sync"
)

// errAllStuck means that a client returns from nothing that it was asked.
var errAllStuck = errors.New("all that may be asked at once was abandoned and has not returned; it is asked again when one has")

// semaphore bound how many calls of a client are on their way. One that is abandoned keeps its
// place until it returns.
type semaphore struct {
	held chan struct{} // a value for each that is taken

	mu        sync.Mutex
	abandoned int
	stuck     chan struct{} // closed while all are abandoned
}

func newPlaces(most int) *semaphore {
	return &semaphore{held: make(chan struct{}, most), stuck: make(chan struct{})}
}

// acquire waits for a place. It returns errStuck where none can be waited for, and the error of
// ctx.
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

// release gives a place back.
func (p *semaphore) release() { <-p.held }

// abandon leaves a place to a call until that has returned.
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

// unstick takes back the place of an abandoned call that returned.
func (p *semaphore) unstick() {
	p.mu.Lock()
	if p.abandoned--; p.abandoned == cap(p.held)-1 {
		p.stuck = make(chan struct{})
	}
	p.mu.Unlock()
	p.release()
}

// areStuck reports whether all places are those of abandoned calls.
func (p *semaphore) areStuck() bool {
	taken, abandoned := p.count()
	return taken == 0 && abandoned == cap(p.held)
}

// count is how many calls are on their way, and how many were abandoned.
func (p *semaphore) count() (running, abandoned int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(len(p.held)-p.abandoned, 0), p.abandoned
}
