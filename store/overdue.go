package store

import (
	"context"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
)

// overdueMost is how many jobs of one shard Overdue looks at, and overdueAll of all shards together: a shard that is
// one of many gives fewer, but overdueLeast.
const (
	overdueMost  = 200
	overdueAll   = 3200
	overdueLeast = 20
)

// Overdue is the pending jobs of one version of a rule in one shard that were due by an instant.
type Overdue struct {
	Shard int16
	futurejobs.Edition
	Oldest time.Time // the first of their slots
	Jobs   int
}

// Overdue returns what was due by an instant, of the first jobs of each shard. whole is false where a shard may have
// more. Where nothing is overdue it is one probe of an index a shard, however many jobs are pending.
func (s *Store) Overdue(ctx context.Context, by time.Time) (all []Overdue, whole bool, err error) {
	most := max(min(overdueMost, overdueAll/s.shards), overdueLeast)
	parts := make([]string, s.shards)
	for shard := range parts {
		parts[shard] = fmt.Sprintf(`SELECT shard, rule_id, version, min(next_check_at) AS t, count(*) AS n FROM (
	SELECT shard, rule_id, version, next_check_at FROM future_job WHERE shard = %d AND next_check_at <= $1 ORDER BY next_check_at, id LIMIT %d
) AS f%d GROUP BY shard, rule_id, version`, shard, most, shard)
	}
	all, err = query(ctx, s.read, func(row scanner, o *Overdue) error {
		return row.Scan(&o.Shard, &o.RuleID, &o.Version, at(&o.Oldest), &o.Jobs)
	}, union(parts), by)
	if err != nil {
		return nil, false, failed("overdue", err)
	}
	found := make(map[int16]int)
	whole = true
	for _, o := range all {
		found[o.Shard] += o.Jobs
		whole = whole && found[o.Shard] < most
	}
	return all, whole, nil
}
