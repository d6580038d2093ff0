package store

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// HeartbeatStore lists the keys of heartbeats. A key is a pending job of a rule with a heartbeat.
type HeartbeatStore struct{ *database }

// heartbeatUnchecked is how long after its slot a check may come before the state of its key is unknown.
const heartbeatUnchecked = time.Minute

const (
	// expectedKey is the condition for a job f of a key that nothing was reported of: the first report sets the event,
	// and replaces the state of the job, which rules.Expected begins with.
	expectedKey = `coalesce(f.event IS NULL AND f.state LIKE '%"heartbeat":{"kind":"expected"}%', FALSE)`

	// failedKey is the condition for a job f whose last run failed: rules begin the state of a heartbeat in one of these ways.
	failedKey = `coalesce(f.state LIKE '%"heartbeat":{"kind":"fail"%' OR f.state LIKE '%"heartbeat":{"kind":"start","failed_at":"%', FALSE)`

	// awaitedKey is the condition for a job f of a key that nothing was reported of since the job began: a person created the
	// job, or ended the one before it.
	awaitedKey = `coalesce(f.state LIKE '%"heartbeat":{"kind":"expected"%', FALSE)`

	// reportOfKey is the state of a job f of which rules.LastReport reads the last report.
	reportOfKey = `CASE WHEN f.state LIKE '%"heartbeat":{"kind":"%' THEN f.state END`

	// excusedKey is the condition for a job f that was checked after its report was overdue, and raised no alert. It reads
	// the times of overdueBefore.
	excusedKey = `(f.check_count > 0 AND f.alert_ids IS NULL AND f.paused_next_at IS NULL AND
	coalesce(f.since_at < (SELECT b.overdue_before FROM beat b WHERE b.rule_id = f.rule_id), FALSE))`

	// heartbeatState is the futurejobs.HeartbeatState of a job f. Its parameter is the latest slot of an overdue check.
	heartbeatState = `CASE WHEN f.paused_next_at IS NOT NULL THEN 0 WHEN f.alert_ids IS NOT NULL THEN 1
	WHEN f.undecided > 0 OR f.next_check_at < ? OR ` + failedKey + ` THEN 2 WHEN ` + expectedKey + ` THEN 3 WHEN ` + excusedKey + ` OR ` + awaitedKey + ` THEN 2 ELSE 4 END`
)

// overdueBefore returns the table of the times of rules that excusedKey reads, and the ids of the rules.
func overdueBefore(rules []futurejobs.HeartbeatRule) (with string, args []any, ids []int32) {
	for _, r := range rules {
		args, ids = append(args, r.ID, when(r.OverdueBefore)), append(ids, r.ID)
	}
	return `WITH beat (rule_id, overdue_before) AS (VALUES ` + repeated(`(CAST(? AS int), CAST(? AS timestamptz))`, len(rules)) + `)
`, args, ids
}

// HeartbeatKeys lists the keys of rules, by the id of the rule and the key.
func (s *HeartbeatStore) HeartbeatKeys(ctx context.Context, f futurejobs.HeartbeatFilter) (futurejobs.Page[futurejobs.HeartbeatKey], error) {
	page, err := s.heartbeatKeys(ctx, f)
	if err != nil {
		return page, wrapErr("heartbeats", err)
	}
	return page, nil
}

func (s *HeartbeatStore) heartbeatKeys(ctx context.Context, f futurejobs.HeartbeatFilter) (page futurejobs.Page[futurejobs.HeartbeatKey], err error) {
	var after position
	if err := after.read("heartbeat", f.Cursor); err != nil || len(f.Rules) == 0 {
		return page, err
	}
	now, err := s.Time(ctx)
	if err != nil {
		return page, err
	}
	shards := make([]*shardPage[futurejobs.HeartbeatKey], s.shards)
	for i := range shards {
		shards[i] = &shardPage[futurejobs.HeartbeatKey]{next: func(last *futurejobs.HeartbeatKey, limit int) ([]futurejobs.HeartbeatKey, error) {
			from := after
			if last != nil {
				from = keyPosition(*last)
			}
			w := heartbeatsOf(f, from, now)
			return query(ctx, s.read, readHeartbeatKey, rebindPlaceholders(w.text+` AND f.shard = ? ORDER BY f.rule_id, f.key LIMIT ?`), append(w.args, i, limit)...)
		}}
	}
	of := futurejobs.Filter{Limit: f.Limit}
	keys, err := mergeShards(shards, limit(of)+1, byRuleAndKey)
	if err != nil {
		return page, err
	}
	return paged("heartbeat", keys, of, keyPosition), nil
}

// heartbeatsOf returns the statement for the keys of a filter after a position.
func heartbeatsOf(f futurejobs.HeartbeatFilter, after position, now time.Time) filter {
	overdue := now.Add(-heartbeatUnchecked)
	with, args, ids := overdueBefore(f.Rules)
	w := filter{with + `SELECT ` + listedColumns + `, ` + heartbeatState + `, ` + excusedKey + `, ` + reportOfKey + ofJobs + ` WHERE f.rule_id IN ` + inList(ids), append(args, overdue)}
	if after.Rule != 0 {
		w.and(`(f.rule_id, f.key) > (?, ?)`, after.Rule, after.Key)
	}
	if f.Key != "" {
		w.and(`f.key = ?`, escapedText(f.Key))
	}
	if f.KeyPrefix != "" {
		w.hasPrefix(`f.key`, f.KeyPrefix)
	}
	if f.State == nil {
		return w
	}
	if *f.State == futurejobs.HeartbeatLate {
		w.and(`f.alert_ids IS NOT NULL`) // for the index of open alerts
	}
	w.and(heartbeatState+` = ?`, overdue, int(*f.State))
	return w
}

// keyPosition returns the position of a key in the list.
func keyPosition(k futurejobs.HeartbeatKey) position {
	return position{Rule: k.RuleID, Key: escape(k.Key)}
}

func byRuleAndKey(a, b futurejobs.HeartbeatKey) int {
	return cmp.Or(cmp.Compare(a.RuleID, b.RuleID), strings.Compare(escape(a.Key), escape(b.Key)))
}

func readHeartbeatKey(row scanner, k *futurejobs.HeartbeatKey) error {
	var state []byte
	err := readWhole(rowWithExtras{row, []any{&k.State, &k.Excused, &state}}, &k.ListedJob)
	k.Report = rules.LastReport(state)
	return err
}

// keysAtOnce bounds the keys of a statement.
const keysAtOnce = 200

// UnwatchedKeys returns those of the keys of a rule that have no pending job.
func (s *HeartbeatStore) UnwatchedKeys(ctx context.Context, ruleID int32, keys []string) (unwatched []string, err error) {
	for some := range slices.Chunk(keys, keysAtOnce) {
		args := []any{ruleID}
		for _, key := range some {
			args = append(args, escapedText(key))
		}
		watched, err := query(ctx, s.read, func(r scanner, key *string) error { return r.Scan((*escapedText)(key)) }, rebindPlaceholders(`
SELECT f.key FROM shard_lease l CROSS JOIN future_job f
WHERE f.shard = l.shard AND f.rule_id = ? AND f.key IN (`+repeated(`?`, len(some))+`)`), args...)
		if err != nil {
			return nil, wrapErr("unwatched keys", err)
		}
		unwatched = append(unwatched, slices.DeleteFunc(slices.Clone(some), func(key string) bool { return slices.Contains(watched, key) })...)
	}
	return unwatched, nil
}

// HeartbeatCounts counts the keys of rules by state. It reads all of them: frequent callers should cache the result.
func (s *HeartbeatStore) HeartbeatCounts(ctx context.Context, rules []futurejobs.HeartbeatRule) (map[int32]futurejobs.HeartbeatCounts, error) {
	counts := make(map[int32]futurejobs.HeartbeatCounts)
	if len(rules) == 0 {
		return counts, nil
	}
	now, err := s.Time(ctx)
	if err != nil {
		return nil, wrapErr("count heartbeats", err)
	}
	type row struct {
		rule  int32
		state futurejobs.HeartbeatState
		keys  int64
	}
	with, args, ids := overdueBefore(rules)
	all, err := query(ctx, s.read, func(r scanner, n *row) error { return r.Scan(&n.rule, &n.state, &n.keys) },
		rebindPlaceholders(with+`SELECT rule_id, state, count(*) FROM (
	SELECT f.rule_id, `+heartbeatState+` AS state FROM shard_lease l CROSS JOIN future_job f WHERE f.shard = l.shard AND f.rule_id IN `+inList(ids)+`
) AS k GROUP BY rule_id, state`), append(args, now.Add(-heartbeatUnchecked))...)
	if err != nil {
		return nil, wrapErr("count heartbeats", err)
	}
	for _, n := range all {
		of := counts[n.rule]
		of[n.state] = n.keys
		counts[n.rule] = of
	}
	return counts, nil
}

// HeartbeatPeriods returns the ended jobs of keys that ended at or after an instant, newest first, up to a limit.
func (s *HeartbeatStore) HeartbeatPeriods(ctx context.Context, keys []futurejobs.Ref, since time.Time, limit int) ([]futurejobs.HeartbeatPeriod, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	var args []any
	for _, k := range keys {
		args = append(args, k.Shard, k.RuleID, escapedText(k.Key))
	}
	found, err := query(ctx, s.read, readHeartbeatPeriod, rebindPlaceholders(`
WITH lane (shard, rule_id, key) AS (VALUES `+repeated(`(CAST(? AS smallint), CAST(? AS int), CAST(? AS text))`, len(keys))+`)
SELECT f.shard, f.rule_id, f.key, f.created_at, f.ended_at, f.alert_ids, coalesce(f.reason, '')
FROM lane k JOIN history f ON f.shard = k.shard AND f.key = k.key AND f.rule_id = k.rule_id
WHERE f.ended_at >= ? ORDER BY f.ended_at DESC LIMIT `+strconv.Itoa(limit)), append(args, since)...)
	if err != nil {
		return nil, wrapErr("periods of heartbeats", err)
	}
	return found, nil
}

func readHeartbeatPeriod(row scanner, p *futurejobs.HeartbeatPeriod) error {
	var raised idList
	err := row.Scan(&p.Shard, &p.RuleID, (*escapedText)(&p.Key), at(&p.CreatedAt), at(&p.EndedAt), &raised, &p.Reason)
	if len(raised) > 0 {
		p.LateAt = alerts.TimeOf(raised[0])
	}
	return err
}
