package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	futurejobs "deadman/future_jobs"
)

// A settle is one statement, composed of these parts. Each part reads the one before it, so a decision that the fence
// rejects is written to no table.
//
//	older         a node of schema 16
//	rule_set_now  the rule set, if unchanged; needed only for such a node
//	rule_now      the unchanged rules
//	stand         the held shards, if all rules are unchanged
//	ended, moved  the jobs of those shards that were unchanged since they were read, and are now written
//	done          both, if some jobs end and some continue
//
// The rows of rule_now and stand are locked FOR KEY SHARE until the commit: a takeover and a change of a rule's fence
// wait for it, a renewal and a new version do not. An expired lease or a closed gate admits no settle, or overlapping
// settles could block takeovers and changes forever.
//
// Parameters are in the order of the parts; rebindPlaceholders numbers them.
const (
	ruleSetNow = `older AS MATERIALIZED (
	` + olderNode + `
), rule_set_now AS MATERIALIZED (
	SELECT revision FROM rule_set
	WHERE id = 1 AND revision = ? AND (gate_until IS NULL OR gate_until <= now()) AND EXISTS (SELECT 1 FROM older)
	FOR KEY SHARE
)`
	ruleSetStands = `(NOT EXISTS (SELECT 1 FROM older) OR EXISTS (SELECT 1 FROM rule_set_now))`

	fenceCTE = `
WITH ` + ruleSetNow + `, rule_now AS MATERIALIZED (
	SELECT id FROM rule
	WHERE id = ANY(?::int[]) AND fence <= ? AND (gate_until IS NULL OR gate_until <= now())
	FOR KEY SHARE
), stand AS MATERIALIZED (
	SELECT l.shard FROM unnest(?::smallint[], ?::bigint[]) AS held (shard, epoch)
	JOIN shard_lease l ON l.shard = held.shard AND l.epoch = held.epoch
	WHERE l.expires_at > now() AND (SELECT count(*) FROM rule_now) = ? AND ` + ruleSetStands + `
	FOR KEY SHARE OF l
)`
	joinHeld = ` JOIN stand ON stand.shard = ask.shard`

	unionCTE = `, done AS (
	SELECT shard, id, rule_id, version, key, since_at, completed_at FROM ended
	UNION ALL SELECT shard, id, rule_id, version, key, since_at, completed_at FROM moved
)`
	resultSQL = `
SELECT ` + ruleSetStands + `,
	(SELECT array_agg(id) FROM rule_now),
	(SELECT array_agg(shard) FROM stand),
	(SELECT array_agg(id) FROM `
)

// deleteSQL ends the jobs in the table ask.
func (e *endColumns) deleteSQL(ask string) string {
	trail := `f.trail`
	if !e.trail.none {
		trail = trailWith("f.trail", "ask.trail", findInPostgres)
	}
	return `ended AS (
	DELETE FROM future_job f USING ` + ask + `
	WHERE f.shard = ask.shard AND f.id = ask.id AND f.rev = ` + e.rev.of("ask") + `
	RETURNING f.shard, f.id, f.rule_id, f.version, f.key, f.created_at, f.since_at, f.first_check_at,
		coalesce(f.paused_next_at, f.next_check_at), ` + e.outcome.of("ask") + `, ` + e.reason.of("ask") + `,
		` + e.checkCount.of("ask") + `, ` + e.step.of("ask") + `, ` + e.picked.of("ask") + `, ` + e.started.of("ask") + `, ` + e.completed.of("ask") + `, ` + e.failed.of("ask") + `,
		` + e.checks.of("ask") + `, ask.check_total, ` + e.slowest.of("ask") + `, ` + e.alertIDs.of("ask") + `, ` + trail + `
), archived AS (
	INSERT INTO history (shard, id, rule_id, version, key, created_at, since_at, first_check_at, next_check_at,
		outcome, reason, check_count, step, picked_at, started_at, completed_at, failed_at,
		checks, check_total, check_slowest, alert_ids, trail, ended_at)
	SELECT ended.*, now() FROM ended
)`
}

// updateSQL continues the jobs in the table ask.
func (m *moveColumns) updateSQL(ask string) string {
	trail := ``
	if !m.trail.none {
		trail = `, trail = ` + trailWith("f.trail", "ask.trail", findInPostgres)
	}
	return `moved AS (
	UPDATE future_job f SET rev = f.rev + 1, next_check_at = ` + m.next.of("ask") + `, undecided = ` + m.undecided.of("ask") + `,
		check_count = ` + m.checkCount.of("ask") + `, step = ` + m.step.of("ask") + `, picked_at = ` + m.picked.of("ask") + `, started_at = ` + m.started.of("ask") + `,
		completed_at = ` + m.completed.of("ask") + `, failed_at = ` + m.failed.of("ask") + `, checks = ` + m.checks.of("ask") + `,
		check_total = ask.check_total, check_slowest = coalesce(` + m.slowest.of("ask") + `, ask.check_total), alert_ids = ` + m.alertIDs.of("ask") + trail + `
	FROM ` + ask + `
	WHERE f.shard = ask.shard AND f.id = ask.id AND f.rev = ` + m.rev.of("ask") + `
	RETURNING f.shard, f.id, f.rule_id, f.version, f.key, f.since_at, f.completed_at
)`
}

// insertAlertsSQL inserts the alerts of the jobs in a table.
func (s *alertInsertColumns) insertAlertsSQL(done string) (text string, args []any) {
	if s.id.n == 0 {
		return "", nil
	}
	said, args := table("said", s.all())
	since, decided := `said.since_at`, `said.decided_at`
	if s.since.none {
		since = `job.since_at`
	}
	if s.decidedAt.none {
		decided = `job.completed_at`
	}
	stands := ``
	if s.repeats {
		stands = `
	ON CONFLICT DO NOTHING`
	}
	return `, said AS (
	INSERT INTO alert (shard, id, rule_id, version, status, severity, key, decided_at, since_at, check_count, detail)
	SELECT job.shard, said.id, job.rule_id, job.version, ` + s.status.of("said") + `, ` + s.severity.of("said") + `, job.key,
		` + decided + `, ` + since + `, ` + s.checkCount.of("said") + `, said.detail
	FROM ` + said + `
	JOIN ` + done + ` AS job ON job.id = said.job_id` + stands + `
	RETURNING shard, id
), posted AS (
	INSERT INTO alert_outbox (shard, at, first_id, ids)
	SELECT shard, clock_timestamp(), encode(substr(ids, from_byte, 16), 'hex')::uuid, substr(ids, from_byte, ` + rowBytes + `)
	FROM (SELECT shard, string_agg(uuid_send(id), '' ORDER BY id) AS ids FROM said GROUP BY shard) AS of_shard,
		generate_series(1, length(ids), ` + rowBytes + `) AS part (from_byte)
), told AS (
	INSERT INTO alert_news (shard, id) SELECT shard, id FROM said WHERE ` + notifying + `
)`, args
}

// settleSQL returns the statement of a settlement and its parameters. It omits parts without work.
func (c *settleColumns) settleSQL(ruleSet int64, rules []int32, shards []int16, epochs []int64) (text string, args []any) {
	text, args = fenceCTE, []any{ruleSet, rules, ruleSet, shards, epochs, len(rules)}
	over, on := c.ends.id.n > 0, c.moves.id.n > 0
	if over {
		ask, arrays := table("ask", c.ends.all())
		text, args = text+`, `+c.ends.deleteSQL(`(`+ask+joinHeld+`)`), append(args, arrays...)
	}
	if on {
		ask, arrays := table("ask", c.moves.all())
		text, args = text+`, `+c.moves.updateSQL(`(`+ask+joinHeld+`)`), append(args, arrays...)
	}
	done := "ended"
	switch {
	case over && on:
		text, done = text+unionCTE, "done"
	case on:
		done = "moved"
	}
	c.said.since.none = true // unchanged jobs have the since_at that was read
	speak, said := c.said.insertAlertsSQL(done)
	return rebindPlaceholders(text + speak + resultSQL + done + `)`), withSizeHint(append(args, said...))
}

// endSQL returns the statement that ends locked jobs, and its parameters. Locked jobs need no fence.
func (c *settleColumns) endSQL() (text string, args []any) {
	ask, args := table("ask", c.ends.all())
	speak, said := c.said.insertAlertsSQL("ended")
	return rebindPlaceholders(`WITH ` + c.ends.deleteSQL(ask) + speak + ` SELECT count(*) FROM ended`), append(args, said...)
}

// rebindPlaceholders turns each ? into the next $n.
func rebindPlaceholders(text string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, more := strings.Cut(text, "?")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		text = after
	}
}

// Settle implements futurejobs.Queue, in one round trip. If rules have changed, it takes another one for the decisions
// on the other rules.
func (p *postgres) Settle(ctx context.Context, s futurejobs.Settlement) (futurejobs.Settled, error) {
	settled := futurejobs.Settled{Jobs: make(map[int64]bool, len(s.Decisions))}
	ctx, cancel := context.WithTimeout(ctx, 2*dbTimeout)
	defer cancel()
	for len(s.Decisions) > 0 {
		moved, err := p.settle(ctx, s, &settled)
		if err != nil {
			return futurejobs.Settled{}, wrapErr("settle", err)
		}
		if len(moved) == 0 {
			break
		}
		settled.Moved = append(settled.Moved, moved...)
		if s.Decisions = without(s.Decisions, moved); len(s.Decisions) == 0 {
			return futurejobs.Settled{}, wrapErr("settle", futurejobs.ErrRulesChanged)
		}
	}
	return settled, nil
}

// settle settles all decisions, or none of them and returns the rules that changed.
func (p *postgres) settle(ctx context.Context, s futurejobs.Settlement, settled *futurejobs.Settled) (moved []int32, err error) {
	c, free, err := columnsOf(s.Decisions)
	defer free()
	if err != nil {
		return nil, err
	}
	rules := rulesOf(s.Decisions)
	var stand []int16
	var done []int64
	if err := retry(ctx, p.repeating(&c.said.repeats), func() error {
		moved, stand, done, err = p.settleOnce(ctx, s, rules, c)
		return err
	}); err != nil || len(moved) > 0 {
		return moved, undone(err)
	}
	settled.Lost = lost(s.Held, stand)
	for _, id := range done {
		settled.Jobs[id] = true
	}
	for _, d := range s.Decisions {
		if settled.Jobs[d.Job.ID] {
			settled.Alerts += len(d.Alerts)
		}
	}
	return nil, nil
}

// lockPatience bounds the wait of a settlement for a row that another transaction locks: the caller finds the blocked
// decision of a batch by halving it.
const lockPatience = 2 * time.Second

// settleBounds bounds the transaction of a settlement.
var settleBounds = fmt.Sprintf(`SELECT %s, set_config('lock_timeout', '%d', true)`, bounded, lockPatience.Milliseconds())

// settleOnce returns the shards that are held and the jobs that were settled, or the rules that changed. One batch is
// one transaction.
func (p *postgres) settleOnce(ctx context.Context, s futurejobs.Settlement, rules []int32, c *settleColumns) (moved []int32, stand []int16, done []int64, err error) {
	shards, epochs := make([]int16, len(s.Held)), make([]int64, len(s.Held))
	for i, h := range s.Held {
		shards[i], epochs[i] = h.Shard, h.Epoch
	}
	var stands bool
	var now []int32
	batch := &pgx.Batch{}
	batch.Queue(settleBounds)
	text, args := c.settleSQL(s.RuleSet, rules, shards, epochs)
	batch.Queue(text, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&stands, &now, &stand, &done) })
	if err := p.pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, nil, nil, err
	}
	if !stands {
		return nil, nil, nil, ruleSetChangedErr(ctx, p.pool, s.RuleSet)
	}
	if len(now) == len(rules) {
		return nil, stand, done, nil
	}
	moved = slices.DeleteFunc(slices.Clone(rules), func(id int32) bool { return slices.Contains(now, id) })
	if len(moved) < len(rules) {
		return moved, nil, nil, nil
	}
	return moved, nil, nil, p.waitsAtGate(ctx, rules, s.RuleSet)
}

// waitsAtGate returns errGateClosed if one of the rules is only about to change.
func (p *postgres) waitsAtGate(ctx context.Context, rules []int32, revision int64) error {
	var n int
	err := p.pool.QueryRow(ctx, `SELECT count(*) FROM rule WHERE id = ANY($1) AND fence <= $2`, rules, revision).Scan(&n)
	if err == nil && n > 0 {
		err = errGateClosed
	}
	return err
}

// ruleSetChangedErr returns the reason that the rule set was not at revision.
func ruleSetChangedErr(ctx context.Context, q rowQuerier, revision int64) error {
	var now int64
	if err := q.QueryRow(ctx, `SELECT revision FROM rule_set WHERE id = 1`).Scan(&now); err != nil {
		return err
	}
	if now != revision {
		return futurejobs.ErrRulesChanged
	}
	return errGateClosed
}

// rowQuerier is a pool or a transaction on it.
type rowQuerier interface {
	QueryRow(ctx context.Context, text string, args ...any) pgx.Row
}
