package web

import (
	"context"
	"encoding/json"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// Node is a running process, as the API returns it.
type Node struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Shards    []int16   `json:"shards" nullable:"false" doc:"That it holds."`
	Leases    []Lease   `json:"leases" nullable:"false" doc:"By which it holds them."`
	Lag       float64   `json:"lag_seconds" doc:"How long the longest overdue job of its shards is overdue; 0: none is. A job whose stream is not read through its slot counts, too."`
	Unfit     string    `json:"unfit,omitempty" doc:"Why it should hold no shards; absent: it is fit. Other nodes take them over while one of them is fit."`
	Doing     []Running `json:"doing,omitempty" doc:"Up to 20 of the checks that ran when it was seen last."`
}

// Running is a running check of a node, as the API returns it.
type Running struct {
	Rule      string    `json:"rule"`
	Entity    string    `json:"entity"`
	Key       string    `json:"key"`
	StartedAt time.Time `json:"started_at"`
}

// Lease is a node's lease of a shard, as the API returns it.
type Lease struct {
	Shard     int16     `json:"shard"`
	Epoch     int64     `json:"epoch" doc:"How often it was taken."`
	ExpiresAt time.Time `json:"expires_at" doc:"Another node may take it from then on, unless it is renewed."`
	SweptAt   time.Time `json:"swept_at,omitzero" doc:"All that was due by then was decided, but for what waits for its stream, a source or a handler; as of when the lease was renewed last."`
}

// Nodes is the list of all nodes, with the shards without a live node.
type Nodes struct {
	Items      []Node  `json:"items" nullable:"false"`
	FreeShards []int16 `json:"free_shards" nullable:"false" doc:"That no live node holds."`
}

// nodeAPI has the operation on nodes.
type nodeAPI struct {
	lists NodeReader
	now   func() time.Time
}

func (a *nodeAPI) register(all *operations) {
	register(all, operation{
		ID: "list-nodes", Tag: tagNode, Method: "GET", Path: "/nodes", Does: "lists the live nodes and the shards they hold",
		Scope: access.Read, Reach: reachAll,
	}, withBody(a.list))
}

func (a *nodeAPI) list(ctx context.Context, _ *nothing) (Nodes, error) {
	live, err := a.lists.Nodes(ctx)
	if err != nil {
		return Nodes{}, err
	}
	leases, err := a.lists.Leases(ctx)
	if err != nil {
		return Nodes{}, err
	}
	due, err := a.lists.OldestDues(ctx)
	if err != nil {
		return Nodes{}, err
	}
	out := Nodes{Items: make([]Node, len(live)), FreeShards: []int16{}}
	place := make(map[string]int, len(live))
	for i, n := range live {
		place[n.ID] = i
		out.Items[i] = Node{
			ID: n.ID, Name: n.Name, Version: n.Version,
			StartedAt: n.StartedAt, SeenAt: n.SeenAt, ExpiresAt: n.ExpiresAt, Unfit: n.Unfit, Shards: []int16{}, Leases: []Lease{},
		}
		out.Items[i].Doing = runningOf(n.Running)
	}
	for _, l := range leases {
		i, live := place[l.Node]
		if !live || l.Expired {
			out.FreeShards = append(out.FreeShards, l.Shard)
			continue
		}
		out.Items[i].hold(l, due[l.Shard], a.now())
	}
	return out, nil
}

// runningOf decodes a node's running checks, or returns nil if a node of another version wrote a different format.
func runningOf(doing string) (all []Running) {
	if json.Unmarshal([]byte(doing), &all) != nil {
		return nil
	}
	return all
}

// hold adds a shard of the node. due is the slot of the shard's first job.
func (n *Node) hold(l futurejobs.Lease, due, now time.Time) {
	n.Shards = append(n.Shards, l.Shard)
	n.Leases = append(n.Leases, Lease{Shard: l.Shard, Epoch: l.Epoch, ExpiresAt: l.ExpiresAt, SweptAt: l.Swept})
	if !due.IsZero() {
		n.Lag = max(n.Lag, now.Sub(due).Seconds())
	}
}
