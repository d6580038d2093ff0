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

// forever is after every slot.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

const jobsOfShard = `
SELECT ` + listedColumns + ` FROM future_job f JOIN rule r ON r.id = f.rule_id
WHERE f.shard = $1 AND (f.next_check_at, f.id) > ($2, $3) AND f.next_check_at < $4`

// Jobs lists pending jobs, those next due first. A page is as stable as its jobs: one that
// is looked at between two pages may come again, later.
func (s *Store) Jobs(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.Listed], error) {
	var page futurejobs.Page[futurejobs.Listed]
	from := position{At: f.DueAfter, Shard: math.MaxInt16, ID: -1}
	if err := from.read("job", f.Cursor); err != nil {
		return page, err
	}
	scopes, err := s.scopes(ctx, f)
	if err != nil {
		return page, fmt.Errorf("jobs: %w", err)
	}
	before := f.DueBefore
	if before.IsZero() {
		before = forever
	}
	var jobs []futurejobs.Listed
	for _, c := range scopes {
		args := []any{c.shard, from.At, from.after(c.shard), before, limit(f) + 1}
		text := jobsOfShard + c.and("f")
		if f.Key != "" {
			text += ` AND f.key = $6`
			args = append(args, verbatim(f.Key))
		}
		found, err := query(ctx, s.read, readListed, text+` ORDER BY f.next_check_at, f.id LIMIT $5`, args...)
		if err != nil {
			return page, fmt.Errorf("jobs: %w", err)
		}
		jobs = append(jobs, found...)
	}
	slices.SortFunc(jobs, func(a, b futurejobs.Listed) int {
		return cmp.Or(a.NextCheckAt.Compare(b.NextCheckAt), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.ID, b.ID))
	})
	return paged("job", jobs, f, func(l futurejobs.Listed) position {
		return position{At: l.NextCheckAt, Shard: l.Shard, ID: l.ID}
	}), nil
}

// after is the id after which the jobs of a shard at p.At come after p, in the order of
// (next_check_at, shard, id).
func (p position) after(shard int16) int64 {
	switch {
	case shard < p.Shard && p.ID >= 0:
		return maxID
	case shard == p.Shard:
		return p.ID
	}
	return -1
}

// Job returns the pending job of a rule and a key, or futurejobs.ErrNotFound.
func (s *Store) Job(ctx context.Context, rule, key string) (futurejobs.Listed, error) {
	page, err := s.Jobs(ctx, futurejobs.Filter{Rule: rule, Key: key, Limit: 1})
	if err != nil {
		return futurejobs.Listed{}, err
	}
	if len(page.Items) == 0 {
		return futurejobs.Listed{}, fmt.Errorf("job of rule %q and key %q: %w", rule, key, futurejobs.ErrNotFound)
	}
	return page.Items[0], nil
}
