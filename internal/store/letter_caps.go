package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// LetterCaps bounds the dead letters that are kept, so that a producer of refused events does not fill the disk. The
// newest are kept. Between two rounds of upkeep one minute's dead letters may exceed it.
type LetterCaps struct {
	Letters    int   // of one rule; older ones are deleted and counted as pruned
	Bodies     int   // of one rule, with their bodies
	BodyBytes  int64 // of the bodies of one rule
	TotalBytes int64 // of all bodies

	// TenantLetters bounds the letters of the rules of one tenant. Beyond it, they share it equally.
	TenantLetters int
	// Tenant returns the tenant of a rule: tenants share TotalBytes equally, and rules without a tenant have a half of it.
	// nil: all rules share it.
	Tenant func(rule string) string
}

// DefaultLetterCaps are the caps of a node.
var DefaultLetterCaps = LetterCaps{Letters: 20_000, Bodies: 1_000, BodyBytes: 64 << 20, TotalBytes: 512 << 20, TenantLetters: 200_000}

// CappedLetters is the result of CapLetters.
type CappedLetters struct {
	Removed int64    // letters, in this call
	Emptied int64    // bodies, in this call
	Rules   []string // with letters without bodies, or summaries, in order; an empty name: of no rule
}

// LetterCapStore holds the dead letters to their caps.
type LetterCapStore struct{ *database }

// CapLetters deletes the letters and bodies beyond the caps, in bounded transactions. It may run on several nodes at
// once.
func (s *LetterCapStore) CapLetters(ctx context.Context, caps LetterCaps) (c CappedLetters, err error) {
	rules, err := query(ctx, s.db, readRuleBytes, `SELECT rule, count(*), sum(length(body)) FROM dead_letter GROUP BY rule ORDER BY rule`)
	if err != nil {
		return c, wrapErr("cap dead letters", err)
	}
	kept := make(map[string]int64) // by tenant
	of := make(map[string][]string)
	limitOf := caps.lettersOf(rules)
	for _, r := range rules {
		n, err := s.removeLetters(ctx, r, limitOf(r.rule))
		c.Removed += n
		if err != nil {
			return c, wrapErr("cap dead letters", err)
		}
		bodies, err := s.emptyLetters(ctx, r, caps)
		c.Emptied += bodies
		if err != nil {
			return c, wrapErr("cap dead letters", err)
		}
		tenant := caps.tenantOf(r.rule)
		kept[tenant], of[tenant] = kept[tenant]+min(r.bytes, caps.BodyBytes), append(of[tenant], r.rule)
	}
	n, err := s.capTenants(ctx, caps.TotalBytes, kept, of)
	c.Emptied += n
	if err != nil {
		return c, wrapErr("cap dead letters", err)
	}
	c.Rules, err = query(ctx, s.db, func(row scanner, name *string) error { return row.Scan(name) },
		`SELECT DISTINCT rule FROM dead_letter WHERE size > 0 AND length(body) = 0 ORDER BY rule`)
	if err != nil {
		return c, wrapErr("cap dead letters", err)
	}
	return c, nil
}

// tenantOf returns the tenant of a rule; empty: none.
func (c LetterCaps) tenantOf(rule string) string {
	if c.Tenant == nil {
		return ""
	}
	return c.Tenant(rule)
}

// lettersOf returns a function from a rule to the cap of its letters.
func (c LetterCaps) lettersOf(rules []ruleBytes) func(rule string) int {
	letters, parts := make(map[string]int64), make(map[string]int)
	for _, r := range rules {
		tenant := c.tenantOf(r.rule)
		letters[tenant], parts[tenant] = letters[tenant]+r.letters, parts[tenant]+1
	}
	return func(rule string) int {
		tenant := c.tenantOf(rule)
		if tenant == "" || letters[tenant] <= int64(c.TenantLetters) {
			return c.Letters
		}
		return min(c.Letters, c.TenantLetters/parts[tenant])
	}
}

// shareOf returns the share of a tenant, or of the rules without one, of limit bytes. The keys of kept are the tenants.
func shareOf(tenant string, limit int64, kept map[string]int64) int64 {
	_, mixed := kept[""]
	switch tenants := int64(len(kept)); {
	case !mixed:
		return limit / tenants
	case tenants == 1:
		return limit
	case tenant == "":
		return limit / 2
	default:
		return limit / 2 / (tenants - 1)
	}
}

// capTenants empties the oldest letters of the tenants beyond their share of limit bytes, if the total exceeds limit.
func (s *LetterCapStore) capTenants(ctx context.Context, limit int64, kept map[string]int64, of map[string][]string) (emptied int64, err error) {
	var total int64
	for _, bytes := range kept {
		total += bytes
	}
	if total <= limit {
		return 0, nil
	}
	for tenant, bytes := range kept {
		share := shareOf(tenant, limit, kept)
		if bytes <= share {
			continue
		}
		n, err := s.emptyOldest(ctx, of[tenant], share)
		emptied += n
		if err != nil {
			return emptied, err
		}
	}
	return emptied, nil
}

// ruleBytes is the number of letters of a rule and the size of their bodies.
type ruleBytes struct {
	rule           string
	letters, bytes int64
}

func readRuleBytes(row scanner, r *ruleBytes) error { return row.Scan(&r.rule, &r.letters, &r.bytes) }

// removeLetters deletes the oldest letters of a rule beyond limit.
func (s *LetterCapStore) removeLetters(ctx context.Context, r ruleBytes, limit int) (int64, error) {
	if r.letters <= int64(limit) {
		return 0, nil
	}
	return s.pruneAll(ctx, "dead_letter", fmt.Sprintf(`DELETE FROM dead_letter WHERE id IN
	(SELECT d.id FROM dead_letter d WHERE d.rule = $1 AND d.id <=
		(SELECT n.id FROM dead_letter n WHERE n.rule = $1 ORDER BY n.id DESC LIMIT 1 OFFSET %d) ORDER BY d.id LIMIT $2)`, limit), r.rule, pruneBatch)
}

// emptyLetter deletes the body of a letter and records its size.
const emptyLetter = `UPDATE dead_letter SET size = CASE WHEN size > 0 THEN size ELSE length(body) END, body = $1 WHERE id IN
	(SELECT d.id FROM dead_letter d WHERE length(d.body) > 0 AND d.id <= $2`

// emptyLetters empties the oldest letters of a rule beyond the caps.
func (s *LetterCapStore) emptyLetters(ctx context.Context, r ruleBytes, caps LetterCaps) (int64, error) {
	if r.bytes <= caps.BodyBytes && r.letters <= int64(caps.Bodies) {
		return 0, nil
	}
	newest, err := query(ctx, s.db, readLetterBytes,
		`SELECT d.id, length(d.body) FROM dead_letter d WHERE d.rule = $1 AND length(d.body) > 0 ORDER BY d.id DESC LIMIT $2`, r.rule, caps.Bodies+1)
	if err != nil {
		return 0, err
	}
	from := beyond(newest, caps.Bodies, caps.BodyBytes)
	if from == 0 {
		return 0, nil
	}
	return s.pruneAll(ctx, "", emptyLetter+` AND d.rule = $3 ORDER BY d.id LIMIT $4)`, []byte{}, from, r.rule, pruneBatch)
}

// emptyOldest empties the oldest letters of rules beyond limit bytes.
func (s *LetterCapStore) emptyOldest(ctx context.Context, rules []string, limit int64) (int64, error) {
	var newest []letterBytes
	for _, rule := range rules {
		of, err := query(ctx, s.db, readLetterBytes, `SELECT d.id, length(d.body) FROM dead_letter d WHERE d.rule = $1 AND length(d.body) > 0`, rule)
		if err != nil {
			return 0, err
		}
		newest = append(newest, of...)
	}
	slices.SortFunc(newest, func(a, b letterBytes) int { return cmp.Compare(b.id, a.id) })
	from := beyond(newest, len(newest), limit)
	if from == 0 {
		return 0, nil
	}
	var emptied int64
	for _, rule := range rules {
		n, err := s.pruneAll(ctx, "", emptyLetter+` AND d.rule = $3 ORDER BY d.id LIMIT $4)`, []byte{}, from, rule, pruneBatch)
		emptied += n
		if err != nil {
			return emptied, err
		}
	}
	return emptied, nil
}

// letterBytes is the size of a letter's body.
type letterBytes struct{ id, bytes int64 }

func readLetterBytes(row scanner, l *letterBytes) error { return row.Scan(&l.id, &l.bytes) }

// beyond returns the id of the newest letter beyond a number of bodies or bytes; 0: none is. Letters are newest first.
func beyond(newest []letterBytes, bodies int, bytes int64) int64 {
	for i, l := range newest {
		if bytes -= l.bytes; i >= bodies || bytes < 0 {
			return l.id
		}
	}
	return 0
}

// BoundLetters replaces DefaultLetterLimits. It must be called before any batch is applied.
func (s *LetterCapStore) BoundLetters(limits LetterLimits) { s.boundLetters(limits) }
