package sources

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"deadman/checks"
	"deadman/checks/lookup"
)

// batch is the state of one query of a database, over several round trips if keys fail.
type batch struct {
	queries []lookup.KeyQuery
	found   []checks.Finding
	next    int  // keys before it are answered
	apart   bool // each key has its own transaction, because one has failed
	vast    int  // keys with results so large that they cost a connection
	lost    int  // keys that lost a connection
	stale   int  // round trips wasted since tables changed
}

// maxOversized is the maximum number of connections that a batch may cost by oversized results, and mostLost by lost
// connections.
const (
	maxOversized = 3
	mostLost     = 3
)

// answer records the finding of the next key.
func (b *batch) answer(f checks.Finding) {
	b.found[b.next] = f
	b.next++
}

// noteOversized records a key with a result so large that the connection was closed. After maxOversized of them it
// gives up the batch.
func (b *batch) noteOversized() {
	b.answer(checks.Finding{Err: errTooLong})
	if b.vast++; b.vast == maxOversized {
		b.giveUp(fmt.Errorf("not queried: %d keys before it returned more than %d KiB each; select only the fields that the rule reads", b.vast, mostMessage>>10))
	}
}

// lose records a key at which the connection to a reachable database was lost. After mostLost of them it gives up the
// batch.
func (b *batch) lose(err error) {
	if b.next == len(b.queries) {
		return // it was lost after the last answer
	}
	b.answer(checks.Finding{Err: err})
	if b.lost++; b.lost == mostLost {
		b.giveUp(fmt.Errorf("not queried: for %d keys before it, %w", b.lost, err))
	}
}

// giveUp answers the remaining keys with an error.
func (b *batch) giveUp(err error) {
	for b.next < len(b.queries) {
		b.answer(checks.Finding{Err: err})
	}
}

// done returns the result of the query: the findings, or an error of the source.
func (b *batch) done(err error) ([]checks.Finding, error) {
	if err != nil {
		return nil, err
	}
	return b.found, nil
}

// refusal returns the query's error if all keys failed because of the query.
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
