package web

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// Node is a running process, as the API returns it.
type Node struct {
	ID            string         `json:"id" doc:"ID of the node process."`
	Name          string         `json:"name" doc:"Name of the node: host and process."`
	Version       string         `json:"version" doc:"Version of the program."`
	StartedAt     time.Time      `json:"started_at" doc:"Start of the process."`
	SeenAt        time.Time      `json:"seen_at" doc:"Time of the last heartbeat in the database."`
	ExpiresAt     time.Time      `json:"expires_at" doc:"Time at which the node is considered dead without a further heartbeat."`
	Shards        []int16        `json:"shards" nullable:"false" doc:"Shards that the node holds."`
	Leases        []Lease        `json:"leases" nullable:"false" doc:"Leases of the shards."`
	Lag           float64        `json:"lag_seconds" doc:"Delay of the most overdue job in the node's shards, in seconds; 0 if no job is overdue. Jobs that wait for their stream to be read count, too."`
	UnfitReason   string         `json:"unfit_reason,omitempty" doc:"Reason why the node should hold no shards. Other nodes take its shards over if one of them is fit. Absent if the node is fit."`
	RunningChecks []RunningCheck `json:"running_checks,omitempty" doc:"Up to 20 checks that were running at seen_at."`
}

// RunningCheck is a running check of a node, as the API returns it.
type RunningCheck struct {
	Rule      string    `json:"rule" doc:"Name of the rule."`
	Entity    string    `json:"entity" doc:"Entity type."`
	Key       string    `json:"key" doc:"Key of the entity."`
	StartedAt time.Time `json:"started_at" doc:"Start of the check."`
}

// Lease is a node's lease of a shard, as the API returns it.
type Lease struct {
	Shard      int16     `json:"shard" doc:"Number of the shard."`
	Epoch      int64     `json:"epoch" doc:"Number of times the lease was taken."`
	ExpiresAt  time.Time `json:"expires_at" doc:"Expiry of the lease. Another node may take it from then on unless it is renewed."`
	SweptUntil time.Time `json:"swept_until,omitzero" doc:"Jobs due by this time were checked, except those waiting for a stream, a source or a handler. As of the last renewal."`
}

// Nodes is the list of all nodes, with the shards without a live node.
type Nodes struct {
	Items      []Node  `json:"items" nullable:"false" doc:"Live nodes."`
	FreeShards []int16 `json:"free_shards" nullable:"false" doc:"Shards that no live node holds."`
}

// nodeAPI has the operation on nodes.
type nodeAPI struct {
	lists NodeReader
	now   func() time.Time
}

func (a *nodeAPI) register(all *operations) {
	register(all, operation{
		ID: "list-nodes", Tag: tagNode, Method: "GET", Path: "/nodes", Summary: "list live nodes and their shards",
		Scope: access.Read, Reach: reachAll,
	}, withBody(a.list))
}

func (a *nodeAPI) list(ctx context.Context, _ *nothing) (Nodes, error) {
	known, err := a.lists.Nodes(ctx)
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
	out := Nodes{Items: make([]Node, len(known)), FreeShards: []int16{}}
	place := make(map[string]int, len(known))
	for i, n := range known {
		place[n.ID] = i
		out.Items[i] = Node{
			ID: n.ID, Name: n.Name, Version: n.Version,
			StartedAt: n.StartedAt, SeenAt: n.SeenAt, ExpiresAt: n.ExpiresAt, UnfitReason: n.Unfit, Shards: []int16{}, Leases: []Lease{},
		}
		out.Items[i].RunningChecks = runningOf(n.Running)
	}
	for _, l := range leases {
		i, isKnown := place[l.Node]
		if !isKnown || l.Expired {
			out.FreeShards = append(out.FreeShards, l.Shard)
			continue
		}
		out.Items[i].hold(l, due[l.Shard], a.now())
	}
	out.Items = slices.DeleteFunc(out.Items, func(n Node) bool { return len(n.Shards) == 0 && !n.ExpiresAt.After(a.now()) }) // dead nodes
	return out, nil
}

// runningOf decodes a node's running checks, or returns nil if a node of another version wrote a different format.
func runningOf(doing string) (all []RunningCheck) {
	if json.Unmarshal([]byte(doing), &all) != nil {
		return nil
	}
	return all
}

// hold adds a shard of the node. due is the slot of the shard's first job.
func (n *Node) hold(l futurejobs.Lease, due, now time.Time) {
	n.Shards = append(n.Shards, l.Shard)
	n.Leases = append(n.Leases, Lease{Shard: l.Shard, Epoch: l.Epoch, ExpiresAt: l.ExpiresAt, SweptUntil: l.Swept})
	if !due.IsZero() {
		n.Lag = max(n.Lag, now.Sub(due).Seconds())
	}
}
