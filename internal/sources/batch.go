package sources

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"deadman/checks"
	"deadman/checks/lookup"
)

// batch is what a database is asked in one Ask, over several round trips where keys fail.
type batch struct {
	asks  []lookup.KeyQuery
	found []checks.Finding
	next  int  // those before it are answered
	apart bool // each key has a transaction of its own, since one has failed
	vast  int  // keys that cost a connection, by finding too much
	lost  int  // keys whose connection was lost
	stale int  // round trips in vain, since tables changed
}

// mostVast is how many connections a batch may cost by finding far too much; mostLost is how many may be lost.
const (
	maxOversized = 3
	mostLost     = 3
)

// answer is about the next key.
func (b *batch) answer(f checks.Finding) {
	b.found[b.next] = f
	b.next++
}

// noteOversized notes a key that found so much that the connection was given up, and gives the rest of
// the batch up after some of them.
func (b *batch) noteOversized() {
	b.answer(checks.Finding{Err: errTooLong})
	if b.vast++; b.vast == maxOversized {
		b.giveUp(fmt.Errorf("not asked: %d keys before it found more than %d KiB each; ask for the few fields that the rule reads", b.vast, mostMessage>>10))
	}
}

// lose notes a key at which the connection was lost to a database that can be reached, and gives the rest of the batch up
// after some of them.
func (b *batch) lose(err error) {
	if b.next == len(b.asks) {
		return // it was lost behind the last answer
	}
	b.answer(checks.Finding{Err: err})
	if b.lost++; b.lost == mostLost {
		b.giveUp(fmt.Errorf("not asked: at %d keys before it, %w", b.lost, err))
	}
}

// giveUp answers the keys that are left.
func (b *batch) giveUp(err error) {
	for b.next < len(b.asks) {
		b.answer(checks.Finding{Err: err})
	}
}

// done is what Ask returns: what was found, or an error of the source.
func (b *batch) done(err error) ([]checks.Finding, error) {
	if err != nil {
		return nil, err
	}
	return b.found, nil
}

// refusal is that of the query, if no key passes because of it.
func (b *batch) refusal(query string) error {
	var pg *pgconn.PgError
	for _, f := range b.found {
		if !errors.As(f.Err, &pg) || blamed(pg) != scopeQuery {
			return nil
		}
	}
	if pg == nil {
		return nil
	}
	return refusedQuery(query, pg)
}
