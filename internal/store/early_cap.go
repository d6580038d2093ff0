package store

import (
	"context"
	"time"
)

// EarlyCaps is how many early resolves are remembered, those that are remembered longest. Between two rounds of upkeep
// there may be more: what comes in a minute.
type EarlyCaps struct {
	Rule       int   // of one rule
	Total      int   // of all rules, which share it equally
	RuleBytes  int64 // of what one rule's have: the bodies of updates above all
	TotalBytes int64 // of what those of all rules have, which share it equally

	// Tenant is whose a rule is; empty: nobody's. A tenant has the share of one rule, which the tenant's rules share equally. nil: no rule
	// is a tenant's.
	Tenant func(rule string) string
}

// DefaultEarlyCaps are those of a node.
var DefaultEarlyCaps = EarlyCaps{Rule: 200_000, Total: 2_000_000, RuleBytes: 64 << 20, TotalBytes: 512 << 20}

// CappedEarly is how many early resolves of a rule were forgotten before their time.
type CappedEarly struct {
	Rule string
	Rows int64
}

// CapEarly forgets the early resolves beyond the caps, in bounded transactions, and returns the rules that lost some. It
// may run on several nodes at a time.
func (s *Store) CapEarly(ctx context.Context, caps EarlyCaps) (capped []CappedEarly, err error) {
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
		most, mostBytes := int64(caps.Rule), caps.RuleBytes
		if rows > int64(caps.Total) {
			most = min(most, int64(caps.Total)/share(r.name))
		}
		if bytes > caps.TotalBytes {
			mostBytes = min(mostBytes, caps.TotalBytes/share(r.name))
		}
		if r.rows <= most && r.bytes <= mostBytes {
			continue
		}
		n, err := s.forgetEarliest(ctx, r.id, most, mostBytes)
		if n > 0 {
			capped = append(capped, CappedEarly{r.name, n})
		}
		if err != nil {
			return capped, wrapErr("cap early resolves", err)
		}
	}
	return capped, nil
}

// shares returns by how much the total is divided for a rule.
func (c EarlyCaps) shares(rules []earlyRows) func(rule string) int64 {
	of := make(map[string]int64) // how many rules a tenant has
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

// earlyBytes is how many bytes an early resolve e has of what may be large.
const earlyBytes = `octet_length(coalesce(e.ends, '')) + octet_length(coalesce(e.changes, '')) + octet_length(coalesce(e.members, ''))`

// earlyRows is how many early resolves of a rule are remembered.
type earlyRows struct {
	id    int32
	name  string
	rows  int64
	bytes int64
}

func readEarlyRows(row scanner, r *earlyRows) error {
	return row.Scan(&r.id, (*escapedText)(&r.name), &r.rows, &r.bytes)
}

// forgetEarliest forgets all early resolves of a rule but so many with so many bytes, those first that would be forgotten
// first.
func (s *Store) forgetEarliest(ctx context.Context, rule int32, most, bytes int64) (total int64, err error) {
	bounds, err := query(ctx, s.db, func(row scanner, t *time.Time) error { return row.Scan(at(t)) }, `SELECT until_at FROM (
	SELECT e.until_at, count(*) OVER later AS place, sum(`+earlyBytes+`) OVER later AS bytes FROM early e WHERE e.rule_id = $1
	WINDOW later AS (ORDER BY e.until_at DESC ROWS UNBOUNDED PRECEDING)
) AS e WHERE e.place > $2 OR e.bytes > $3 ORDER BY until_at DESC LIMIT 1`, rule, most, bytes)
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
