package server

import (
	"context"

	futurejobs "deadman/future_jobs"
	"deadman/internal/pings"
)

// pingHandler is who finds out whose pings are, who takes them in, and who writes their log.
type pingHandler struct {
	*pings.Resolver
	*pings.Receiver
	writer *pings.LogWriter
	missed func() // a ping came and could not be kept
}

// Resolve finds whose a ping is.
func (p *pingHandler) Resolve(ctx context.Context, path pings.Path, create bool) (to pings.Target, says pings.Signal, created bool, err error) {
	to, says, created, err = p.Resolver.Resolve(ctx, path, create)
	p.noteLost(err)
	return to, says, created, err
}

// Receive takes a ping in.
func (p *pingHandler) Receive(ctx context.Context, ping pings.Ping) error {
	err := p.Receiver.Receive(ctx, ping)
	p.noteLost(err)
	return err
}

// noteLost notes that somebody was not heard, unless that is the sender's own doing. It puts all alarms
// off that wait for pings, so nothing that a stranger does may come to it.
func (p *pingHandler) noteLost(err error) {
	if err != nil && !pings.ErrorInfoOf(err).IsClientError() {
		p.missed()
	}
}

// openPings puts the parts together that take pings in.
func (n *node) openPings() *pingHandler {
	writer := &pings.LogWriter{Store: n.store, Log: n.log}
	return &pingHandler{
		Resolver: &pings.Resolver{Store: n.store, Book: n.book, Now: n.clock.Now},
		Receiver: pings.NewTaker(pings.Receiver{
			Book: n.book, Ledger: n.ledger(), Shards: n.store.Shards(), Now: n.clock.Now, Observer: pingObserver{n}, Log: writer,
		}),
		writer: writer, missed: n.hearing.MarkMissed,
	}
}

// pingObserver is told what pings came to.
type pingObserver struct{ *node }

// Beaten implements pings.Observer.
func (b pingObserver) Beaten(done futurejobs.ApplyResult) { b.observeApplied(done) }
