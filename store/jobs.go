package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	futurejobs "deadman/future_jobs"
)

// forever is after every slot, and after when a paused job is due.
var forever = futurejobs.Never.Add(time.Hour)

const (
	ofShard   = ` FROM future_job f JOIN rule r ON r.id = f.rule_id` + withAck + ` WHERE f.shard = $1`
	fromJobs  = `SELECT ` + listedColumns + ofShard
	wholeJobs = `SELECT ` + wholeColumns + ofShard
)

// Jobs lists pending jobs, those next due first. A page is as stable as its jobs: one that
// is looked at between two pages may come again, later.
func (s *Store) Jobs(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.Listed], error) {
	page, err := s.jobs(ctx, f)
	if err != nil {
		return page, failed("jobs", err)
	}
	return page, nil
}

func (s *Store) jobs(ctx context.Context, f futurejobs.Filter) (page futurejobs.Page[futurejobs.Listed], err error) {
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
	var jobs []futurejobs.Listed
	for _, c := range scopes {
		found, err := s.jobsOf(ctx, c, f.Key, w)
		if err != nil {
			return page, err
		}
		jobs = append(jobs, found...)
	}
	slices.SortFunc(jobs, func(a, b futurejobs.Listed) int { return placeOf(a).compare(placeOf(b)) })
	return paged("job", jobs, f, placeOf), nil
}

// window is a part of the list of all jobs.
type window struct {
	after  position
	before time.Time
	limit  int
}

// few is how many jobs of a shard are read whole rather than walked over.
const few = 1000

// jobsOf returns the first jobs of a window that lie in a scope, by the way that reads the
// fewest rows: the jobs of a key, of rules that have few, or a walk in the order of dueness
// that passes over the others.
func (s *Store) jobsOf(ctx context.Context, c scope, key string, w window) ([]futurejobs.Listed, error) {
	if key != "" {
		found, err := query(ctx, s.read, readWhole, wholeJobs+c.and("f")+` AND f.key = $2`, c.shard, verbatim(key))
		return w.within(found), err
	}
	if c.rules != nil {
		rare, err := s.rare(ctx, c)
		if err != nil {
			return nil, err
		}
		if rare {
			found, err := query(ctx, s.read, readListed, fromJobs+c.and("f")+` ORDER BY f.rule_id, f.key`, c.shard)
			return w.within(found), err
		}
	}
	// The plus keeps the databases from taking the index that begins with the rule.
	return query(ctx, s.read, readListed,
		fromJobs+` AND (f.next_check_at, f.id) > ($2, $3) AND f.next_check_at < $4`+ofRules("+f", c.rules)+
			` ORDER BY f.next_check_at, f.id LIMIT `+strconv.Itoa(w.limit),
		c.shard, w.after.At, w.after.idIn(c.shard), w.before)
}

// rare reports whether the scope's rules have few jobs there.
func (s *Store) rare(ctx context.Context, c scope) (bool, error) {
	var n int
	err := s.read.QueryRowContext(ctx, `SELECT count(*) FROM
	(SELECT 1 FROM future_job f WHERE f.shard = $1`+c.and("f")+` ORDER BY f.rule_id, f.key LIMIT `+strconv.Itoa(few)+`) AS q`,
		c.shard).Scan(&n)
	return n < few, err
}

// within leaves the jobs that lie in the window.
func (w window) within(jobs []futurejobs.Listed) []futurejobs.Listed {
	return slices.DeleteFunc(jobs, func(l futurejobs.Listed) bool {
		return placeOf(l).compare(w.after) <= 0 || !l.NextCheckAt.Before(w.before)
	})
}

// placeOf is where a job stands in the list.
func placeOf(l futurejobs.Listed) position {
	return position{At: l.NextCheckAt, Shard: l.Shard, ID: l.ID}
}

// compare orders places by (At, Shard, ID). A place without an id is before all others of
// its instant.
func (p position) compare(q position) int {
	return cmp.Or(p.At.Compare(q.At), cmp.Compare(min(p.ID, 0), min(q.ID, 0)), cmp.Compare(p.Shard, q.Shard), cmp.Compare(p.ID, q.ID))
}

// idIn is the id after which the jobs of a shard that are due at p.At come after p.
func (p position) idIn(shard int16) int64 {
	switch {
	case p.ID >= 0 && shard < p.Shard:
		return maxID
	case p.ID >= 0 && shard == p.Shard:
		return p.ID
	}
	return -1
}

// Job returns the pending job of a rule and a key, or futurejobs.ErrNotFound. Of several rules
// that had the name, the last one's is meant.
func (s *Store) Job(ctx context.Context, rule, key string) (futurejobs.Listed, error) {
	page, err := s.Jobs(ctx, futurejobs.Filter{Rule: rule, Key: key, Limit: futurejobs.MaxLimit})
	if err != nil {
		return futurejobs.Listed{}, err
	}
	if len(page.Items) == 0 {
		return futurejobs.Listed{}, fmt.Errorf("job of rule %q and key %q: %w", rule, key, futurejobs.ErrNotFound)
	}
	return slices.MaxFunc(page.Items, func(a, b futurejobs.Listed) int { return cmp.Compare(a.RuleID, b.RuleID) }), nil
}
