package store

import (
	"context"
	"time"
)

// EarlyCaps bounds the early resolves that are stored; those that expire last are kept. Between two rounds of upkeep
// one minute's early resolves may exceed it.
type EarlyCaps struct {
	Rule       int   // of one rule
	Total      int   // of all rules, in equal shares
	RuleBytes  int64 // of one rule's early resolves: mainly the bodies of updates
	TotalBytes int64 // of all rules' early resolves, in equal shares

	// Tenant returns the tenant of a rule; empty: none. A tenant has the share of one rule, in equal parts for the
	// tenant's rules. nil: no rule has a tenant.
	Tenant func(rule string) string
}

// DefaultEarlyCaps are the caps of a node.
var DefaultEarlyCaps = EarlyCaps{Rule: 200_000, Total: 2_000_000, RuleBytes: 64 << 20, TotalBytes: 512 << 20}

// CappedEarly is the number of early resolves of a rule that the caps removed before they expired.
type CappedEarly struct {
	Rule string
	Rows int64
}

// EarlyStore holds the early events to their cap.
type EarlyStore struct{ *database }

// CapEarly deletes the early resolves beyond the caps, in bounded transactions, and returns the rules that lost some.
// It may run on several nodes at once.
func (s *EarlyStore) CapEarly(ctx context.Context, caps EarlyCaps) (capped []CappedEarly, err error) {
	rules, err := query(ctx, s.db, readEarlyRows, `SELECT e.rule_id, coalesce(min(r.name), ''), count(*), CAST(sum(`+earlyBytes+`) AS bigint)
FROM early e LEFT JOIN rule r ON r.id = e.rule_id GROUP BY e.rule_id ORDER BY e.rule_id`)
	if err != nil {
		return nil, wrapErr("cap early resolves", err)
	}
	var rows, bytes int64
	for _, r := range rules {
		rows, bytes = rows+r.rows, bytes+r.bytes
	}
	share := caps.shares(rules)
	for _, r := range rules {
		limit, mostBytes := int64(caps.Rule), caps.RuleBytes
		if rows > int64(caps.Total) {
			limit = min(limit, int64(caps.Total)/share(r.name))
		}
		if bytes > caps.TotalBytes {
			mostBytes = min(mostBytes, caps.TotalBytes/share(r.name))
		}
		if r.rows <= limit && r.bytes <= mostBytes {
			continue
		}
		n, err := s.forgetEarliest(ctx, r.id, limit, mostBytes)
		if n > 0 {
			capped = append(capped, CappedEarly{r.name, n})
		}
		if err != nil {
			return capped, wrapErr("cap early resolves", err)
		}
	}
	return capped, nil
}

// shares returns a function from a rule to the divisor of the total.
func (c EarlyCaps) shares(rules []earlyRows) func(rule string) int64 {
	of := make(map[string]int64) // the number of a tenant's rules
	if c.Tenant != nil {
		for _, r := range rules {
			if tenant := c.Tenant(r.name); tenant != "" {
				of[tenant]++
			}
		}
	}
	parts := int64(len(rules))
	for _, n := range of {
		parts -= n - 1
	}
	return func(rule string) int64 {
		if c.Tenant == nil {
			return parts
		}
		return parts * max(1, of[c.Tenant(rule)])
	}
}

// earlyBytes is the expression for the bytes of an early resolve e's large columns.
const earlyBytes = `octet_length(coalesce(e.ends, '')) + octet_length(coalesce(e.changes, '')) + octet_length(coalesce(e.members, ''))`

// earlyRows is the number and size of the early resolves of a rule.
type earlyRows struct {
	id    int32
	name  string
	rows  int64
	bytes int64
}

func readEarlyRows(row scanner, r *earlyRows) error {
	return row.Scan(&r.id, (*escapedText)(&r.name), &r.rows, &r.bytes)
}

// forgetEarliest deletes the early resolves of a rule beyond limit rows and a number of bytes, those that expire first.
func (s *EarlyStore) forgetEarliest(ctx context.Context, rule int32, limit, bytes int64) (total int64, err error) {
	bounds, err := query(ctx, s.db, func(row scanner, t *time.Time) error { return row.Scan(at(t)) }, `SELECT until_at FROM (
	SELECT e.until_at, count(*) OVER later AS place, sum(`+earlyBytes+`) OVER later AS bytes FROM early e WHERE e.rule_id = $1
	WINDOW later AS (ORDER BY e.until_at DESC ROWS UNBOUNDED PRECEDING)
) AS e WHERE e.place > $2 OR e.bytes > $3 ORDER BY until_at DESC LIMIT 1`, rule, limit, bytes)
	if err != nil || len(bounds) == 0 {
		return 0, err
	}
	for shard := range s.shards {
		n, err := s.pruneAll(ctx, "", `DELETE FROM early WHERE shard = $1 AND rule_id = $2 AND until_at <= $3 AND key IN
	(SELECT e.key FROM early e WHERE e.shard = $1 AND e.rule_id = $2 AND e.until_at <= $3 ORDER BY e.until_at LIMIT $4)`,
			shard, rule, bounds[0], pruneBatch)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// forgetEarly deletes early events that expired unused.
func (s *EarlyStore) forgetEarly(ctx context.Context, now time.Time) error {
	for shard := range s.shards {
		if _, err := s.pruneAll(ctx, "", `DELETE FROM early WHERE shard = $1 AND until_at <= $2 AND (rule_id, key) IN
	(SELECT e.rule_id, e.key FROM early e WHERE e.shard = $1 AND e.until_at <= $2 ORDER BY e.until_at LIMIT $3)`,
			shard, now, pruneBatch); err != nil {
			return err
		}
	}
	return nil
}
