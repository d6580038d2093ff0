package bus

import (
	"log/slog"
	"sync"
)

// maxRememberedErrors bounds how many errors are remembered as said.
const maxRememberedErrors = 64

// reconnectLog is what keeps a connection from being made again. The client tries twice a second, and
// the same words twice a second would hide all others.
type reconnectLog struct {
	mu   sync.Mutex
	said map[string]bool
}

// say logs an error that was not said since the connection was there, and returns it.
func (p *reconnectLog) say(log *slog.Logger, err error) error {
	if err == nil {
		return nil
	}
	p.mu.Lock()
	first := !p.said[err.Error()]
	if p.said == nil || len(p.said) >= maxRememberedErrors {
		p.said = make(map[string]bool)
	}
	p.said[err.Error()] = true
	p.mu.Unlock()
	if first {
		log.Error("NATS connection", "err", err)
	}
	return err
}

// over means that the connection is there again.
func (p *reconnectLog) over() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.said)
}
