package futurejobs

import (
	"context"
	"time"
)

// Node is one running process.
type Node struct {
	ID        string
	Name      string // host and pid, for people
	Version   string
	StartedAt time.Time
	SeenAt    time.Time
	ExpiresAt time.Time
	Doing     string // what it is checking at the moment, JSON
	Unfit     string // why it should hold no shards; empty: it is fit
	Schema    int64  // the newest version of the schema that its program knows; it works with one more
	// Unreadable are the versions of rules that the node cannot read, as JSON; empty: none.
	Unreadable string
}

// Lease is who holds a shard.
type Lease struct {
	HeldShard
	Node      string // empty: free
	ExpiresAt time.Time
	LowWater  time.Time // no job is due before this slot, but what came in late
	Swept     time.Time // what was due by then was settled, unless it waits for its stream, a source or a handler; zero: it was never swept
	Expired   bool      // by the database's time

	Left time.Duration // until it expires, by the database's time
}

// Leases is the lease table. Implementations are safe for concurrent use.
type Leases interface {
	// Beat registers the node for another d and returns the live nodes, by id.
	Beat(ctx context.Context, n Node, d time.Duration) ([]Node, error)
	// Leases returns all shards, in order.
	Leases(ctx context.Context) ([]Lease, error)
	// Renew prolongs the node's leases by d and stores their low water and how far they are swept. It returns those
	// that are still the node's.
	Renew(ctx context.Context, node string, held []Lease, d time.Duration) ([]HeldShard, error)
	// Take takes one shard over from the epoch that was seen, if it is free or expired.
	// ok is false when somebody else was faster.
	Take(ctx context.Context, node string, seen HeldShard, d time.Duration) (got Lease, ok bool, err error)
	// Free ends the lease of another node that has not changed since it was seen. ok is false where it has.
	Free(ctx context.Context, seen Lease) (ok bool, err error)
	// Release gives shards back, with their low water, and is no error for lost ones.
	Release(ctx context.Context, node string, held []Lease) error
	// Leave removes the node's entry.
	Leave(ctx context.Context, node string) error
}
