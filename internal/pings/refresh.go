package pings

import (
	"context"
	"sync"
	"sync/atomic"
)

// ruleRefresher has the rules read anew for whoever is to know of all that was saved before it asked. All
// who ask while they are read have them read once more, together: who guesses keys asks the database
// no faster than it answers. The zero value is ready.
type ruleRefresher struct {
	reading sync.Mutex
	begun   atomic.Int64 // how often they were read, or are being read
}

// refresh returns once the rules are read, by a reading that began after the call.
func (n *ruleRefresher) refresh(ctx context.Context, book Book) error {
	came := n.begun.Load()
	n.reading.Lock()
	defer n.reading.Unlock()
	if n.begun.Load() > came {
		return nil
	}
	n.begun.Add(1)
	err := book.Refresh(ctx)
	if err != nil {
		n.begun.Add(-1) // nobody else has them by that
	}
	return err
}
