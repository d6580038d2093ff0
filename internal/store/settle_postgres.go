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
//	held_now      the held shards, if all rules are unchanged
//	ended, moved  the jobs of those shards that were unchanged since they were read, and are now written
//	done          both, if some jobs end and some continue
//
// The rows of rule_now and held_now are locked FOR KEY SHARE until the commit: a takeover and a change of a rule's fence
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
	ruleSetHolds = `(NOT EXISTS (SELECT 1 FROM older) OR EXISTS (SELECT 1 FROM rule_set_now))`

	fenceCTE = `
WITH ` + ruleSetNow + `, rule_now AS MATERIALIZED (
	SELECT id FROM rule
	WHERE id = ANY(?::int[]) AND fence <= ? AND (gate_until IS NULL OR gate_until <= now())
	FOR KEY SHARE
), held_now AS MATERIALIZED (
	SELECT l.shard FROM unnest(?::smallint[], ?::bigint[]) AS held (shard, epoch)
	JOIN shard_lease l ON l.shard = held.shard AND l.epoch = held.epoch
	WHERE l.expires_at > now() AND (SELECT count(*) FROM rule_now) = ? AND ` + ruleSetHolds + `
	FOR KEY SHARE OF l
)`
	joinHeld = ` JOIN held_now ON held_now.shard = decision.shard`

	unionCTE = `, done AS (
	SELECT shard, id, rule_id, version, key, since_at, completed_at FROM ended
	UNION ALL SELECT shard, id, rule_id, version, key, since_at, completed_at FROM moved
)`
	resultSQL = `
SELECT ` + ruleSetHolds + `,
	(SELECT array_agg(id) FROM rule_now),
	(SELECT array_agg(shard) FROM held_now),
	(SELECT array_agg(id) FROM `
)

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

// postgresSettlement writes the decisions on due jobs.
type postgresSettlement struct{ *postgresPool }

// Settle implements futurejobs.Queue, in one round trip. If rules have changed, it takes another one for the decisions
// on the other rules.
func (p *postgresSettlement) Settle(ctx context.Context, s futurejobs.Settlement) (futurejobs.Settled, error) {
	settled := futurejobs.Settled{Jobs: make(map[int64]bool, len(s.Decisions))}
	ctx, cancel := context.WithTimeout(ctx, 2*dbTimeout)
	defer cancel()
	for len(s.Decisions) > 0 {
		changed, err := p.settle(ctx, s, &settled)
		if err != nil {
			return futurejobs.Settled{}, wrapErr("settle", err)
		}
		if len(changed) == 0 {
			break
		}
		settled.ChangedRules = append(settled.ChangedRules, changed...)
		if s.Decisions = without(s.Decisions, changed); len(s.Decisions) == 0 {
			return futurejobs.Settled{}, wrapErr("settle", futurejobs.ErrRulesChanged)
		}
	}
	return settled, nil
}

// settle settles all decisions, or none of them and returns the rules that changed.
func (p *postgresSettlement) settle(ctx context.Context, s futurejobs.Settlement, settled *futurejobs.Settled) (changed []int32, err error) {
	c, free, err := columnsOf(s.Decisions)
	defer free()
	if err != nil {
		return nil, err
	}
	rules := rulesOf(s.Decisions)
	var held []int16
	var done []int64
	if err := retry(ctx, p.repeating(&c.alerts.repeats), func() error {
		changed, held, done, err = p.settleOnce(ctx, s, rules, c)
		return err
	}); err != nil || len(changed) > 0 {
		return changed, undone(err)
	}
	settled.Lost = lost(s.Held, held)
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
func (p *postgresSettlement) settleOnce(ctx context.Context, s futurejobs.Settlement, rules []int32, c *settleColumns) (changed []int32, held []int16, done []int64, err error) {
	shards, epochs := make([]int16, len(s.Held)), make([]int64, len(s.Held))
	for i, h := range s.Held {
		shards[i], epochs[i] = h.Shard, h.Epoch
	}
	var valid bool
	var now []int32
	batch := &pgx.Batch{}
	batch.Queue(settleBounds)
	text, args := c.settleSQL(s.RuleSet, rules, shards, epochs)
	batch.Queue(text, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&valid, &now, &held, &done) })
	if err := p.pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, nil, nil, err
	}
	if !valid {
		return nil, nil, nil, ruleSetChangedErr(ctx, p.pool, s.RuleSet)
	}
	if len(now) == len(rules) {
		return nil, held, done, nil
	}
	changed = slices.DeleteFunc(slices.Clone(rules), func(id int32) bool { return slices.Contains(now, id) })
	if len(changed) < len(rules) {
		return changed, nil, nil, nil
	}
	return changed, nil, nil, p.waitsAtGate(ctx, rules, s.RuleSet)
}

// waitsAtGate returns errGateClosed if one of the rules is only about to change.
func (p *postgresSettlement) waitsAtGate(ctx context.Context, rules []int32, revision int64) error {
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
