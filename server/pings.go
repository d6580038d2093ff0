package server

import (
	"context"

	futurejobs "deadman/future_jobs"
	"deadman/internal/pings"
)

// pinging is who finds out whose pings are, who takes them in, and who writes their log.
type pinging struct {
	*pings.Finder
	*pings.Taker
	writer *pings.Writer
	missed func() // a ping came and could not be kept
}

// Find finds whose a ping is.
func (p *pinging) Find(ctx context.Context, path pings.Path, create bool) (to pings.Target, says pings.Signal, created bool, err error) {
	to, says, created, err = p.Finder.Find(ctx, path, create)
	p.note(err)
	return to, says, created, err
}

// Take takes a ping in.
func (p *pinging) Take(ctx context.Context, ping pings.Ping) error {
	err := p.Taker.Take(ctx, ping)
	p.note(err)
	return err
}

// note notes that somebody was not heard, unless that is the sender's own doing. It puts all alarms
// off that wait for pings, so nothing that a stranger does may come to it.
func (p *pinging) note(err error) {
	if err != nil && !pings.FaultOf(err).Senders() {
		p.missed()
	}
}

// openPings puts the parts together that take pings in.
func (n *node) openPings() *pinging {
	writer := &pings.Writer{Store: n.store, Log: n.log}
	return &pinging{
		Finder: &pings.Finder{Store: n.store, Book: n.book, Now: n.clock.Now},
		Taker: pings.NewTaker(pings.Taker{
			Book: n.book, Ledger: n.ledger(), Shards: n.store.Shards(), Now: n.clock.Now, Observer: beaten{n}, Log: writer,
		}),
		writer: writer, missed: n.hearing.Missed,
	}
}

// beaten is told what pings came to.
type beaten struct{ *node }

// Beaten implements pings.Observer.
func (b beaten) Beaten(done futurejobs.Applied) { b.tell(done) }
