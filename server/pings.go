package server

import (
	"context"

	futurejobs "deadman/future_jobs"
	"deadman/internal/pings"
)

// pingHandler resolves, receives and logs pings.
type pingHandler struct {
	*pings.Resolver
	*pings.Receiver
	writer *pings.LogWriter
	missed func() // called if a ping was received and could not be stored
}

// Resolve finds the target of a ping.
func (p *pingHandler) Resolve(ctx context.Context, path pings.Path, create bool) (to pings.Target, signal pings.Signal, created bool, err error) {
	to, signal, created, err = p.Resolver.Resolve(ctx, path, create)
	p.noteLost(err)
	return to, signal, created, err
}

// Receive stores a ping.
func (p *pingHandler) Receive(ctx context.Context, ping pings.Ping) error {
	err := p.Receiver.Receive(ctx, ping)
	p.noteLost(err)
	return err
}

// noteLost records a ping gap for an error, unless the client caused it. A gap postpones all alerts about missing
// pings, so a request by a stranger must never record one.
func (p *pingHandler) noteLost(err error) {
	if err != nil && !pings.ErrorInfoOf(err).IsClientError() {
		p.missed()
	}
}

// pingObserver receives the results of pings.
type pingObserver struct{ *manualJobs }

// Pinged implements pings.Observer.
func (b pingObserver) Pinged(done futurejobs.ApplyResult) { b.observeApplied(done) }
