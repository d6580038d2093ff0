package futurejobs

import (
	"context"
	"errors"
	"time"
)

// ErrRulesChanged means that the rule set is no longer at the revision that was evaluated.
// Nothing was written; refresh the rules and decide again.
var ErrRulesChanged = errors.New("the rules changed meanwhile")

// Held is a shard that a node holds, at the epoch it holds it.
type Held struct {
	Shard int16
	Epoch int64
}

// Walk is where a sweep of one shard stands: due jobs after (At, ID) are still to be read.
type Walk struct {
	Shard int16
	At    time.Time
	ID    int64
}

// DueQuery asks for due jobs.
type DueQuery struct {
	Walks []Walk    // one a shard
	Until time.Time // jobs due up to and including this instant
	Not   []Edition // versions of rules whose jobs are left out, because they have to wait
	Limit int       // for each shard
}

// Edition is one version of a rule.
type Edition struct{ RuleID, Version int32 }

// Settlement is a batch of decisions, and what must still hold for them to count.
type Settlement struct {
	Held      []Held // the shards of the decisions
	RuleSet   int64  // the revision that was evaluated
	Decisions []Decision
}

// Settled says which decisions were taken. The others found their job changed or their
// shard lost; nothing of them was written, alerts included.
type Settled struct {
	Jobs   map[int64]bool // by job id
	Alerts int            // alert rows written
	Lost   []int16        // shards no longer held
}

// Queue is the future_job table as the sweeper sees it. Implementations are safe for
// concurrent use.
type Queue interface {
	// Due returns due jobs in the order of (shard, next_check_at, id).
	Due(ctx context.Context, q DueQuery) ([]Job, error)
	// Settle writes decisions, their history and their alerts in one transaction, under
	// the fence: shards held at their epoch and not expired, jobs at their rev.
	// It returns ErrRulesChanged when the rule set moved.
	Settle(ctx context.Context, s Settlement) (Settled, error)
	// ReadThrough returns, by stream, the database time up to which intake has read it.
	ReadThrough(ctx context.Context) (map[string]time.Time, error)
	// Now returns the database's time.
	Now(ctx context.Context) (time.Time, error)
}

// Node is one running process.
type Node struct {
	ID        string
	Name      string // host and pid, for people
	Version   string
	StartedAt time.Time
	SeenAt    time.Time
	ExpiresAt time.Time
	Doing     string // what it is checking at the moment, JSON
}

// Lease is who holds a shard.
type Lease struct {
	Held
	Node      string // empty: free
	ExpiresAt time.Time
	LowWater  time.Time // no job is due before this slot, but what came in late
	Expired   bool      // by the database's time
}

// Leases is the lease table. Implementations are safe for concurrent use.
type Leases interface {
	// Beat registers the node for another d and returns the live nodes, by id.
	Beat(ctx context.Context, n Node, d time.Duration) ([]Node, error)
	// Leases returns all shards, in order.
	Leases(ctx context.Context) ([]Lease, error)
	// Renew prolongs the node's leases by d and stores their low water. It returns those
	// that are still the node's.
	Renew(ctx context.Context, node string, held []Lease, d time.Duration) ([]Held, error)
	// Take takes one shard over from the epoch that was seen, if it is free or expired.
	// ok is false when somebody else was faster.
	Take(ctx context.Context, node string, seen Held, d time.Duration) (got Lease, ok bool, err error)
	// Release gives shards back, with their low water, and is no error for lost ones.
	Release(ctx context.Context, node string, held []Lease) error
	// Leave removes the node's entry.
	Leave(ctx context.Context, node string) error
}
