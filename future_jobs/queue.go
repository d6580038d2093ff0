package futurejobs

import (
	"context"
	"errors"
	"sort"
	"sync"
	"time"
)

// ErrRulesChanged means that the rules are no longer as they were evaluated. Nothing was written; refresh the
// rules and decide again.
var ErrRulesChanged = errors.New("the rules changed meanwhile")

// HeldShard is a shard that a node holds, at the epoch it holds it.
type HeldShard struct {
	Shard int16
	Epoch int64
}

// ShardCursor is where a sweep of one shard stands: due jobs after (At, ID) are still to be read.
type ShardCursor struct {
	Shard int16
	At    time.Time
	ID    int64
}

// DueQuery asks for due jobs.
type DueQuery struct {
	Walks []ShardCursor // one a shard
	Until time.Time     // jobs due up to and including this instant
	Not   []Unready     // jobs that are left out
	Of    []int32       // the rules whose jobs are asked for; empty: all
	Limit int           // of the rows that a read looks at, for each shard
	Bytes int           // of bodies, over all shards; 0: as many as there are
	Room  []Job         // of an earlier page, which what is read may be written over
}

// Unready are the jobs of one version of a rule whose slots are after an instant: they have to wait.
type Unready struct {
	VersionRef
	After time.Time
}

// isFiltered reports whether a read passes over rows.
func (q DueQuery) isFiltered() bool { return len(q.Not) > 0 || len(q.Of) > 0 }

// Advance returns the walks after a page: each goes on after its last job of the page, and one that is read to its
// end is gone. A page of a filtered query tells the end of a shard by no row at all, and of any other by fewer rows
// than the limit. A page that has as many bytes as were asked for ends at its last job.
func (q DueQuery) Advance(page []Job) (walks []ShardCursor) {
	if len(page) == 0 {
		return nil
	}
	last := page[len(page)-1].Shard
	isCut := sync.OnceValue(func() bool { return q.Bytes > 0 && Bodies(page) >= q.Bytes })
	for _, w := range q.Walks {
		jobs := ofShard(page, w.Shard)
		switch n := len(jobs); {
		case n > 0 && (n == q.Limit || q.isFiltered() || w.Shard == last && isCut()):
			walks = append(walks, ShardCursor{Shard: w.Shard, At: jobs[n-1].NextCheckAt, ID: jobs[n-1].ID})
		case w.Shard > last && isCut():
			walks = append(walks, w) // the page ends before it
		}
	}
	return walks
}

// ofShard is the part of a page that is of one shard. A page is in the order of its shards, and it is large: few of its
// jobs are looked at.
func ofShard(page []Job, shard int16) []Job {
	begin := sort.Search(len(page), func(i int) bool { return page[i].Shard >= shard })
	end := sort.Search(len(page), func(i int) bool { return page[i].Shard > shard })
	return page[begin:end]
}

// VersionRef is one version of a rule.
type VersionRef struct{ RuleID, Version int32 }

// Settlement is a batch of decisions, and what must still hold for them to count.
type Settlement struct {
	Held      []HeldShard // the shards of the decisions
	RuleSet   int64       // the revision that was evaluated; of several, the lowest
	Decisions []*Decision
}

// Settled says which decisions were taken. The others found their job changed or their
// shard lost; nothing of them was written, alerts included.
type Settled struct {
	Jobs   map[int64]bool // by job id
	Alerts int            // alert rows written
	Lost   []int16        // shards no longer held
	Moved  []int32        // rules whose decisions were not taken, because what they rest on changed; refresh the rules
}

// StreamProgress is how a stream is listened to.
type StreamProgress struct {
	Through    time.Time // the database time up to which nothing of it is pending; zero: it was never read to its end
	HeardSince time.Time // since when it is heard without a gap, by the database's time; zero: as far back as matters
}

// Queue is the future_job table as the sweeper sees it. Implementations are safe for
// concurrent use.
type Queue interface {
	// Due returns due jobs in the order of (shard, next_check_at, id), without Last. It looks at up to
	// Limit rows of each shard. Of a query with Not or Of it returns those that are asked for, and also the
	// row at the limit, whatever it is, so that Advance knows how far the read came. Where Bytes are asked
	// for, the page ends with the job whose bodies reach them. Errors: ErrTooSlow.
	Due(ctx context.Context, q DueQuery) ([]Job, error)
	// Settle writes decisions, their history and their alerts in one transaction, under
	// the fence: shards held at their epoch and not expired, jobs at their rev, and no rule
	// deleted, or reading its ending events from other streams, since RuleSet. Other changes, of the
	// same rule or of another one, disturb nothing. Where all rules have moved it returns ErrRulesChanged,
	// and else ErrRefused or ErrTooSlow.
	Settle(ctx context.Context, s Settlement) (Settled, error)
	// ReadThrough returns, by stream, how far intake has read it; pings are under the empty name.
	ReadThrough(ctx context.Context) (map[string]StreamProgress, error)
	// Now returns the database's time.
	Now(ctx context.Context) (time.Time, error)

	OutageStore
	CheckStarts
}
