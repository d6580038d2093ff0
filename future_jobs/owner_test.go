package futurejobs_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

type leases interface{ futurejobs.Leases }

// slowLeases is a lease table with late answers, unreachable after some renewals.
type slowLeases struct {
	leases
	late     time.Duration
	renewals int
}

// Take implements futurejobs.Leases.
func (s *slowLeases) Take(ctx context.Context, node string, held futurejobs.HeldShard, lease time.Duration) (futurejobs.Lease, bool, error) {
	l, ok, err := s.leases.Take(ctx, node, held, lease)
	time.Sleep(s.late)
	return l, ok, err
}

// Renew implements futurejobs.Leases.
func (s *slowLeases) Renew(ctx context.Context, node string, held []futurejobs.Lease, lease time.Duration) ([]futurejobs.HeldShard, error) {
	if s.renewals--; s.renewals < 0 && ctx.Err() == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	kept, err := s.leases.Renew(ctx, node, held, lease)
	time.Sleep(s.late)
	return kept, err
}

// A lease is counted from before the request. Counted from the answer, a node would continue to read a stream that
// another node has taken over.
func TestLeaseCountsFromRequestTime(t *testing.T) {
	const lease = 15 * time.Second
	for name, on := range map[string]slowLeases{
		"taken":   {late: 9 * time.Second, renewals: 1}, // the first heartbeat renews nothing
		"renewed": {late: 9 * time.Second, renewals: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := store.Open(t.Context(), store.Options{DataDir: storetest.DataDir(t), Shards: 1, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				on.leases = s
				owner := futurejobs.NewOwner(&on, futurejobs.Node{ID: "n", Name: "n"}, lease, time.Now, slog.New(slog.DiscardHandler))
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- owner.Run(ctx) }()
				for range 60 {
					time.Sleep(time.Second)
					if owner.Holds(0) && leaseExpired(t, s) {
						t.Errorf("%s: the node holds a shard whose lease is over in the table", time.Now().Format(time.TimeOnly))
						break
					}
				}
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestLostShardsAreCounted lets a lease expire while the node cannot renew it and another node takes the shard. Shards that
// a node gives back are not lost.
func TestLostShardsAreCounted(t *testing.T) {
	const lease = 15 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(t.Context(), store.Options{DataDir: storetest.DataDir(t), Shards: 1, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		owner := futurejobs.NewOwner(s, futurejobs.Node{ID: "n", Name: "n"}, lease, time.Now, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- owner.Run(ctx) }()
		time.Sleep(lease)
		table, err := s.Leases(t.Context())
		if err != nil || table[0].Node != "n" || owner.Lost() != 0 {
			t.Fatalf("%v, %+v; %d shards are lost", err, table, owner.Lost())
		}
		if ok, err := s.Free(t.Context(), table[0]); err != nil || !ok {
			t.Fatalf("the lease was not ended: %t, %v", ok, err)
		}
		if _, ok, err := s.Take(t.Context(), "other", table[0].HeldShard, lease); err != nil || !ok {
			t.Fatalf("the other node did not take the shard: %t, %v", ok, err)
		}
		time.Sleep(lease)
		if owner.Lost() != 1 {
			t.Errorf("%d shards are lost, want 1", owner.Lost())
		}
		stop()
		if err := <-done; err != nil || owner.Lost() != 1 {
			t.Errorf("%v; %d shards are lost after the end, want 1", err, owner.Lost())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// refusedLeases are leases of which one shard cannot be taken.
type refusedLeases struct {
	*store.Store
	shard int16
}

func (l refusedLeases) Take(ctx context.Context, node string, h futurejobs.HeldShard, lease time.Duration) (futurejobs.Lease, bool, error) {
	if h.Shard == l.shard {
		return futurejobs.Lease{}, false, errors.New("the database does not answer in time")
	}
	return l.Store.Take(ctx, node, h, lease)
}

// A node starts with the shards that it took before it failed to take another one: the sweep of these would wait for its next
// slot otherwise.
func TestShardsTakenBeforeFailureAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(t.Context(), store.Options{DataDir: storetest.DataDir(t), Shards: 2, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		owner := futurejobs.NewOwner(refusedLeases{s, 1}, futurejobs.Node{ID: "n", Name: "n"}, 15*time.Second, time.Now, slog.New(slog.DiscardHandler))
		var changes atomic.Int32
		owner.Changed = func() { changes.Add(1) }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- owner.Run(ctx) }()
		time.Sleep(time.Minute)
		if !owner.Holds(0) || owner.Holds(1) || changes.Load() != 1 {
			t.Errorf("the node holds shard 0: %t, shard 1: %t; %d changes were reported, want 1", owner.Holds(0), owner.Holds(1), changes.Load())
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func leaseExpired(t *testing.T, s *store.Store) bool {
	t.Helper()
	table, err := s.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return table[0].Node != "" && table[0].Expired
}
