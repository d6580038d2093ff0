package rules

import (
	"context"
	"sync"
)

// parsingAtOnce is how many texts and documents of rules a registry compiles at a time. One may take tens of megabytes
// and seconds.
const parsingAtOnce = 2

// replaysAtOnce is how many saves of a registry replay streams at a time: each has a consumer on the connection of the
// events, and up to maxPastBytes of jobs in memory until they are created.
const replaysAtOnce = 2

// semaphore bounds how many calls run at a time. The zero value is ready to be used.
type semaphore struct {
	once sync.Once
	free chan struct{}
}

// do runs work in one of atOnce permits, unless ctx ends before; if ctx ends while it runs, the result is of no use.
func (l *semaphore) do(ctx context.Context, atOnce int, work func()) error {
	l.once.Do(func() { l.free = make(chan struct{}, atOnce) })
	select {
	case l.free <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.free }()
	work()
	return ctx.Err()
}
