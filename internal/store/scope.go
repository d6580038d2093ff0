package store

import (
	"context"
	"slices"

	futurejobs "deadman/future_jobs"
)

// scope is a shard and the rules to read in it.
type scope struct {
	shard int16
	rules []int32 // nil: all
}

// and narrows a statement on the alias to the scope's rules.
func (c scope) and(alias string) string { return ofRules(alias, c.rules) }

func ofRules(alias string, rules []int32) string {
	if rules == nil {
		return ""
	}
	return ` AND ` + alias + `.rule_id IN ` + inList(rules)
}

// ruleRow has the columns of a rule that a filter needs.
type ruleRow struct {
	id     int32
	entity string
}

// scopes returns the shards and rules that match a filter; none if no rule matches. A key is in one shard for each
// entity.
func (s *database) scopes(ctx context.Context, f futurejobs.Filter) ([]scope, error) {
	rows, err := s.rulesOf(ctx, f)
	if err != nil {
		return nil, err
	}
	if f.Key == "" {
		return s.everywhere(rows), nil
	}
	byShard := make(map[int16][]int32)
	for _, r := range rows {
		shard := futurejobs.ShardOf(r.entity, f.Key, s.shards)
		byShard[shard] = append(byShard[shard], r.id)
	}
	var scopes []scope
	for shard, rules := range byShard {
		scopes = append(scopes, scope{shard, rules})
	}
	return scopes, nil
}

// everywhere returns the rules in all shards; nil rows are all rules.
func (s *database) everywhere(rows []ruleRow) []scope {
	ids := idsOf(rows)
	if ids != nil && len(ids) == 0 {
		return nil
	}
	scopes := make([]scope, s.shards)
	for i := range scopes {
		scopes[i] = scope{int16(i), ids}
	}
	return scopes
}

// idsOf returns the ids of rows; nil for nil.
func idsOf(rows []ruleRow) []int32 {
	if rows == nil {
		return nil
	}
	ids := make([]int32, len(rows))
	for i, r := range rows {
		ids[i] = r.id
	}
	return ids
}

// rulesOf returns the rules that match a filter, or nil if the filter does not restrict rules. It includes deleted
// rules, as their data is still listed.
func (s *database) rulesOf(ctx context.Context, f futurejobs.Filter) ([]ruleRow, error) {
	if f.Rule == "" && f.RulePrefix == "" && f.Entity == "" && f.Key == "" && f.KeyPrefix == "" {
		return nil, nil
	}
	w := filter{text: `SELECT id, entity FROM rule WHERE 1 = 1`}
	w.named(`name`, f)
	if f.Entity != "" {
		w.and(`entity = ?`, escape(f.Entity))
	}
	rows, err := query(ctx, s.read, func(row scanner, r *ruleRow) error { return row.Scan(&r.id, &r.entity) },
		rebindPlaceholders(w.text+` ORDER BY id`), w.args...)
	if err != nil {
		return nil, err
	}
	return slices.Grow(rows, 1), nil // never nil: no match differs from no restriction
}
