package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
)

// overdueMost is the number of jobs of one shard that Overdue reads, and overdueAll that of all shards together: with
// many shards each contributes fewer, but at least overdueLeast. To skip jobs of versions that may be late, it reads up to
// overduePast times as many.
const (
	overdueMost  = 200
	overdueAll   = 3200
	overdueLeast = 20
	overduePast  = 50
)

// Overdue has the pending jobs of one version of a rule in one shard that were due by an instant.
type Overdue struct {
	Shard int16
	futurejobs.VersionRef
	Oldest time.Time // the earliest of their slots
	Jobs   int
}

// Overdue returns the jobs due by an instant, from the first jobs of each shard, without the jobs of versions within
// their tolerance in late. whole is false if a shard may have more. If no job is overdue, it costs one index probe per
// shard, for any number of pending jobs.
func (s *Store) Overdue(ctx context.Context, by time.Time, late map[futurejobs.VersionRef]time.Duration) (all []Overdue, whole bool, err error) {
	most := max(min(overdueMost, overdueAll/s.shards), overdueLeast)
	due, args := `SELECT shard, rule_id, version, next_check_at FROM future_job WHERE shard = %[1]d AND next_check_at <= $1 ORDER BY next_check_at, id LIMIT %[2]d`, []any{by}
	if len(late) > 0 {
		var not []string
		for _, made := range slices.SortedFunc(maps.Keys(late), func(a, b futurejobs.VersionRef) int { // a stable text, which is prepared once
			return cmp.Or(cmp.Compare(a.RuleID, b.RuleID), cmp.Compare(a.Version, b.Version))
		}) {
			args = append(args, by.Add(-late[made]))
			not = append(not, fmt.Sprintf(`rule_id = %d AND version = %d AND next_check_at > `, made.RuleID, made.Version)+"$"+strconv.Itoa(len(args)))
		}
		due = `SELECT shard, rule_id, version, next_check_at FROM (
	SELECT id, shard, rule_id, version, next_check_at FROM future_job WHERE shard = %[1]d AND next_check_at <= $1 ORDER BY next_check_at, id LIMIT %[3]d
) AS d%[1]d WHERE NOT (` + strings.Join(not, ` OR `) + `) ORDER BY next_check_at, id LIMIT %[2]d`
	}
	parts := make([]string, s.shards)
	for shard := range parts {
		parts[shard] = fmt.Sprintf(`SELECT shard, rule_id, version, min(next_check_at) AS t, count(*) AS n FROM (
	`+due+`
) AS f%[1]d GROUP BY shard, rule_id, version`, shard, most, overduePast*most)
	}
	all, err = query(ctx, s.read, func(row scanner, o *Overdue) error {
		return row.Scan(&o.Shard, &o.RuleID, &o.Version, at(&o.Oldest), &o.Jobs)
	}, union(parts), args...)
	if err != nil {
		return nil, false, wrapErr("overdue", err)
	}
	found := make(map[int16]int)
	whole = len(late) == 0 // else more may follow the skipped jobs
	for _, o := range all {
		found[o.Shard] += o.Jobs
		whole = whole && found[o.Shard] < most
	}
	return all, whole, nil
}
