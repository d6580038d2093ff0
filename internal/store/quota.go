package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// QuotaStore keeps quotas and what they count.
type QuotaStore struct{ *database }

// BoundBy makes quotas bound new jobs. It must be called before any batch is applied.
func (s *QuotaStore) BoundBy(q futurejobs.Quotas) { s.boundBy(q) }

// Quotas returns the quotas of the prefixes that begin with a text: those that were set or had a token, and those of live
// tokens.
func (s *QuotaStore) Quotas(ctx context.Context, within string) ([]access.Quota, error) {
	all, err := quotasIn(ctx, s.read, within)
	if err != nil {
		return nil, wrapErr("quotas", err)
	}
	return all, nil
}

// prefixesIn reads the prefixes with quotas as the table p.
const prefixesIn = `(SELECT prefix FROM quota UNION SELECT prefix FROM token WHERE prefix <> '' AND revoked_at IS NULL) p`

func quotasIn(ctx context.Context, q querier, within string) ([]access.Quota, error) {
	return query(ctx, q, readQuota, `
SELECT prefix, rules, rule_bytes, subjects, schedules, jobs, job_bytes, events, event_bytes, alerts, alert_bytes, kept_alert_bytes, kept_answer_bytes,
	kept_ping_bytes, set_at, set_by FROM quota WHERE substr(prefix, 1, $1) = $2
UNION ALL
SELECT DISTINCT t.prefix`+strings.Repeat(`, CAST(NULL AS bigint)`, len(access.Limits))+`, t.revoked_at, ''
FROM token t WHERE t.prefix <> '' AND substr(t.prefix, 1, $1) = $2 AND t.revoked_at IS NULL AND NOT EXISTS (SELECT 1 FROM quota q WHERE q.prefix = t.prefix)
ORDER BY prefix`, len(within), within)
}

// readQuota reads the limits in the order of access.Limits.
func readQuota(row scanner, q *access.Quota) error {
	limits := make([]sql.NullInt64, len(access.Limits))
	dest := []any{&q.Prefix}
	for i := range limits {
		dest = append(dest, &limits[i])
	}
	if err := row.Scan(append(dest, at(&q.SetAt), (*escapedText)(&q.SetBy))...); err != nil {
		return err
	}
	for i, l := range access.Limits {
		if limits[i].Valid {
			if q.Set == nil {
				q.Set = make(map[access.Limited]int64)
			}
			q.Set[l.Limited] = limits[i].Int64
		}
	}
	return nil
}

// SetQuota sets the limits of a prefix and audits that: limits missing in q are the defaults.
func (s *QuotaStore) SetQuota(ctx context.Context, q access.Quota) error {
	var changes []string
	args := []any{q.Prefix}
	for _, l := range access.Limits {
		limit, set := q.Set[l.Limited]
		args = append(args, sql.NullInt64{Int64: limit, Valid: set})
		if set {
			changes = append(changes, fmt.Sprintf("%s %d", l.Limited, limit))
		}
	}
	if changes == nil {
		changes = []string{"all limits are the defaults"}
	}
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		if _, err := exec(ctx, tx, `INSERT INTO quota (prefix, rules, rule_bytes, subjects, schedules, jobs, job_bytes, events, event_bytes, alerts, alert_bytes,
	kept_alert_bytes, kept_answer_bytes, kept_ping_bytes, set_at, set_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
ON CONFLICT (prefix) DO UPDATE SET rules = excluded.rules, rule_bytes = excluded.rule_bytes, subjects = excluded.subjects, schedules = excluded.schedules, jobs = excluded.jobs, job_bytes = excluded.job_bytes, events = excluded.events,
	event_bytes = excluded.event_bytes, alerts = excluded.alerts, alert_bytes = excluded.alert_bytes,
	kept_alert_bytes = excluded.kept_alert_bytes, kept_answer_bytes = excluded.kept_answer_bytes,
	kept_ping_bytes = excluded.kept_ping_bytes, set_at = excluded.set_at, set_by = excluded.set_by`,
			append(slices.Clone(args), now, escape(access.ActorOf(ctx).Name))...); err != nil {
			return err
		}
		return audit(ctx, tx, now, access.QuotaSet, "quota/"+q.Prefix, strings.Join(changes, "; "))
	})
	if err != nil {
		return wrapErr("set quota "+q.Prefix, err)
	}
	return nil
}

// DeleteQuota deletes the limits of a prefix and audits that: the defaults apply while the prefix has a live token, and
// no limits after that. It returns access.ErrNoQuota if the prefix has no quota.
func (s *QuotaStore) DeleteQuota(ctx context.Context, prefix string) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		n, err := exec(ctx, tx, `DELETE FROM quota WHERE prefix = $1`, escape(prefix))
		if err != nil {
			return err
		}
		if n == 0 {
			return access.ErrNoQuota
		}
		return audit(ctx, tx, now, access.QuotaDelete, "quota/"+prefix, "")
	})
	if err != nil {
		return wrapErr(fmt.Sprintf("delete quota %.70q", prefix), err)
	}
	return nil
}

// HoldQuotas records prefixes as those of tenants, with the default limits. Existing limits stay.
func (s *QuotaStore) HoldQuotas(ctx context.Context, prefixes []string) error {
	err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		for _, prefix := range prefixes {
			if err := quotaOf(ctx, tx, prefix); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return wrapErr("hold quotas", err)
	}
	return nil
}

// quotaOf records that a prefix has a token, so that the defaults apply even after the token has ended.
func quotaOf(ctx context.Context, tx *sql.Tx, prefix string) error {
	if prefix == "" {
		return nil
	}
	_, err := exec(ctx, tx, `INSERT INTO quota (prefix, set_by) VALUES ($1, '') ON CONFLICT DO NOTHING`, prefix)
	return err
}

// RuleNames returns the names of the rules that are not deleted and begin with a text, with 1 for each.
func (s *QuotaStore) RuleNames(ctx context.Context, within string) (map[string]int64, error) {
	names, err := perRule(ctx, s.read, rulesByName, len(within), within)
	if err != nil {
		return nil, wrapErr("rule names", err)
	}
	return names, nil
}

// VersionBytes returns the bytes of the kept versions of the rules with names that begin with a text, by rule name, with those
// of deleted rules.
func (s *QuotaStore) VersionBytes(ctx context.Context, within string) (map[string]int64, error) {
	bytes, err := perRule(ctx, s.read, bytesByName, len(within), within)
	if err != nil {
		return nil, wrapErr("bytes of versions", err)
	}
	return bytes, nil
}

// ScheduleCounts returns the number of stored schedules of the rules with names that begin with a text, by rule name, with
// those of deleted rules.
func (s *QuotaStore) ScheduleCounts(ctx context.Context, within string) (map[string]int64, error) {
	counts, err := perRule(ctx, s.read, schedulesByName, len(within), within)
	if err != nil {
		return nil, wrapErr("count schedules", err)
	}
	return counts, nil
}

// PendingOf counts the pending jobs of rules by rule name, including jobs of deleted rules. which selects the rules among
// the rules with names that begin with a text. It reads a part of an index for each rule and shard.
func (s *QuotaStore) PendingOf(ctx context.Context, within string, which func(rule string) bool) (map[string]int64, error) {
	return s.pending(ctx, within, which, `count(*)`)
}

// PendingBytesOf is PendingOf in bytes, as futurejobs.Job.Size counts them. It reads the rows of the jobs but not their
// bodies.
func (s *QuotaStore) PendingBytesOf(ctx context.Context, within string, which func(rule string) bool) (map[string]int64, error) {
	return s.pending(ctx, within, which, `sum(`+jobBytes+`)`)
}

func (s *QuotaStore) pending(ctx context.Context, within string, which func(rule string) bool, what string) (map[string]int64, error) {
	type ruleID struct {
		id   int32
		name string
	}
	known, err := query(ctx, s.read, func(row scanner, r *ruleID) error { return row.Scan(&r.id, &r.name) },
		`SELECT id, name FROM rule WHERE purged_at IS NULL AND substr(name, 1, $1) = $2`, len(within), within)
	if err != nil {
		return nil, wrapErr("rules", err)
	}
	names, pending := make(map[int32]string), make(map[string]int64)
	var ids []int32
	for _, r := range known {
		if which(r.name) {
			names[r.id], ids = r.name, append(ids, r.id)
		}
	}
	for some := range slices.Chunk(ids, countAtOnce) {
		for shard := range s.shards {
			found, err := query(ctx, s.read, func(row scanner, c *ruleCount) error { return row.Scan(&c.id, &c.n) },
				`SELECT f.rule_id, `+what+` FROM future_job f WHERE f.shard = $1`+ofRules("f", some)+` GROUP BY f.rule_id`, shard)
			if err != nil {
				return nil, wrapErr("count jobs", err)
			}
			for _, c := range found {
				pending[names[c.id]] += c.n
			}
		}
	}
	return pending, nil
}

// countAtOnce is the number of rules that one statement counts the jobs of.
const countAtOnce = 200

type ruleCount struct {
	id int32
	n  int64
}

// spentColumns are the columns of access.Spent.
var spentColumns = [...]string{
	access.SpentAlerts: "alerts", access.SpentAlertBytes: "bytes", access.SpentKeptAlertBytes: "kept_bytes", access.SpentKeptAnswerBytes: "answer_bytes",
}

const addSpent = `INSERT INTO quota_hour (prefix, hour, alerts, bytes, kept_bytes, answer_bytes) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (prefix, hour) DO UPDATE SET alerts = quota_hour.alerts + excluded.alerts, bytes = quota_hour.bytes + excluded.bytes,
	kept_bytes = quota_hour.kept_bytes + excluded.kept_bytes, answer_bytes = quota_hour.answer_bytes + excluded.answer_bytes`

// QuotaSpent returns the use of the prefixes that begin with a text: published alerts of the current hour, their bytes since
// published, the bytes of alerts kept since kept, and of answers as long as they are kept.
func (s *QuotaStore) QuotaSpent(ctx context.Context, within string, published, kept time.Time) (map[string]access.Spent, error) {
	type row struct {
		prefix string
		spent  access.Spent
	}
	now, err := s.Time(ctx)
	if err != nil {
		return nil, err
	}
	var sums strings.Builder
	for _, column := range spentColumns {
		sums.WriteString(`, CAST(sum(CASE WHEN hour >= ? THEN ` + column + ` ELSE 0 END) AS bigint)`)
	}
	since := [...]time.Time{access.SpentAlerts: now, access.SpentAlertBytes: published, access.SpentKeptAlertBytes: kept, access.SpentKeptAnswerBytes: now.Add(-remembered)}
	var args []any
	for _, at := range since {
		args = append(args, at.Truncate(time.Hour))
	}
	args = append(args, len(within), within)
	rows, err := query(ctx, s.read, func(r scanner, one *row) error {
		dest := []any{&one.prefix}
		for i := range one.spent {
			dest = append(dest, &one.spent[i])
		}
		return r.Scan(dest...)
	}, rebindPlaceholders(`SELECT prefix`+sums.String()+` FROM quota_hour WHERE substr(prefix, 1, ?) = ? GROUP BY prefix`), args...)
	if err != nil {
		return nil, wrapErr("quota hours", err)
	}
	all := make(map[string]access.Spent, len(rows))
	for _, r := range rows {
		all[r.prefix] = r.spent
	}
	return all, nil
}

// KeepQuotas adds a node's use of quotas to the database, in one transaction.
func (s *QuotaStore) KeepQuotas(ctx context.Context, all []access.Done) error {
	if len(all) == 0 {
		return nil
	}
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		for _, d := range all {
			if d.Spent != (access.Spent{}) {
				args := []any{d.Prefix, now.Truncate(time.Hour)}
				for _, n := range d.Spent {
					args = append(args, n)
				}
				if _, err := exec(ctx, tx, addSpent, args...); err != nil {
					return err
				}
			}
			for _, l := range access.Limits {
				n := d.Refused[l.Limited]
				if n == 0 {
					continue
				}
				if _, err := exec(ctx, tx, `INSERT INTO quota_refusal (prefix, quota, refused, refused_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (prefix, quota) DO UPDATE SET refused = quota_refusal.refused + excluded.refused, refused_at = excluded.refused_at`,
					d.Prefix, string(l.Limited), n, now); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return wrapErr("keep the use of quotas", err)
	}
	return nil
}

// Refusals returns the number of refusals of each limit, by prefix, for the prefixes that begin with a text.
func (s *QuotaStore) Refusals(ctx context.Context, within string) (map[string][]access.LimitUse, error) {
	type row struct {
		prefix string
		use    access.LimitUse
	}
	rows, err := query(ctx, s.read, func(r scanner, one *row) error {
		return r.Scan(&one.prefix, (*string)(&one.use.Limited), &one.use.Refused, at(&one.use.RefusedAt))
	}, `SELECT prefix, quota, refused, refused_at FROM quota_refusal WHERE substr(prefix, 1, $1) = $2 ORDER BY prefix, quota`, len(within), within)
	if err != nil {
		return nil, wrapErr("refusals of quotas", err)
	}
	all := make(map[string][]access.LimitUse)
	for _, r := range rows {
		all[r.prefix] = append(all[r.prefix], r.use)
	}
	return all, nil
}

// PruneQuotas deletes the hours of alerts and the locks before an instant, and earlier refusals of prefixes without a quota.
func (s *QuotaStore) PruneQuotas(ctx context.Context, before time.Time) error {
	_, err := exec(ctx, s.db, `DELETE FROM quota_hour WHERE hour < $1`, before)
	if err == nil {
		_, err = exec(ctx, s.db, `DELETE FROM quota_lock WHERE locked_at < $1`, before)
	}
	if err == nil {
		_, err = exec(ctx, s.db, `DELETE FROM quota_refusal WHERE refused_at < $1 AND NOT EXISTS (SELECT 1 FROM quota q WHERE q.prefix = quota_refusal.prefix)`, before)
	}
	if err != nil {
		return wrapErr("prune quotas", err)
	}
	return nil
}

// idsAtOnce is the number of alerts that one statement names.
const idsAtOnce = 200

// withIDs returns a statement about alerts of a shard, and its parameters: more, the shard and the ids.
func withIDs(text string, shard int16, ids []alerts.ID, more ...any) (string, []any) {
	marks := strings.TrimSuffix(strings.Repeat("?,", len(ids)), ",")
	args := append(more[:len(more):len(more)], shard)
	for _, id := range ids {
		args = append(args, id[:])
	}
	return rebindPlaceholders(text + `shard = ? AND id IN (` + marks + `)`), args
}

// Withhold records that alerts of the outbox are not published because of a quota, and removes them from the outbox.
func (s *QuotaStore) Withhold(ctx context.Context, over []alerts.Alert) error {
	byShard := make(map[int16][]alerts.ID)
	for _, a := range over {
		byShard[a.Shard] = append(byShard[a.Shard], a.ID)
	}
	for shard, ids := range byShard {
		for some := range slices.Chunk(ids, idsAtOnce) {
			if err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
				text, args := withIDs(`UPDATE alert SET withheld = TRUE WHERE `, shard, some)
				_, err := exec(ctx, tx, text, args...)
				return err
			}); err != nil {
				return wrapErr("withhold alerts", err)
			}
		}
	}
	return s.MarkPublished(ctx, over)
}

// Withheld returns the withheld ones among alerts of a shard.
func (s *QuotaStore) Withheld(ctx context.Context, shard int16, ids []alerts.ID) (map[alerts.ID]bool, error) {
	withheld := make(map[alerts.ID]bool)
	for some := range slices.Chunk(ids, idsAtOnce) {
		text, args := withIDs(`SELECT id FROM alert WHERE withheld IS TRUE AND `, shard, some)
		found, err := query(ctx, s.read, func(row scanner, id *alerts.ID) error { return row.Scan(id) }, text, args...)
		if err != nil {
			return nil, wrapErr("withheld alerts", err)
		}
		for _, id := range found {
			withheld[id] = true
		}
	}
	return withheld, nil
}

// release marks withheld alerts for publication.
func release(ctx context.Context, tx *sql.Tx, shard int16, ids []alerts.ID) error {
	for some := range slices.Chunk(ids, idsAtOnce) {
		text, args := withIDs(`UPDATE alert SET withheld = FALSE WHERE `, shard, some)
		if _, err := exec(ctx, tx, text, args...); err != nil {
			return err
		}
	}
	return nil
}
