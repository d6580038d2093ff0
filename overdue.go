package deadman

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
	"deadman/store"
)

// overdueAfter is how long after its slot a due job is overdue, beside the time that its check may take where it waits
// for a source or a handler. /readyz, the metrics, the heartbeat and alerts judge by it that jobs wait.
const overdueAfter = time.Minute

// overdue finds the overdue jobs of all shards, whichever node holds them.
type overdue struct {
	store *store.Store
	book  *rules.Book
	now   func() time.Time // the database's time
}

// backlog is overdue jobs, by shard and version of a rule.
type backlog struct {
	parts []store.Overdue
	more  bool // there may be more, behind those that were looked at
}

// look returns the jobs that are overdue.
func (o *overdue) look(ctx context.Context) (backlog, error) {
	now := o.now()
	found, whole, err := o.store.Overdue(ctx, now.Add(-overdueAfter))
	if err != nil {
		return backlog{}, err
	}
	patience := make(map[futurejobs.Edition]time.Duration)
	b := backlog{more: !whole}
	for _, part := range found {
		may, known := patience[part.Edition]
		if !known {
			if rule, err := o.book.Rule(ctx, part.RuleID, part.Version); err == nil { // no check of one that cannot be read runs
				may = rule.Patience()
			}
			patience[part.Edition] = may
		}
		if now.Sub(part.Oldest) > overdueAfter+may {
			b.parts = append(b.parts, part)
		}
	}
	return b, nil
}

// without returns the backlog without some versions of rules.
func (b backlog) without(is func(futurejobs.Edition) bool) backlog {
	b.parts = slices.DeleteFunc(slices.Clone(b.parts), func(o store.Overdue) bool { return is(o.Edition) })
	return b
}

// of returns the backlog of one version of a rule.
func (b backlog) of(made futurejobs.Edition) backlog {
	return b.without(func(e futurejobs.Edition) bool { return e != made })
}

func (b backlog) jobs() (n int) {
	for _, part := range b.parts {
		n += part.Jobs
	}
	return n
}

// oldest is the first slot; zero: nothing is overdue.
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

// count says how many jobs there are, such as "12 due jobs".
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

// where names shards with the nodes that hold them, such as "shards 1, 2 of host/4711".
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

// numbered names shards, such as "shards 1, 2". Of very many it names the first.
func numbered(shards []int16) string {
	const most = 16
	text := "shard "
	if len(shards) > 1 {
		text = "shards "
	}
	for i, s := range shards[:min(len(shards), most)] {
		if i > 0 {
			text += ", "
		}
		text += strconv.Itoa(int(s))
	}
	if len(shards) > most {
		text += fmt.Sprintf(" and %d more", len(shards)-most)
	}
	return text
}
