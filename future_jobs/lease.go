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
	Running   string // the checks that are running, as JSON
	Unfit     string // the reason why it should hold no shards; empty: it is fit
	Schema    int64  // the newest schema version that the program knows; it also works with the one after it
	// Unreadable lists the versions of rules that the node cannot read, as JSON; empty: none.
	Unreadable string
}

// Lease records the node that holds a shard.
type Lease struct {
	HeldShard
	Node      string // empty: free
	ExpiresAt time.Time
	LowWater  time.Time // no job is due before this slot, except late arrivals
	Swept     time.Time // all jobs due by then were settled, unless they wait for a stream, a source or a handler; zero: never swept
	Expired   bool      // by the database's time

	Left time.Duration // until it expires, by the database's time
}

// isFree reports whether a node may take the shard.
func (l Lease) isFree() bool { return l.Node == "" || l.Expired }

// numbers returns the shards of leases.
func numbers(leases []Lease) []int16 {
	n := make([]int16, len(leases))
	for i, l := range leases {
		n[i] = l.Shard
	}
	return n
}

// Leases is the lease table. Implementations are safe for concurrent use.
type Leases interface {
	// Heartbeat registers the node for another d and returns the live nodes, by id.
	Heartbeat(ctx context.Context, n Node, d time.Duration) ([]Node, error)
	// Leases returns all shards, in order.
	Leases(ctx context.Context) ([]Lease, error)
	// Renew prolongs the node's leases by d and stores their low water and sweep progress. It returns the shards that
	// the node still holds.
	Renew(ctx context.Context, node string, held []Lease, d time.Duration) ([]HeldShard, error)
	// Take takes one shard over from the epoch in seen, if it is free or expired. ok is false if another node was
	// faster.
	Take(ctx context.Context, node string, seen HeldShard, d time.Duration) (got Lease, ok bool, err error)
	// Free ends the lease of another node if it has not changed since it was read. ok is false if it has.
	Free(ctx context.Context, seen Lease) (ok bool, err error)
	// Release gives shards back, with their low water. Lost shards are not an error.
	Release(ctx context.Context, node string, held []Lease) error
	// Leave removes the node's entry.
	Leave(ctx context.Context, node string) error
}
