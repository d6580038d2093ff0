package store

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"deadman/internal/access"
)

// ruleGrowth is by how many schedules a transaction lets a rule grow.
type ruleGrowth struct {
	rule int32
	name string
	n    int64
}

// countParts is the number of parts of the count of a rule.
const countParts = 8

const (
	addSchedules = `INSERT INTO schedule_count (rule_id, part, n) VALUES ($1, $2, $3)
ON CONFLICT (rule_id, part) DO UPDATE SET n = schedule_count.n + excluded.n`
	// schedulesByName reads the number of schedules of the rules with names that begin with a text, with those of deleted
	// rules. It does not read the schedules.
	schedulesByName = `SELECT r.name, CAST(sum(c.n) AS bigint) FROM rule r JOIN schedule_count c ON c.rule_id = r.id WHERE substr(r.name, 1, $1) = $2 GROUP BY r.name`
	// lockPrefix makes transactions of the rules with a prefix wait for each other.
	lockPrefix = `INSERT INTO quota_lock (prefix, locked_at) VALUES ($1, $2) ON CONFLICT (prefix) DO UPDATE SET locked_at = excluded.locked_at`
)

// countSchedules adds the growth of rules to their counts, in the order of the rules, or returns access.ErrQuota.
func countSchedules(ctx context.Context, tx *sql.Tx, now time.Time, all []ruleGrowth) error {
	if err := roomForSchedules(ctx, tx, now, all); err != nil {
		return err
	}
	part := rand.N(countParts)
	for _, g := range all {
		if g.n == 0 {
			continue
		}
		if _, err := exec(ctx, tx, addSchedules, g.rule, part, g.n); err != nil {
			return err
		}
	}
	return nil
}

// roomForSchedules returns an error if the quotas of the token's tenant have no room for the growth of its rules.
// Transactions of a tenant that add schedules wait for each other from here on, so that each sees the counts of the others.
func roomForSchedules(ctx context.Context, tx *sql.Tx, now time.Time, all []ruleGrowth) error {
	tenant := access.PrefixOf(ctx)
	if tenant == "" {
		return nil
	}
	more, isMore := make(map[string]int64), false
	for _, g := range all {
		more[g.name] = g.n
		isMore = isMore || g.n > 0
	}
	if !isMore {
		return nil
	}
	shared, quotas, err := sharedQuotas(ctx, tx, tenant)
	if err != nil || len(quotas) == 0 {
		return err
	}
	if _, err := exec(ctx, tx, lockPrefix, shared, now); err != nil {
		return err
	}
	used, err := perRule(ctx, tx, schedulesByName, len(shared), shared)
	if err != nil {
		return err
	}
	return access.RoomFor(quotas, access.LimitSchedules, used, more, tenant)
}

// forgetSchedules deletes the schedules of deleted rules.
func (s *ScheduleStore) forgetSchedules(ctx context.Context) error {
	for more := true; more; {
		if err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
			deleted, err := query(ctx, tx, func(row scanner, id *int32) error { return row.Scan(id) }, `SELECT r.id FROM rule r
WHERE r.deleted_at IS NOT NULL AND EXISTS (SELECT 1 FROM schedule s WHERE s.rule_id = r.id) ORDER BY r.id LIMIT 1`+s.forUpdateOf("r"))
			if more = err == nil && len(deleted) > 0; !more {
				return err
			}
			n, err := exec(ctx, tx, `DELETE FROM schedule WHERE rule_id = $1 AND id IN (SELECT s.id FROM schedule s WHERE s.rule_id = $1 ORDER BY s.id LIMIT $2)`, deleted[0], pruneBatch)
			if err != nil {
				return err
			}
			_, err = exec(ctx, tx, addSchedules, deleted[0], 0, -n)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
