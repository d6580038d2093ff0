package store

import (
	"context"
	"fmt"
	"time"
)

// EarlyCaps is how many early resolves are remembered, those that are remembered longest. Between two rounds of upkeep
// there may be more: what comes in a minute.
type EarlyCaps struct {
	Rule  int // of one rule
	Total int // of all rules, which share it equally
}

// DefaultEarlyCaps are those of a node.
var DefaultEarlyCaps = EarlyCaps{Rule: 200_000, Total: 2_000_000}

// CappedEarly is how many early resolves of a rule were forgotten before their time.
type CappedEarly struct {
	Rule string
	Rows int64
}

// CapEarly forgets the early resolves beyond the caps, in bounded transactions, and returns the rules that lost some. It
// may run on several nodes at a time.
func (s *Store) CapEarly(ctx context.Context, caps EarlyCaps) (capped []CappedEarly, err error) {
	rules, err := query(ctx, s.db, readEarlyRows, `SELECT e.rule_id, coalesce(min(r.name), ''), count(*) FROM early e LEFT JOIN rule r ON r.id = e.rule_id
GROUP BY e.rule_id ORDER BY e.rule_id`)
	if err != nil {
		return nil, failed("cap early resolves", err)
	}
	var total int64
	for _, r := range rules {
		total += r.rows
	}
	most := caps.Rule
	if total > int64(caps.Total) {
		most = min(most, caps.Total/len(rules))
	}
	for _, r := range rules {
		if r.rows <= int64(most) {
			continue
		}
		n, err := s.forgetEarliest(ctx, r.id, most)
		if n > 0 {
			capped = append(capped, CappedEarly{r.name, n})
		}
		if err != nil {
			return capped, failed("cap early resolves", err)
		}
	}
	return capped, nil
}

// earlyRows is how many early resolves of a rule are remembered.
type earlyRows struct {
	id   int32
	name string
	rows int64
}

func readEarlyRows(row scanner, r *earlyRows) error {
	return row.Scan(&r.id, (*verbatim)(&r.name), &r.rows)
}

// forgetEarliest forgets all early resolves of a rule but so many, those first that would be forgotten first.
func (s *Store) forgetEarliest(ctx context.Context, rule int32, most int) (total int64, err error) {
	bounds, err := query(ctx, s.db, func(row scanner, t *time.Time) error { return row.Scan(at(t)) },
		fmt.Sprintf(`SELECT until_at FROM early WHERE rule_id = $1 ORDER BY until_at DESC LIMIT 1 OFFSET %d`, most), rule)
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
