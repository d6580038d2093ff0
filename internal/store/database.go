package store

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// database is the open database, shared by the stores of each kind of row. It is safe for concurrent use.
type database struct {
	engine
	db     *sql.DB // one writer on SQLite, the pool on Postgres
	read   reader  // the same database, for reads only
	log    *slog.Logger
	shards int
	known  int64 // the newest version of the schema that this program supports
	alone  bool
}

func (s *database) allShards() []int16 {
	shards := make([]int16, s.shards)
	for i := range shards {
		shards[i] = int16(i)
	}
	return shards
}

// pruneAll deletes in batches until no row is left. If name is set, it adds the rows to that count in pruned.
func (s *database) pruneAll(ctx context.Context, name, text string, args ...any) (total int64, err error) {
	return s.pruneWhile(ctx, func() bool { return true }, name, text, args...)
}

// pruneWhile is pruneAll while more says so.
func (s *database) pruneWhile(ctx context.Context, more func() bool, name, text string, args ...any) (total int64, err error) {
	for more() {
		var n int64
		err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) (err error) {
			if n, err = exec(ctx, tx, text, args...); err != nil || n == 0 {
				return err
			}
			if name != "" {
				_, err = exec(ctx, tx, countPruned, n, name)
			}
			return err
		})
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}

// Shards returns the number of shards that the database was created with.
func (s *database) Shards() int { return s.shards }

// SingleProcess reports whether no other process can use the database: true for SQLite.
func (s *database) SingleProcess() bool { return s.alone }

// Now returns the database's time.
func (s *database) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	var now time.Time
	if err := s.read.QueryRowContext(ctx, `SELECT now()`).Scan(at(&now)); err != nil {
		return now, wrapErr("now", err)
	}
	return now, nil
}

// checkRuleAndLease returns ErrRulesChanged unless a rule is unchanged since its evaluation at a revision, and ErrNotHeld unless
// one of the shards is held. Both stay so until the transaction ends.
func (s *database) checkRuleAndLease(ctx context.Context, tx *sql.Tx, rule int32, revision int64, held []futurejobs.HeldShard, now time.Time) error {
	if err := s.checkRuleSetForOlderNodes(ctx, tx, revision, now); err != nil {
		return err
	}
	n, err := exec(ctx, tx, `UPDATE rule SET gate_until = gate_until
WHERE id = $1 AND fence <= $2 AND (gate_until IS NULL OR gate_until <= $3)`, rule, revision, now)
	if err != nil {
		return err
	}
	if n == 0 {
		return futurejobs.ErrRulesChanged
	}
	return checkHeld(ctx, tx, held, now)
}

// checkRuleSetForOlderNodes returns ErrRulesChanged if a node of schema 16 runs and the rule set is not at the given revision.
func (s *database) checkRuleSetForOlderNodes(ctx context.Context, tx *sql.Tx, revision int64, now time.Time) error {
	if older, err := s.hasOlderNode(ctx, tx); !older || err != nil {
		return err
	}
	n, err := exec(ctx, tx, `UPDATE rule_set SET gate_until = gate_until
WHERE id = 1 AND revision = $1 AND (gate_until IS NULL OR gate_until <= $2)`, revision, now)
	if err == nil && n == 0 {
		err = futurejobs.ErrRulesChanged
	}
	return err
}

// forShare returns the clause that locks the rows of a read against changes. SQLite has one writer.
func (s *database) forShare() string {
	if s.alone {
		return ""
	}
	return ` FOR SHARE`
}

// forKeyShareOf returns the clause that locks the rows of a table of a read against changes of their keys.
func (s *database) forKeyShareOf(table string) string {
	if s.alone {
		return ""
	}
	return ` FOR KEY SHARE OF ` + table
}

// forUpdateOf returns the clause that locks the rows of a table of a read.
func (s *database) forUpdateOf(table string) string {
	if s.alone {
		return ""
	}
	return ` FOR UPDATE OF ` + table
}

// hasOlderNode reports whether a node of schema 16 runs. A single-process store has no other nodes.
func (s *database) hasOlderNode(ctx context.Context, tx *sql.Tx) (bool, error) {
	if s.alone {
		return false, nil
	}
	var id string
	err := tx.QueryRowContext(ctx, olderNode).Scan(&id)
	return err == nil, ignoreErr(errors.Is(err, sql.ErrNoRows), err)
}

// outbox returns the queue of unpublished alerts, for a statement that begins with numbers.
func (s *database) outbox() alertQueue {
	return alertQueue{
		rows: `(SELECT o.shard, o.at, o.first_id, o.again, n.i, ` + s.idOf(`substr(o.ids, 16 * n.i + 1, 16)`) + ` AS id
	FROM alert_outbox o JOIN n ON n.i < length(o.ids) / 16)`,
		columns: `shard, id, at, first_id, again, i`,
		order:   `at, first_id, i`,
		first:   `shard, after_id AS id, since_at AS at, after_id AS first_id, 0 AS again, -1 AS i FROM republication`,
		lateral: !s.alone,
	}
}

// putSetting writes the setting $1 with the value $2.
const putSetting = `INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`

// unrouted returns the queue of alerts that are not routed to channels.
func (s *database) unrouted() alertQueue {
	return alertQueue{rows: `alert_news`, columns: `shard, id`, order: `id`, lateral: !s.alone}
}

// unpublished returns the columns that show if an alert a is still in the outbox, and if it is withheld. It scans the
// shard's whole outbox, at one to two GB/s: use it for pages, and waiting for many alerts.
func (s *database) unpublished() string {
	return `EXISTS (SELECT 1 FROM alert_outbox o WHERE o.shard = a.shard AND ` + s.holds(`o.ids`, `a.id`) + `), a.withheld IS TRUE`
}

// waiting begins a statement that needs the unpublished alerts of the shard $1.
func (s *database) waiting() string {
	return numbers + `, waiting AS MATERIALIZED (SELECT q.id FROM ` + s.outbox().rows + ` AS q WHERE q.shard = $1)`
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

// GoBy makes transactions use the time that correct returns for the database's time. A node passes its clock's
// correction, so that a step of the database's clock neither ends leases nor delays jobs.
func (s *database) GoBy(correct func(reported time.Time) time.Time) { s.goBy(correct) }

// Time is Now with the correction.
func (s *database) Time(ctx context.Context) (time.Time, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return now, err
	}
	return s.correct(now), nil
}

// tx runs f in one transaction, and again if it lost against another one. now is the database's time at the
// transaction's start.
func (s *database) tx(ctx context.Context, f func(tx *sql.Tx, now time.Time) error) error {
	return retry(ctx, s.isRetryable, func() error { return s.runTx(ctx, f) })
}

func (s *database) runTx(ctx context.Context, f func(tx *sql.Tx, now time.Time) error) error {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // a no-op after a commit
	var now time.Time
	if err := tx.QueryRowContext(ctx, s.beginSQL()).Scan(at(&now)); err != nil {
		return err
	}
	if err := f(tx, s.correct(now)); err != nil {
		return err
	}
	return tx.Commit()
}
