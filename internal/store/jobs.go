package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// forever is after every slot, and after the time of a paused job.
var forever = futurejobs.FarFuture.Add(time.Hour)

// Jobs lists pending jobs, those due next first. A page is as stable as its jobs: a job that is checked between two
// pages may appear again, later. Bodies are left out of jobs larger than 2 KiB, or than futurejobs.ListedMost if the
// filter has a key.
func (s *Store) Jobs(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.ListedJob], error) {
	page, err := s.jobs(ctx, f, false)
	if err != nil {
		return page, wrapErr("jobs", err)
	}
	return page, nil
}

// jobs is Jobs; whole reads the jobs of a key with all columns.
func (s *Store) jobs(ctx context.Context, f futurejobs.Filter, whole bool) (page futurejobs.Page[futurejobs.ListedJob], err error) {
	w := window{
		after:  position{At: f.DueAfter, Shard: math.MaxInt16, ID: -1},
		before: forever,
		limit:  limit(f) + 1,
	}
	if err := w.after.read("job", f.Cursor); err != nil {
		return page, err
	}
	if !f.DueBefore.IsZero() {
		w.before = f.DueBefore
	}
	scopes, err := s.scopes(ctx, f)
	if err != nil {
		return page, err
	}
	portions := make([]*shardPage[futurejobs.ListedJob], len(scopes))
	for i, c := range scopes {
		r, err := s.runOf(ctx, c, f, whole)
		if err != nil {
			return page, err
		}
		portions[i] = &shardPage[futurejobs.ListedJob]{next: func(after *futurejobs.ListedJob, limit int) ([]futurejobs.ListedJob, error) {
			part := window{w.after, w.before, limit}
			if after != nil {
				part.after = placeOf(*after)
			}
			return r.next(ctx, part)
		}}
	}
	jobs, err := mergeShards(portions, w.limit, inOrderOfSlots)
	if err != nil {
		return page, err
	}
	return paged("job", jobs, f, placeOf), nil
}

// window is a range of the list of all jobs.
type window struct {
	after  position
	before time.Time
	limit  int
}

// placeOf returns the position of a job in the list.
func placeOf(l futurejobs.ListedJob) position {
	return position{At: l.NextCheckAt, Shard: l.Shard, ID: l.ID}
}

func inOrderOfSlots(a, b futurejobs.ListedJob) int { return placeOf(a).compare(placeOf(b)) }

// compare orders positions by (At, Shard, ID). A position without an id is before all others of its instant.
func (p position) compare(q position) int {
	return cmp.Or(p.At.Compare(q.At), cmp.Compare(min(p.ID, 0), min(q.ID, 0)), cmp.Compare(p.Shard, q.Shard), cmp.Compare(p.ID, q.ID))
}

// idIn returns the id that separates the jobs of a shard due at p.At: those with greater ids follow p.
func (p position) idIn(shard int16) int64 {
	switch {
	case p.ID >= 0 && shard < p.Shard:
		return maxID
	case p.ID >= 0 && shard == p.Shard:
		return p.ID
	}
	return -1
}

// Job returns the pending job of a rule and a key, or futurejobs.ErrNotFound. If several rules had the name, it uses
// the last one.
func (s *Store) Job(ctx context.Context, rule, key string) (futurejobs.ListedJob, error) {
	page, err := s.jobs(ctx, futurejobs.Filter{Rule: rule, Key: key, Limit: futurejobs.MaxLimit}, true)
	if err != nil {
		return futurejobs.ListedJob{}, wrapErr("jobs", err)
	}
	if len(page.Items) == 0 {
		return futurejobs.ListedJob{}, fmt.Errorf("job of rule %q and key %q: %w", rule, key, futurejobs.ErrNotFound)
	}
	return slices.MaxFunc(page.Items, func(a, b futurejobs.ListedJob) int { return cmp.Compare(a.RuleID, b.RuleID) }), nil
}
