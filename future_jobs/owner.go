package futurejobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Owner keeps this node's fair share of the shards.
type Owner struct {
	leases Leases
	node   Node
	lease  time.Duration
	local  func() time.Time
	log    *slog.Logger

	// Running describes the node's running checks, as JSON. Set before Run.
	Running func() string
	// Changed is called when shards were taken, given back or lost. It must not block, nor call the owner. Set before Run.
	Changed func()
	// Unfit returns why this node should hold no shards, in a sentence without secrets; empty: it is fit. While
	// another live node is fit, an unfit node gives its shards back. Unfit is called at each step, and has to return
	// at once. Set before Run.
	Unfit func() (reason string)
	// Unreadable describes the versions of rules that this node cannot read, as JSON. Set before Run.
	Unreadable func(ctx context.Context) string

	fitness     fitness                 // used by Run alone
	heartbeatAt time.Time               // when the last heartbeat was sent, by the local clock; used by Run alone
	unfitSince  time.Time               // when a heartbeat first reported this node as unfit; zero: it is fit; used by Run alone
	overlong    map[int16]overlongLease // leases that last too long, by shard; used by Run alone

	mu     sync.RWMutex
	shards map[int16]*Shard
	total  int
	nodes  []Node
	lost   int64  // shards, since the start
	unfit  string // why this node should hold no shards, as of the last step; empty: it is fit
	err    error  // the error that prevents renewals; nil: none
}

// NewOwner returns the owner of a node that holds each shard for lease at a time. local is a monotonic clock.
func NewOwner(l Leases, node Node, lease time.Duration, local func() time.Time, log *slog.Logger) *Owner {
	return &Owner{
		leases: l, node: node, lease: lease, local: local, log: log,
		Running: func() string { return "" }, Changed: func() {}, Unfit: func() string { return "" },
		Unreadable: func(context.Context) string { return "" },
		fitness:    fitness{lease: lease}, shards: map[int16]*Shard{}, overlong: map[int16]overlongLease{},
	}
}

// Run keeps the share until ctx ends, then gives everything back. It renews leases after a third of their length and
// reads the table every fifteenth.
func (o *Owner) Run(ctx context.Context) error {
	tick := time.NewTicker(o.lease / 15)
	defer tick.Stop()
	for {
		if err := o.step(ctx); err != nil && ctx.Err() == nil {
			o.fail(err)
		}
		select {
		case <-ctx.Done():
			return o.leave(context.WithoutCancel(ctx))
		case <-tick.C:
		}
	}
}

// fail stores the error for Err and logs it once.
func (o *Owner) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.log.Error("renewing leases failed; checks stop when the leases expire", "err", err)
	}
	o.err = err
}

// Err returns the error that prevents this node from renewing its leases.
func (o *Owner) Err() error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.err
}

// step maintains the leases once:
//
//  1. send a heartbeat and renew, when a third of the lease has passed or the node became fit or unfit;
//  2. end leases that were granted by a clock that was ahead, and that no node renews;
//  3. give back shards beyond the share;
//  4. take free or expired shards, up to the share.
func (o *Owner) step(ctx context.Context) error {
	table, err := o.leases.Leases(ctx)
	if err != nil {
		return err
	}
	now := o.local()
	was := o.fitness.reason
	is := o.fitness.judge(now, o.Unfit(), len(o.all()) > 0)
	o.noteFitness(was, is)
	if now.Sub(o.heartbeatAt) >= o.lease/3 || o.heartbeatAt.IsZero() || (was == "") != (is == "") || slices.ContainsFunc(table, Lease.isFree) {
		if err := o.heartbeat(ctx, now, len(table)); err != nil {
			return err
		}
	}
	if err := o.endOverlong(ctx, table, now); err != nil {
		return err
	}
	if !o.isWaiting(now) {
		share := o.share(len(table))
		if err := o.releaseExcess(ctx, share); err != nil {
			return err
		}
		if err := o.take(ctx, table, share); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		o.log.Info("leases are renewed again")
		o.err = nil
	}
	return nil
}

// UnfitFor returns why this node should hold no shards, or rests afterwards; empty: it is fit.
func (o *Owner) UnfitFor() string {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.unfit
}

// noteFitness stores whether the node is fit, and logs changes.
func (o *Owner) noteFitness(was, is string) {
	o.mu.Lock()
	o.unfit = is
	o.mu.Unlock()
	switch {
	case was == "" && is != "":
		o.log.Error("node unfit; it gives its shards back while another node is fit", "reason", is)
	case was != "" && is == "":
		o.log.Info("node fit again")
	}
}

// maxLeaseFactor bounds the lease of another node, in leases of this node. Without it, no node could take over from one that
// died while the database's clock was ahead.
const maxLeaseFactor = 2

// overlongLease is a lease that lasts longer than it should.
type overlongLease struct {
	held    HeldShard
	expires time.Time
	since   time.Time // when it was first seen, by the local clock
}

// endOverlong ends leases of other nodes that last longer than maxLeaseFactor allows and were not renewed for that time.
func (o *Owner) endOverlong(ctx context.Context, table []Lease, now time.Time) error {
	for i, l := range table {
		seen := o.overlong[l.Shard]
		switch {
		case l.Node == "" || l.Node == o.node.ID || l.Left <= maxLeaseFactor*o.lease:
			delete(o.overlong, l.Shard)
		case seen.held != l.HeldShard || !seen.expires.Equal(l.ExpiresAt):
			o.overlong[l.Shard] = overlongLease{l.HeldShard, l.ExpiresAt, now}
		case now.Sub(seen.since) > maxLeaseFactor*o.lease:
			ok, err := o.leases.Free(ctx, l)
			if err != nil {
				return fmt.Errorf("end the lease of shard %d: %w", l.Shard, err)
			}
			if ok {
				o.log.Warn("lease of another node ended: a clock that was ahead granted it, and the node does not renew it",
					"shard", l.Shard, "node", l.Node, "expires_at", l.ExpiresAt)
				table[i].Node = ""
			}
			delete(o.overlong, l.Shard)
		}
	}
	return nil
}

// heartbeat registers the node, renews its shards, and drops the lost ones.
func (o *Owner) heartbeat(ctx context.Context, sent time.Time, total int) error {
	node := o.node
	node.Running, node.Unfit, node.Unreadable = o.Running(), o.fitness.reason, o.Unreadable(ctx)
	nodes, err := o.leases.Heartbeat(ctx, node, o.lease)
	if err != nil {
		return fmt.Errorf("send the node heartbeat: %w", err)
	}
	shards := o.all()
	held := make([]Lease, len(shards))
	for i, s := range shards {
		held[i] = s.lease()
	}
	kept, err := o.leases.Renew(ctx, node.ID, held, o.lease)
	if err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	o.heartbeatAt = sent
	if node.Unfit == "" {
		o.unfitSince = time.Time{}
	} else if o.unfitSince.IsZero() {
		o.unfitSince = sent
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	o.nodes, o.total = nodes, total
	var lost []int16
	for _, s := range shards {
		if slices.Contains(kept, s.HeldShard) {
			s.renew(sent.Add(o.lease))
			continue
		}
		delete(o.shards, s.Shard)
		lost = append(lost, s.Shard)
	}
	if len(lost) > 0 {
		o.lost += int64(len(lost))
		o.log.Warn("shards lost: this node did not renew in time", "shards", lost)
		defer o.Changed() // with the lock, so it must not wait
	}
	return nil
}

// share returns how many of n shards belong to this node: all fit nodes have the same number, and the first ones by
// id have one more if a remainder is left. An unfit node has none. If no node is fit, all share.
func (o *Owner) share(n int) int {
	o.mu.RLock()
	defer o.mu.RUnlock()
	nodes := slices.DeleteFunc(slices.Clone(o.nodes), func(m Node) bool { return m.Unfit != "" })
	if len(nodes) == 0 {
		nodes = o.nodes
	}
	rank := slices.IndexFunc(nodes, func(m Node) bool { return m.ID == o.node.ID })
	if rank < 0 {
		return 0
	}
	share := n / len(nodes)
	if rank < n%len(nodes) {
		share++
	}
	return share
}

// isWaiting reports whether the node became unfit so recently that other nodes, unfit for the same cause, may not
// have reported it yet. Until then the node neither gives nor takes shards. It does not wait if no live node is reported as fit,
// as after an outage of the database that outlasted all leases.
func (o *Owner) isWaiting(now time.Time) bool {
	if o.unfitSince.IsZero() || now.Sub(o.unfitSince) >= o.Interval() {
		return false
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.ContainsFunc(o.nodes, func(m Node) bool { return m.Unfit == "" })
}

// Interval returns the maximum time between two heartbeats of a node.
func (o *Owner) Interval() time.Duration { return o.lease/3 + o.lease/15 }

// releaseExcess gives shards back, the highest first, until share are left. A shard is released when none of its jobs
// is in flight.
func (o *Owner) releaseExcess(ctx context.Context, share int) error {
	shards := o.all()
	for _, s := range shards[:min(share, len(shards))] {
		s.cancelRelease()
	}
	if len(shards) <= share {
		return nil
	}
	var gone []Lease
	for _, s := range shards[share:] {
		if s.startRelease(o.local(), o.fitness.reason != "") {
			gone = append(gone, s.lease())
		}
	}
	return o.release(ctx, gone)
}

func (o *Owner) release(ctx context.Context, gone []Lease) error {
	if len(gone) == 0 {
		return nil
	}
	if err := o.leases.Release(ctx, o.node.ID, gone); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range gone {
		delete(o.shards, l.Shard)
	}
	o.log.Info("shards given back", "shards", numbers(gone))
	o.Changed()
	return nil
}

// take takes free and expired shards until the node has its share.
func (o *Owner) take(ctx context.Context, table []Lease, share int) error {
	var got []Lease
	defer func() { // also those that were taken before an error
		if len(got) > 0 {
			o.log.Info("shards taken", "shards", numbers(got))
			o.Changed()
		}
	}()
	for _, l := range table {
		if len(o.all()) >= share {
			break
		}
		if !l.isFree() {
			continue
		}
		sent := o.local()
		lease, ok, err := o.leases.Take(ctx, o.node.ID, l.HeldShard, o.lease)
		if err != nil {
			return fmt.Errorf("take shard %d: %w", l.Shard, err)
		}
		if !ok {
			continue
		}
		got = append(got, lease)
		o.mu.Lock()
		o.shards[l.Shard] = newShard(lease, sent.Add(o.lease))
		o.mu.Unlock()
	}
	return nil
}

// leave gives all shards back and removes the node from the table.
func (o *Owner) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	shards := o.all()
	gone := make([]Lease, len(shards))
	for i, s := range shards {
		gone[i] = s.lease()
	}
	return errors.Join(o.release(ctx, gone), o.leases.Leave(ctx, o.node.ID))
}

// all returns the shards in order, with valid leases or not.
func (o *Owner) all() []*Shard {
	o.mu.RLock()
	defer o.mu.RUnlock()
	shards := make([]*Shard, 0, len(o.shards))
	for _, s := range o.shards {
		shards = append(shards, s)
	}
	slices.SortFunc(shards, func(a, b *Shard) int { return cmp.Compare(a.Shard, b.Shard) })
	return shards
}

// Open returns the shards with jobs that may be checked.
func (o *Owner) Open() []*Shard {
	now := o.local()
	return slices.DeleteFunc(o.all(), func(s *Shard) bool { return !s.open(now) })
}

// HeldShards returns the shards for decisions of the node on jobs and ticks.
func (o *Owner) HeldShards() []HeldShard {
	open := o.Open()
	held := make([]HeldShard, len(open))
	for i, s := range open {
		held[i] = s.HeldShard
	}
	return held
}

// Leaving returns the shards that are to be given back and wait for a handler or a source: jobs of inline rules may
// still be checked. An unfit node has none.
func (o *Owner) Leaving() []*Shard {
	if o.UnfitFor() != "" {
		return nil
	}
	now := o.local()
	return slices.DeleteFunc(o.all(), func(s *Shard) bool { return !s.computes(now) })
}

// Holding returns the numbers of the shards that the node holds.
func (o *Owner) Holding() []int16 {
	now := o.local()
	var n []int16
	for _, s := range o.all() {
		if s.valid(now) {
			n = append(n, s.Shard)
		}
	}
	return n
}

// Lost returns the number of shards that this node lost since its start, because it did not renew their leases in time.
func (o *Owner) Lost() int64 {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.lost
}

// Holds reports whether the node holds a shard.
func (o *Owner) Holds(shard int16) bool {
	o.mu.RLock()
	s := o.shards[shard]
	o.mu.RUnlock()
	return s != nil && s.valid(o.local())
}

// Count returns the total number of shards; 0 before the first heartbeat.
func (o *Owner) Count() int {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.total
}
