package store

import (
	"context"
	"database/sql"

	"deadman/internal/access"
)

// roomFor returns an error if the quotas of the token's tenant have no room for a rule, or for further bytes of versions
// of an existing one. Tokens without a prefix have no quota.
func roomFor(ctx context.Context, tx *sql.Tx, rule string, isNew bool, bytes int) error {
	b := access.BoundsOf(ctx)
	if b == nil || b.Prefix == "" {
		return nil
	}
	shared, quotas, err := sharedQuotas(ctx, tx, rule)
	if err != nil || len(quotas) == 0 {
		return err
	}
	if isNew {
		names, err := perRule(ctx, tx, rulesByName, len(shared), shared)
		if err != nil {
			return err
		}
		if err := access.RoomFor(quotas, access.LimitRules, names, map[string]int64{rule: 1}, b.Prefix); err != nil {
			return err
		}
	}
	used, err := perRule(ctx, tx, bytesByName, len(shared), shared)
	if err != nil {
		return err
	}
	return access.RoomFor(quotas, access.LimitRuleBytes, used, map[string]int64{rule: int64(bytes)}, b.Prefix)
}

// sharedQuotas returns the shortest prefix with a quota that a name begins with, and the quotas of all prefixes that begin
// with it: only rules below that prefix share quotas. Without one it returns none.
func sharedQuotas(ctx context.Context, tx *sql.Tx, name string) (shared string, quotas []access.Quota, err error) {
	over, err := query(ctx, tx, func(row scanner, prefix *string) error { return row.Scan(prefix) },
		`SELECT p.prefix FROM `+prefixesIn+` WHERE substr(CAST($1 AS text), 1, length(p.prefix)) = p.prefix ORDER BY length(p.prefix) LIMIT 1`, name)
	if err != nil || len(over) == 0 {
		return "", nil, err
	}
	quotas, err = quotasIn(ctx, tx, over[0])
	return over[0], quotas, err
}

// perRule reads a number by rule name.
func perRule(ctx context.Context, q querier, text string, args ...any) (map[string]int64, error) {
	type ruleNumber struct {
		name string
		n    int64
	}
	rows, err := query(ctx, q, func(row scanner, r *ruleNumber) error { return row.Scan(&r.name, &r.n) }, text, args...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]int64, len(rows))
	for _, r := range rows {
		all[r.name] = r.n
	}
	return all, nil
}

const (
	// rulesByName reads the rules with names that begin with a text.
	rulesByName = `SELECT name, 1 FROM rule WHERE deleted_at IS NULL AND substr(name, 1, $1) = $2`
	// bytesByName reads the bytes of their versions, and does not read the versions.
	bytesByName = `SELECT r.name, sum(octet_length(v.document) + coalesce(octet_length(v.author_text), 0))
FROM rule r JOIN rule_version v ON v.rule_id = r.id WHERE substr(r.name, 1, $1) = $2 GROUP BY r.name`
)
