package futurejobs

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"
)

// ErrRulesChanged means that the rules have changed since they were evaluated. Nothing was written; refresh the rules
// and decide again.
var ErrRulesChanged = errors.New("the rules changed meanwhile")

// HeldShard is a shard that a node holds, and the epoch of its lease.
type HeldShard struct {
	Shard int16
	Epoch int64
}

// ShardCursor is the position of a sweep in one shard: due jobs after (At, ID) are still to be read.
type ShardCursor struct {
	Shard int16
	At    time.Time
	ID    int64
}

// DueQuery is a query for due jobs.
type DueQuery struct {
	Cursors []ShardCursor // one for each shard
	Until   time.Time     // inclusive limit of due times
	Not     []Unready     // excluded jobs
	Of      []int32       // the rules of the jobs; empty: all
	Limit   int           // of rows that a read examines, for each shard
	Bytes   int           // of bodies, over all shards; 0: no limit
	Room    []Job         // buffer of an earlier page, to be overwritten
}

// Unready are the waiting jobs of one version of a rule: those with slots after the given time.
type Unready struct {
	VersionRef
	After time.Time
}

// isFiltered reports whether a read skips rows.
func (q DueQuery) isFiltered() bool { return len(q.Not) > 0 || len(q.Of) > 0 }

// Advance returns the cursors after a page: each continues after its last job of the page, and finished cursors are
// removed. A shard is finished if a filtered query returns no row of it, and any other query fewer rows than the
// limit. A page that reaches the limit of bytes ends at its last job.
func (q DueQuery) Advance(page []Job) (cursors []ShardCursor) {
	if len(page) == 0 {
		return nil
	}
	last := page[len(page)-1].Shard
	isCut := sync.OnceValue(func() bool { return q.Bytes > 0 && Bodies(page) >= q.Bytes })
	for _, w := range q.Cursors {
		jobs := ofShard(page, w.Shard)
		switch n := len(jobs); {
		case n > 0 && (n == q.Limit || q.isFiltered() || w.Shard == last && isCut()):
			cursors = append(cursors, ShardCursor{Shard: w.Shard, At: jobs[n-1].NextCheckAt, ID: jobs[n-1].ID})
		case w.Shard > last && isCut():
			cursors = append(cursors, w) // the page ends before it
		}
	}
	return cursors
}

// ofShard returns the part of a page that belongs to one shard. A page is sorted by shard and large, so the search is
// binary.
func ofShard(page []Job, shard int16) []Job {
	first := sort.Search(len(page), func(i int) bool { return page[i].Shard >= shard })
	end := sort.Search(len(page), func(i int) bool { return page[i].Shard > shard })
	return page[first:end]
}

// VersionRef is one version of a rule.
type VersionRef struct{ RuleID, Version int32 }

// Settlement is a batch of decisions with the preconditions for writing them.
type Settlement struct {
	Held      []HeldShard // the shards of the decisions
	RuleSet   int64       // the lowest revision that the decisions are based on
	Decisions []*Decision
}

// Settled reports the decisions that were written. For the others the job had changed or the shard was lost; nothing
// of them was written, including alerts.
type Settled struct {
	Jobs         map[int64]bool // by job id
	Alerts       int            // alert rows written
	Lost         []int16        // shards no longer held
	ChangedRules []int32        // rules with rejected decisions because their preconditions changed; refresh the rules
}

// StreamProgress is the reading progress of a stream.
type StreamProgress struct {
	Through        time.Time // the database time up to which no event is pending; zero: it was never read to its end
	ReceivingSince time.Time // start of the current gap-free period, by the database's time; zero: no gap matters
}

// Queue is the sweeper's interface to the future_job table. Implementations are safe for concurrent use.
type Queue interface {
	// Due returns due jobs in the order of (shard, next_check_at, id), without Last. It examines up to Limit rows of
	// each shard. For a query with Not or Of it returns the matching jobs, and also the row at the limit, matching or
	// not, so that Advance knows how far the read came. If Bytes is set, the page ends with the job that reaches it.
	// Errors: ErrTooSlow.
	Due(ctx context.Context, q DueQuery) ([]Job, error)
	// Settle writes decisions, their history and their alerts in one transaction, under the fence: shards are held at
	// their epoch and not expired, jobs have their rev, and since RuleSet no rule was deleted or changed the streams
	// of its ending events. Other changes, of the same rule or of another one, do not matter. If all rules have
	// changed it returns ErrRulesChanged; other errors are ErrRefused and ErrTooSlow.
	Settle(ctx context.Context, s Settlement) (Settled, error)
	// ReadThrough returns the reading progress of ingest by stream; pings are under the empty name.
	ReadThrough(ctx context.Context) (map[string]StreamProgress, error)
	// Now returns the database's time.
	Now(ctx context.Context) (time.Time, error)

	OutageStore
	CheckStarts
}

// foundLittle reports whether a read skipped most of the rows that it examined.
func (q DueQuery) foundLittle(page []Job) bool {
	return q.isFiltered() && 2*len(page) < q.Limit*len(q.Cursors)
}

// behindThreshold is the lateness of a job that makes a sweep count as behind.
const behindThreshold = time.Minute

// behind reports whether more than a page is due, and some of it is late.
func (q DueQuery) behind(jobs []Job) bool {
	return len(q.Advance(jobs)) > 0 && slices.ContainsFunc(jobs, func(j Job) bool { return q.Until.Sub(j.NextCheckAt) > behindThreshold })
}

// cursorOf returns the cursor of a shard; nil: it reached its end.
func cursorOf(cursors []ShardCursor, shard int16) *ShardCursor {
	for i := range cursors {
		if cursors[i].Shard == shard {
			return &cursors[i]
		}
	}
	return nil
}

// pageReader reads pages of due jobs, smaller ones while the database is slow.
type pageReader struct {
	queue    Queue
	log      *slog.Logger
	halvings int // of pages, because larger ones took too long
}

// pageHalvings is the maximum number of halvings of a page: it has the bytes of one large job then.
const pageHalvings = 6

// read reads a page. If the database does not send it in time, for example over a slow link, the page is halved
// and read again. Later pages stay small until one contains all due jobs.
func (r *pageReader) read(ctx context.Context, q *DueQuery, limit int) ([]Job, error) {
	for {
		q.Limit = max(1, max(limit/len(q.Cursors), minShardPage)>>r.halvings)
		q.Bytes = pageBytes >> r.halvings
		jobs, err := r.queue.Due(ctx, *q)
		switch {
		case errors.Is(err, ErrTooSlow) && r.halvings < pageHalvings:
			r.halvings++
			r.log.Warn("a page of due jobs took too long to read; it is read in halves", "bytes", pageBytes>>r.halvings, "err", err)
			continue
		case err == nil && r.halvings > 0 && len(q.Advance(jobs)) == 0:
			r.halvings = 0
		}
		return jobs, err
	}
}
