package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

func lease(w *fixture, shard int16) futurejobs.Lease {
	w.t.Helper()
	return must[[]futurejobs.Lease](w.t)(w.Leases(w.ctx()))[shard]
}

func leasesAreTakenOnce(t *testing.T, w *fixture) {
	held := w.held[0]
	if _, ok, err := w.Take(w.ctx(), "other", held, time.Hour); ok || err != nil {
		t.Fatalf("a lease that stands was taken: %v, %v", ok, err)
	}
	w.must(w.Release(w.ctx(), thisNode, []futurejobs.Lease{{HeldShard: held}}))
	var wins atomic.Int32
	var nodes sync.WaitGroup
	for range 8 {
		nodes.Go(func() {
			_, ok, err := w.Take(w.ctx(), "other", held, time.Hour)
			if err != nil {
				t.Error(err)
			}
			if ok {
				wins.Add(1)
			}
		})
	}
	nodes.Wait()
	if wins.Load() != 1 {
		t.Errorf("%d nodes took the same epoch", wins.Load())
	}
	if got := lease(w, 0); got.Epoch != held.Epoch+1 || got.Node != "other" || got.Expired {
		t.Errorf("lease: %+v", got)
	}
}

func leasesAreRenewed(t *testing.T, w *fixture) {
	low, swept := w.slot(), w.slot().Add(time.Second)
	before := lease(w, 0)
	still := must[[]futurejobs.HeldShard](t)(w.Renew(w.ctx(), thisNode, []futurejobs.Lease{
		{HeldShard: w.held[0], LowWater: low, Swept: swept},
		{HeldShard: futurejobs.HeldShard{Shard: 1, Epoch: w.held[1].Epoch - 1}, LowWater: low}, // of an earlier process
	}, 2*time.Hour))
	if len(still) != 1 || still[0] != w.held[0] {
		t.Errorf("still held: %v", still)
	}
	after := lease(w, 0)
	if !after.LowWater.Equal(low) || !after.Swept.Equal(swept) || !after.ExpiresAt.After(before.ExpiresAt) || after.Epoch != before.Epoch {
		t.Errorf("renewed: %+v, was %+v", after, before)
	}
	if !lease(w, 1).LowWater.IsZero() {
		t.Error("a lease of another epoch was renewed")
	}
	if other := must[[]futurejobs.HeldShard](t)(w.Renew(w.ctx(), "other", []futurejobs.Lease{{HeldShard: w.held[0]}}, time.Hour)); len(other) != 0 {
		t.Error("another node renewed it")
	}
	w.must(w.Release(w.ctx(), thisNode, []futurejobs.Lease{{HeldShard: w.held[2]}}))
	got, _, err := w.Take(w.ctx(), thisNode, w.held[2], -time.Second)
	w.must(err)
	if over := must[[]futurejobs.HeldShard](t)(w.Renew(w.ctx(), thisNode, []futurejobs.Lease{got}, time.Hour)); len(over) != 0 {
		t.Error("a lease that was over was renewed")
	}
}

func leasesAreReleased(t *testing.T, w *fixture) {
	low, swept := w.slot(), w.slot().Add(time.Second)
	lost := futurejobs.HeldShard{Shard: 1, Epoch: w.held[1].Epoch - 1}
	w.must(w.Release(w.ctx(), thisNode, []futurejobs.Lease{{HeldShard: w.held[0], LowWater: low, Swept: swept}, {HeldShard: lost}}))
	if got := lease(w, 0); got.Node != "" || !got.Expired {
		t.Errorf("released: %+v", got)
	}
	if got := lease(w, 1); got.Node != thisNode || got.Expired {
		t.Errorf("a lease of another epoch was released: %+v", got)
	}
	got, ok, err := w.Take(w.ctx(), "other", w.held[0], time.Hour)
	if err != nil || !ok || !got.LowWater.Equal(low) || !got.Swept.Equal(swept) || got.Node != "other" || got.Expired {
		t.Errorf("taken: %+v, %v, %v", got, ok, err)
	}
}

func leasesAreReclaimed(t *testing.T, w *fixture) {
	must[[]futurejobs.Node](t)(w.Heartbeat(w.ctx(), futurejobs.Node{ID: thisNode, StartedAt: w.slot()}, time.Hour))
	w.must(w.Reclaim(w.ctx()))
	if nodes := must[[]futurejobs.Node](t)(w.Nodes(w.ctx())); len(nodes) != 0 {
		t.Errorf("nodes: %v", nodes)
	}
	w.acquireShards("next life", time.Hour)
	w.start(w.slot(), "a")
	if settled := w.settle(w.exhausted(w.one("a"))); len(settled.Jobs) != 0 || len(settled.Lost) != len(w.held) {
		t.Errorf("the life before settled: %+v", settled)
	}
}

func nodesRenewHeartbeats(t *testing.T, w *fixture) {
	started := w.slot()
	a := futurejobs.Node{ID: "a", Name: "host:1", Version: "v1", StartedAt: started, Running: `{"n":1}`}
	live := must[[]futurejobs.Node](t)(w.Heartbeat(w.ctx(), a, time.Hour))
	if len(live) != 1 || live[0].Name != "host:1" || live[0].Running != a.Running || !live[0].StartedAt.Equal(started) {
		t.Errorf("live: %+v", live)
	}
	must[[]futurejobs.Node](t)(w.Heartbeat(w.ctx(), futurejobs.Node{ID: "dead", StartedAt: started}, -time.Second))
	a.Running, a.Unfit, a.Unreadable = "", "it cannot settle", `[{"rule_id":1}]`
	live = must[[]futurejobs.Node](t)(w.Heartbeat(w.ctx(), a, time.Hour))
	if len(live) != 1 || live[0].ID != "a" || live[0].Running != "" || live[0].Unfit != a.Unfit || live[0].Unreadable != a.Unreadable {
		t.Errorf("live: %+v", live)
	}
	if schema := must[store.Schema](t)(w.Schema(w.ctx())); live[0].Schema != schema.Known || schema.Applied != schema.Known {
		t.Errorf("a node knows version %d of the schema; it is at %d, and the program knows %d", live[0].Schema, schema.Applied, schema.Known)
	}
	if all := must[[]futurejobs.Node](t)(w.Nodes(w.ctx())); len(all) != 2 {
		t.Errorf("nodes: %+v", all)
	}
	w.must(w.Leave(w.ctx(), "a"))
	if all := must[[]futurejobs.Node](t)(w.Nodes(w.ctx())); len(all) != 1 || all[0].ID != "dead" {
		t.Errorf("nodes: %+v", all)
	}
}
