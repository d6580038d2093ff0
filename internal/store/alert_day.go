package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// alertRetention deletes and counts alerts by rule.
type alertRetention struct {
	*database
	alerts *AlertStore
}

// alertDays returns the days from the oldest alert to now. The id of an alert begins with its time.
func (s *alertRetention) alertDays(ctx context.Context, now time.Time) ([]time.Time, error) {
	oldest := now
	for shard := range s.shards {
		first, err := query(ctx, s.read, func(row scanner, id *alerts.ID) error { return row.Scan(id) },
			`SELECT a.id FROM alert a WHERE a.shard = $1 ORDER BY a.id LIMIT 1`, shard)
		if err != nil {
			return nil, err
		}
		for _, id := range first {
			if at := time.UnixMilli(int64(binary.BigEndian.Uint64(id[:]) >> 16)); at.Before(oldest) { //nolint:gosec // 48 bits
				oldest = at
			}
		}
	}
	return daysFrom(oldest, now), nil
}

// daysFrom returns the days from the one of an instant to the one of another, in UTC.
func daysFrom(from, to time.Time) (days []time.Time) {
	for day := from.UTC().Truncate(futurejobs.Day); !day.After(to); day = day.Add(futurejobs.Day) {
		days = append(days, day)
	}
	return days
}

// exceptOpen is the condition, with parameters from $4 on, that an alert a is not among the first mostKept open ones of its shard.
func exceptOpen(open []alerts.ID) (condition string, args []any) {
	for _, id := range open[:min(len(open), mostKept)] {
		args = append(args, id[:])
		condition += ", $" + strconv.Itoa(3+len(args))
	}
	if len(args) == 0 {
		return "", nil
	}
	return ` AND a.id NOT IN (` + condition[2:] + `)`, args
}

// mostKept is the largest number of alerts without a job in a shard that retention keeps. Those that report lost data come last.
const mostKept = 500

// alertGroups counts the alerts of a shard within a range of ids. open are the alerts of conditionAlerts.
func (s *alertRetention) alertGroups(ctx context.Context, shard int16, from, end alerts.ID, open []alerts.ID) ([]rowGroup, error) {
	except, kept := exceptOpen(open)
	return query(ctx, s.read, func(row scanner, g *rowGroup) error {
		return row.Scan(&g.rule, &g.stays, &g.rows, at(&g.oldest))
	}, s.waiting()+`
SELECT a.rule_id, CASE WHEN w.id IS NULL`+except+s.alerts.notOpen()+` THEN FALSE ELSE TRUE END, count(*), min(a.decided_at)
FROM alert a`+notWaiting+` WHERE a.shard = $1 AND a.id >= $2 AND a.id < $3 GROUP BY 1, 2 ORDER BY 1, 2`, append([]any{shard, from[:], end[:]}, kept...)...)
}

// alertDay deletes the due alerts of a day. open are the alerts of conditionAlerts.
type alertDay struct {
	*alertRetention
	open map[int16][]alerts.ID
}

// prune deletes the due alerts of a day, with their deliveries. left means that some are open or unpublished, and stay.
func (s alertDay) prune(ctx context.Context, plan retentionPlan, day, now time.Time, more func() bool) (total int64, left bool, err error) {
	for _, shard := range s.allShards() {
		groups, err := s.alertGroups(ctx, shard, firstAlert(day), firstAlert(day.Add(futurejobs.Day)), s.open[shard])
		if err != nil {
			return total, left, err
		}
		var due []int32
		for _, g := range groups {
			if !plan.isDue(keptAlerts, g.rowClass, day, now) {
				continue
			}
			left = left || g.stays
			if !g.stays {
				due = append(due, g.rule)
			}
		}
		if len(due) == 0 {
			continue
		}
		n, err := s.dropAlerts(ctx, shard, firstAlert(day), firstAlert(day.Add(futurejobs.Day)), s.open[shard], due, more)
		total += n
		if err != nil {
			return total, left, err
		}
	}
	return total, left, nil
}

// pruneAlerts deletes the alerts before a time.
func (s *alertRetention) pruneAlerts(ctx context.Context, before time.Time, more func() bool) (total int64, err error) {
	open, err := conditionAlerts(ctx, s.database)
	if err != nil {
		return 0, err
	}
	for _, shard := range s.allShards() {
		n, err := s.dropAlerts(ctx, shard, alerts.ID{}, firstAlert(before), open[shard], nil, more)
		total += n
		if err != nil {
			return total, ignoreErr(errors.Is(err, errBudget), err)
		}
	}
	return total, nil
}

// dropAlerts deletes the alerts of rules within a range of ids that are neither open nor unpublished; nil rules: of all. The ids
// are read before the transaction, because other writers wait for the transaction, and an ended alert does not become open again.
func (s *alertRetention) dropAlerts(ctx context.Context, shard int16, from, end alerts.ID, open []alerts.ID, rules []int32, more func() bool) (total int64, err error) {
	except, kept := exceptOpen(open)
	for {
		if !more() {
			return total, errBudget
		}
		gone, err := query(ctx, s.read, func(row scanner, id *alerts.ID) error { return row.Scan(id) }, s.dueAlerts(except, rules), append([]any{shard, from[:], end[:]}, kept...)...)
		if err != nil || len(gone) == 0 {
			return total, err
		}
		if err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error { return s.dropWithDeliveries(ctx, tx, shard, gone) }); err != nil {
			return total, err
		}
		total += int64(len(gone))
		from = gone[len(gone)-1]
	}
}

// dueAlerts is the statement for the ids of the next alerts of a shard that are neither open nor unpublished, nor in except.
func (s *alertRetention) dueAlerts(except string, rules []int32) string {
	return s.waiting() + `
SELECT a.id FROM alert a` + notWaiting + ` WHERE a.shard = $1 AND a.id >= $2 AND a.id < $3 AND w.id IS NULL` + except + s.alerts.notOpen() + ofRules("a", rules) + `
ORDER BY a.id LIMIT ` + listedBatch
}

// listedBatch is the largest number of alerts that one transaction deletes by their ids, as a literal in a statement.
const listedBatch = `500`

// dropWithDeliveries deletes alerts, their deliveries, and the notifications that had no other alert.
func (s *alertRetention) dropWithDeliveries(ctx context.Context, tx *sql.Tx, shard int16, ids []alerts.ID) error {
	in, args := idParams(len(ids)), with(ids, shard)
	notices, err := query(ctx, tx, readID, `SELECT DISTINCT d.notice FROM delivery d WHERE d.shard = $1 AND d.notice IS NOT NULL AND d.alert_id IN `+in, args...)
	if err != nil {
		return err
	}
	n, err := exec(ctx, tx, `DELETE FROM alert WHERE shard = $1 AND id IN `+in, args...)
	if err != nil {
		return err
	}
	for _, text := range []string{
		`DELETE FROM alert_news WHERE shard = $1 AND id IN ` + in,
		`DELETE FROM delivery WHERE shard = $1 AND alert_id IN ` + in,
	} {
		if _, err := exec(ctx, tx, text, args...); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(notices, pruneBatch) {
		if _, err := exec(ctx, tx, `DELETE FROM notice WHERE id IN `+inList(part)+` AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.notice = notice.id)
	AND NOT EXISTS (SELECT 1 FROM ack_notice n WHERE n.notice = notice.id)`); err != nil {
			return err
		}
	}
	return count(ctx, tx, "alert", n)
}
