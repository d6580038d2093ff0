package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
)

// overdueAfter is the time after its slot at which a due job is overdue, in addition to the time that its check may
// take for a source or a handler. /readyz, metrics, the heartbeat and alerts use it. The sweep and an intake that stand
// still for as long, in addition to a third of the lease, have a monitoring gap.
const overdueAfter = time.Minute

// overdue finds the overdue jobs of all shards, regardless of their holders.
type overdue struct {
	store   *store.Store
	catalog *rules.Catalog
	now     func() time.Time // the database's time
	after   time.Duration    // age at which a due job is overdue
}

// backlog holds overdue jobs by shard and rule version.
type backlog struct {
	parts []store.Overdue
	more  bool // more may exist beyond the query limit
}

// find returns the overdue jobs, without those whose checks are put off or wait for a tenants' line of a stream: tenants
// are at fault, and no node.
func (o *overdue) find(ctx context.Context) (backlog, error) {
	overdueJobs, err := o.findAll(ctx)
	if err != nil || len(overdueJobs.parts) == 0 {
		return overdueJobs, err
	}
	if overdueJobs, err = o.withoutTenantsLines(ctx, overdueJobs); err != nil {
		return overdueJobs, err
	}
	nodes, err := o.liveNodes(ctx)
	if err != nil {
		return overdueJobs, err
	}
	overdueJobs, _ = overdueJobs.split(claimsOf(nodes))
	return overdueJobs, nil
}

// withoutTenantsLines returns a backlog without the jobs that wait for a tenants' line of a stream.
func (o *overdue) withoutTenantsLines(ctx context.Context, overdueJobs backlog) (backlog, error) {
	through, err := o.store.ReadThrough(ctx)
	if err != nil {
		return overdueJobs, err
	}
	overdueJobs.parts = slices.DeleteFunc(slices.Clone(overdueJobs.parts), func(part store.Overdue) bool {
		rule, err := o.catalog.Rule(ctx, part.RuleID, part.Version)
		return err == nil && slices.ContainsFunc(rule.Streams, func(line string) bool {
			return futurejobs.IsTenantsLine(line) && through[line].Through.Before(part.Oldest)
		})
	})
	return overdueJobs, nil
}

// liveNodes returns the nodes with unexpired rows.
func (o *overdue) liveNodes(ctx context.Context) ([]futurejobs.Node, error) {
	nodes, err := o.store.Nodes(ctx)
	now := o.now()
	return slices.DeleteFunc(nodes, func(n futurejobs.Node) bool { return !n.ExpiresAt.After(now) }), err
}

// findAll returns all overdue jobs. If jobs within their patience fill the query limit, it repeats the query without
// them.
func (o *overdue) findAll(ctx context.Context) (backlog, error) {
	now := o.now()
	patience := make(map[futurejobs.VersionRef]time.Duration)
	may := make(map[futurejobs.VersionRef]time.Duration) // patience of the versions that have any
	for {
		found, whole, err := o.store.Overdue(ctx, now.Add(-o.after), may)
		if err != nil {
			return backlog{}, err
		}
		b, allowed := backlog{more: !whole}, len(may)
		for _, part := range found {
			if _, known := patience[part.VersionRef]; !known {
				patience[part.VersionRef] = o.patience(ctx, part.VersionRef)
			}
			if p := patience[part.VersionRef]; p > 0 {
				may[part.VersionRef] = p
			}
			if now.Sub(part.Oldest) > o.after+patience[part.VersionRef] {
				b.parts = append(b.parts, part)
			}
		}
		if whole || len(may) == allowed {
			return b, nil
		}
	}
}

// patience returns the time that the check of a version may take: zero for an unreadable version, as no check runs
// then.
func (o *overdue) patience(ctx context.Context, ref futurejobs.VersionRef) time.Duration {
	rule, err := o.catalog.Rule(ctx, ref.RuleID, ref.Version)
	if err != nil {
		return 0
	}
	return rule.Patience()
}

// without returns the backlog without the matching rule versions.
func (b backlog) without(is func(futurejobs.VersionRef) bool) backlog {
	b.parts = slices.DeleteFunc(slices.Clone(b.parts), func(o store.Overdue) bool { return is(o.VersionRef) })
	return b
}

// split returns the backlog without the jobs whose checks are put off, and those jobs, by the claims of the live nodes.
func (b backlog) split(claims map[futurejobs.VersionRef]claim) (overdueJobs, putOff backlog) {
	isPutOff := func(ref futurejobs.VersionRef) bool { return claims[ref].PutOff }
	return b.without(isPutOff), b.without(func(ref futurejobs.VersionRef) bool { return !isPutOff(ref) })
}

// of returns the backlog of one rule version.
func (b backlog) of(ref futurejobs.VersionRef) backlog {
	return b.without(func(e futurejobs.VersionRef) bool { return e != ref })
}

func (b backlog) jobs() (n int) {
	for _, part := range b.parts {
		n += part.Jobs
	}
	return n
}

// oldest returns the earliest slot; zero if no job is overdue.
func (b backlog) oldest() (slot time.Time) {
	for _, part := range b.parts {
		if slot.IsZero() || part.Oldest.Before(slot) {
			slot = part.Oldest
		}
	}
	return slot
}

func (b backlog) shards() []int16 {
	var all []int16
	for _, part := range b.parts {
		all = append(all, part.Shard)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// count returns the number of jobs as text, such as "12 due jobs".
func (b backlog) count() string {
	n, atLeast := b.jobs(), ""
	if b.more {
		atLeast = "at least "
	}
	if n == 1 {
		return atLeast + "1 due job"
	}
	return fmt.Sprintf("%s%d due jobs", atLeast, n)
}

// where returns shards with their holders as text, such as "shards 1, 2 of host/4711".
func where(shards []int16, leases []futurejobs.Lease, nodes []futurejobs.Node) string {
	names := make(map[string]string)
	for _, n := range nodes {
		names[n.ID] = n.Name
	}
	held := make(map[string][]int16)
	for _, l := range leases {
		if slices.Contains(shards, l.Shard) {
			holder := names[l.Node]
			if l.Expired || holder == "" {
				holder = "no node"
			}
			held[holder] = append(held[holder], l.Shard)
		}
	}
	var parts []string
	for holder, its := range held {
		parts = append(parts, numbered(its)+" of "+holder)
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// numbered returns shards as text, such as "shards 1, 2". It shortens a long list.
func numbered(shards []int16) string {
	const limit = 16
	text := "shard "
	if len(shards) > 1 {
		text = "shards "
	}
	for i, s := range shards[:min(len(shards), limit)] {
		if i > 0 {
			text += ", "
		}
		text += strconv.Itoa(int(s))
	}
	if len(shards) > limit {
		text += fmt.Sprintf(" and %d more", len(shards)-limit)
	}
	return text
}
