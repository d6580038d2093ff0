package futurejobs_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// clusterNode is a node of a cluster that only holds shards.
type clusterNode struct {
	*futurejobs.Owner
	reason atomic.Pointer[string]
	link   lossyLink
}

// lossyLink is the way of a node to the leases in the database, which may fail.
type lossyLink struct {
	*store.Store
	isCut atomic.Bool
}

func (l *lossyLink) Leases(ctx context.Context) ([]futurejobs.Lease, error) {
	if l.isCut.Load() {
		return nil, store.ErrUnavailable
	}
	return l.Store.Leases(ctx)
}

func (m *clusterNode) setUnfit(reason string) { m.reason.Store(&reason) }

const clusterLease = 15 * time.Second

// runCluster runs nodes on one real SQLite store with twelve shards, in virtual time.
func runCluster(t *testing.T, play func(t *testing.T, s *store.Store, nodes map[string]*clusterNode), ids ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(t.Context(), store.Options{DataDir: storetest.DataDir(t), Shards: 12, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		nodes := make(map[string]*clusterNode)
		ended := make(chan error, len(ids))
		for _, id := range ids {
			m := &clusterNode{}
			m.link.Store = s
			m.Owner = futurejobs.NewOwner(&m.link, futurejobs.Node{ID: id, Name: id}, clusterLease, time.Now, slog.New(slog.DiscardHandler))
			m.setUnfit("")
			m.Unfit = func() string { return *m.reason.Load() }
			nodes[id] = m
			go func() { ended <- m.Run(ctx) }()
		}
		defer func() {
			cancel()
			for range ids {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(clusterLease)
		wantShares(t, nodes, "at the start", 12/len(ids))
		play(t, s, nodes)
	})
}

// wantShares requires the number of shards of each node: one figure for all, or one for each in the order of ids.
func wantShares(t *testing.T, nodes map[string]*clusterNode, when string, want ...int) {
	t.Helper()
	synctest.Wait()
	for i, id := range []string{"a", "b", "c"}[:len(nodes)] {
		if got := len(nodes[id].Holding()); got != want[min(i, len(want)-1)] {
			t.Errorf("%s: node %s holds %d shards, want %d", when, id, got, want[min(i, len(want)-1)])
		}
	}
}

func TestUnfitNodeHandsOverItsShards(t *testing.T) {
	runCluster(t, func(t *testing.T, s *store.Store, nodes map[string]*clusterNode) {
		nodes["b"].setUnfit("it cannot settle")
		time.Sleep(clusterLease)
		wantShares(t, nodes, "a lease after b became unfit", 6, 0, 6)
		live, err := s.Nodes(t.Context())
		if err != nil || len(live) != 3 || live[0].Unfit != "" || live[1].Unfit != "it cannot settle" {
			t.Errorf("the nodes: %+v, %v", live, err)
		}
		nodes["b"].setUnfit("")
		time.Sleep(clusterLease)
		wantShares(t, nodes, "while b rests", 6, 0, 6)
		time.Sleep(2 * clusterLease)
		wantShares(t, nodes, "after its rest", 4)
	}, "a", "b", "c")
}

// If all nodes are unfit for the same cause, no shards move.
func TestNodesThatAreAllUnfitKeepTheirShards(t *testing.T) {
	runCluster(t, func(t *testing.T, _ *store.Store, nodes map[string]*clusterNode) {
		begun := time.Now()
		for _, id := range []string{"a", "b", "c"} { // they do not detect it at the same time
			nodes[id].setUnfit("it cannot reach the broker")
			time.Sleep(1300 * time.Millisecond)
		}
		for time.Since(begun) < 10*clusterLease {
			time.Sleep(time.Second)
			wantShares(t, nodes, time.Since(begun).String()+" after the cause began", 4)
		}
		for _, m := range nodes {
			m.setUnfit("")
		}
		for begun = time.Now(); time.Since(begun) < 4*clusterLease; {
			time.Sleep(time.Second)
			wantShares(t, nodes, time.Since(begun).String()+" after the cause ended", 4)
		}
	}, "a", "b", "c")
}

// After an outage of the database that outlasted all leases, all nodes are unfit, and no report of an earlier fitness is live: the
// nodes take the shards at once.
func TestUnfitNodesTakeShardsAfterOutageOfDatabase(t *testing.T) {
	runCluster(t, func(t *testing.T, _ *store.Store, nodes map[string]*clusterNode) {
		for _, m := range nodes {
			m.link.isCut.Store(true)
		}
		time.Sleep(clusterLease)
		for _, m := range nodes {
			m.setUnfit("decided jobs cannot be settled")
		}
		time.Sleep(clusterLease / 2)
		wantShares(t, nodes, "during the outage", 0)
		for _, m := range nodes {
			m.link.isCut.Store(false)
		}
		time.Sleep(2500 * time.Millisecond)
		held := 0
		for _, m := range nodes {
			held += len(m.Holding())
		}
		if held != 12 {
			t.Errorf("%d shards are held soon after the outage, want 12", held)
		}
		time.Sleep(clusterLease)
		wantShares(t, nodes, "after the outage", 4)
	}, "a", "b", "c")
}

// A node that fails again each time it holds shards holds them less and less often.
func TestRelapsesMakeNodeRestLonger(t *testing.T) {
	runCluster(t, func(t *testing.T, _ *store.Store, nodes map[string]*clusterNode) {
		b := nodes["b"]
		held, spells := 0, 0
		var failing, since time.Time
		for begun := time.Now(); time.Since(begun) < 30*time.Minute; time.Sleep(time.Second) {
			switch holds := len(b.Holding()) > 0; {
			case !holds:
				if !since.IsZero() {
					spells++
				}
				since = time.Time{}
				b.setUnfit("")
			case since.IsZero():
				since = time.Now()
				fallthrough
			default:
				held++
				if failing = since.Add(clusterLease); !time.Now().Before(failing) {
					b.setUnfit("it cannot settle")
				}
			}
		}
		if spells < 3 || spells > 8 || held > 300 {
			t.Errorf("in 30 m the node held shards %d times, for %d s in all", spells, held)
		}
	}, "a", "b")
}

// An unfit node continues if it is the only one, also after another node joined and left.
func TestSoleUnfitNodeContinues(t *testing.T) {
	runCluster(t, func(t *testing.T, _ *store.Store, nodes map[string]*clusterNode) {
		nodes["a"].setUnfit("it cannot settle")
		time.Sleep(4 * clusterLease)
		wantShares(t, nodes, "alone", 12)
		nodes["a"].setUnfit("")
		time.Sleep(time.Second)
		wantShares(t, nodes, "once it has proved itself", 12)
	}, "a")
}
