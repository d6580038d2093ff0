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
	mu     sync.Mutex
	logged map[string]bool
}

// logOnce logs an error unless it was logged since the last connection, and returns it.
func (p *reconnectLog) logOnce(log *slog.Logger, err error) error {
	if err == nil {
		return nil
	}
	p.mu.Lock()
	first := !p.logged[err.Error()]
	if p.logged == nil || len(p.logged) >= maxRememberedErrors {
		p.logged = make(map[string]bool)
	}
	p.logged[err.Error()] = true
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
	clear(p.logged)
}
