package bus

import (
	"log/slog"
	"sync"
)

// maxRememberedErrors bounds the errors remembered as logged.
const maxRememberedErrors = 64

// reconnectLog logs errors of reconnecting without repetition. The client retries twice a second, and repeated lines
// would hide all others.
type reconnectLog struct {
	mu   sync.Mutex
	said map[string]bool
}

// say logs an error unless it was logged since the last connection, and returns it.
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

// over clears the remembered errors after a successful connection.
func (p *reconnectLog) over() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.said)
}
