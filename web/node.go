package web

import (
	"context"
	"encoding/json"
	"time"

	"deadman/access"
)

// Node is a running process as it goes out.
type Node struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Version   string          `json:"version"`
	StartedAt time.Time       `json:"started_at"`
	SeenAt    time.Time       `json:"seen_at"`
	ExpiresAt time.Time       `json:"expires_at"`
	Shards    []int16         `json:"shards" nullable:"false" doc:"That it holds."`
	Doing     json.RawMessage `json:"doing,omitempty"`
}

// Nodes are all processes, and the shards that none of them holds.
type Nodes struct {
	Items      []Node  `json:"items" nullable:"false"`
	FreeShards []int16 `json:"free_shards" nullable:"false" doc:"That no live node holds."`
}

func (a *api) mountNodes() {
	add(a, operation{
		ID: "list-nodes", Tag: tagNode, Method: "GET", Path: "/nodes", Does: "lists the live nodes and the shards they hold",
		Scope: access.Read, Reach: everything,
	}, shown(a.nodes))
}

func (a *api) nodes(ctx context.Context, _ *nothing) (Nodes, error) {
	live, err := a.Lists.Nodes(ctx)
	if err != nil {
		return Nodes{}, err
	}
	leases, err := a.Lists.Leases(ctx)
	if err != nil {
		return Nodes{}, err
	}
	out := Nodes{Items: make([]Node, len(live)), FreeShards: []int16{}}
	place := make(map[string]int, len(live))
	for i, n := range live {
		place[n.ID] = i
		out.Items[i] = Node{
			ID: n.ID, Name: n.Name, Version: n.Version,
			StartedAt: n.StartedAt, SeenAt: n.SeenAt, ExpiresAt: n.ExpiresAt, Shards: []int16{},
		}
		if json.Valid([]byte(n.Doing)) {
			out.Items[i].Doing = json.RawMessage(n.Doing)
		}
	}
	for _, l := range leases {
		i, live := place[l.Node]
		if !live || l.Expired {
			out.FreeShards = append(out.FreeShards, l.Shard)
			continue
		}
		out.Items[i].Shards = append(out.Items[i].Shards, l.Shard)
	}
	return out, nil
}
