package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	futurejobs "deadman/future_jobs"
	"deadman/internal/failpoints"
)

// begin bounds the transaction in the same round trip and forces a custom plan for each statement. A generic plan made
// while a table was empty reads the whole table for each batch once the table has grown.
var begin = pgx.TxOptions{BeginQuery: `BEGIN; SELECT ` + bounded + `, set_config('plan_cache_mode', 'force_custom_plan', true)`}

// postgresEffects applies batches of effects.
type postgresEffects struct {
	*postgresPool
	prefetchPolicy
}

// Apply implements futurejobs.EffectStore.
func (p *postgresEffects) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	return applyUnlessRepeated(ctx, p.db, b, func() (futurejobs.ApplyResult, error) { return p.apply(ctx, b) })
}

func (p *postgresEffects) apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*dbTimeout)
	defer cancel()
	toRead := p.prefetchPolicy.refsToRead(b.Effects)
	letters := p.holdLetters(b)
	b.DeadLetters = letters.keep(b.DeadLetters)
	var net futurejobs.FoldResult
	repeats := false
	err := retry(ctx, p.repeating(&repeats), func() (err error) {
		net, err = p.applyOnce(ctx, b, toRead, repeats)
		if errors.Is(err, errConcurrentCreate) {
			toRead = p.prefetchPolicy.allRefs(b.Effects)
		}
		return err
	})
	if err != nil {
		letters.giveBack()
		return futurejobs.ApplyResult{}, wrapErr("apply", undone(err))
	}
	net.Use()
	return applied(b, net), nil
}

// applyOnce takes three round trips and a commit. The timeout bounds the whole, not only its statements: a job that
// appeared later would be behind the sweep.
//
//  1. The transaction begins.
//  2. The cursor, the rules and the jobs to read are locked.
//  3. The net effect is written, and the cursor advances.
//
// repeats means that some of the alerts may be in their table already.
func (p *postgresEffects) applyOnce(ctx context.Context, b futurejobs.EffectBatch, toRead []futurejobs.Ref, repeats bool) (net futurejobs.FoldResult, err error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	tx, err := p.pool.BeginTx(ctx, begin)
	if err != nil {
		return net, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // a no-op after a commit
	known, now, err := p.lockBatch(ctx, tx, b, toRead)
	if err != nil {
		return net, p.outOfTime(whole, err)
	}
	if b.FailIfDue && futurejobs.RestartsDueJob(b.Effects, known, now) {
		return net, futurejobs.ErrJobDue
	}
	letters := p.holdLetters(b)
	net = futurejobs.FoldWithin(p.bounds(letters), b.Effects, known, now)
	defer func() {
		if err != nil {
			net.Release()
			letters.giveBack()
		}
	}()
	if overtaken(net, toRead) {
		return net, errConcurrentCreate
	}
	letters.trim(net.DeadLetters)
	left, err := createAhead(ctx, tx, creations(net.Create), len(net.End))
	if err != nil {
		return net, p.outOfTime(whole, err)
	}
	writes := &pgx.Batch{}
	if err := queueNet(ctx, writes, b, net, left, now, repeats); err != nil {
		return net, err
	}
	if writes.Len() > 0 {
		if err := tx.SendBatch(ctx, writes).Close(); err != nil {
			return net, p.outOfTime(whole, err)
		}
	}
	failpoints.Point("apply.commit")
	return net, tx.Commit(ctx)
}

const (
	// Of two batches, one could create a job for the key of an early event that the other stores, and neither would see
	// the other. If that is possible, the batches of a rule are serialized.
	lockRules = `SELECT id FROM rule WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`

	// A batch not made by all readers of a stream depends on its rules. A batch that locks rules for early events takes
	// the exclusive lock at once: two holders of a shared lock could not upgrade it.
	shareRules   = `SELECT id FROM rule WHERE id = ANY($1) AND revision <= $2 ORDER BY id FOR SHARE`
	keepRules    = `SELECT id FROM rule WHERE id = ANY($1) AND revision <= $2 ORDER BY id FOR NO KEY UPDATE`
	ruleSetQuery = `WITH ` + ruleSetNow + ` SELECT now(), ` + ruleSetHolds

	lockJobs = `
SELECT ` + jobColumns + ` FROM future_job f
JOIN unnest($1::smallint[], $2::int[], $3::text[]) AS ref (shard, rule_id, key)
	ON f.shard = ref.shard AND f.rule_id = ref.rule_id AND f.key = ref.key
ORDER BY f.shard, f.id
FOR UPDATE OF f`

	selectEarly = `
SELECT ` + earlyColumns + ` FROM early e
JOIN unnest($1::smallint[], $2::int[], $3::text[]) AS ref (shard, rule_id, key)
	ON e.shard = ref.shard AND e.rule_id = ref.rule_id AND e.key = ref.key`
)

// lockBatch locks the rows that the batch depends on. It returns the known state of the jobs to read and the
// transaction's time, or ErrCursorMoved or ErrRulesChanged.
//
//  1. The rule set is locked while a node of schema 16 runs, as a change locks it first.
//  2. The cursors are locked, then the rules. A change of rules locks both in the same order.
func (p *postgresEffects) lockBatch(ctx context.Context, tx pgx.Tx, b futurejobs.EffectBatch, toRead []futurejobs.Ref) (known futurejobs.FoldInput, now time.Time, err error) {
	var moved, changed bool
	holds := true
	locks, early := &pgx.Batch{}, p.prefetchPolicy.early(b)
	locks.Queue(rebindPlaceholders(ruleSetQuery), b.RuleSet).QueryRow(func(row pgx.Row) error {
		err := row.Scan(at(&now), &holds)
		now = p.correct(now)
		return err
	})
	cursors := b.ReadTo
	if b.Stream != "" {
		cursors = map[string]uint64{b.Stream: b.After}
	}
	for _, stream := range slices.Sorted(maps.Keys(cursors)) {
		locks.Queue(`SELECT last_seq, revision FROM event_cursor WHERE stream = $1 FOR UPDATE`, stream).QueryRow(func(row pgx.Row) error {
			var seq uint64
			var revision int64
			err := row.Scan(&seq, &revision)
			elsewhere := errors.Is(err, pgx.ErrNoRows) || seq != cursors[stream]
			moved = moved || elsewhere
			changed = changed || b.OfReaders() && revision > b.RuleSet
			return ignoreErr(elsewhere, err)
		})
	}
	if rules := b.RestsOn(); len(rules) > 0 {
		text := shareRules
		if len(early) > 0 {
			text = keepRules
		}
		locks.Queue(text, rules, b.RuleSet).Exec(func(tag pgconn.CommandTag) error {
			changed = changed || tag.RowsAffected() < int64(len(rules))
			return nil
		})
	}
	queueReads(locks, b, toRead, early, &known)
	err = tx.SendBatch(ctx, locks).Close()
	switch {
	case err != nil:
		return known, now, err
	case moved:
		return known, now, futurejobs.ErrCursorMoved
	case changed:
		return known, now, futurejobs.ErrRulesChanged
	case !holds:
		return known, now, ruleSetChangedErr(ctx, tx, b.RuleSet)
	}
	return known, now, nil
}

// queueReads reads the jobs to look up and their early events. Each statement sees the commits before its start, so the
// locks come first.
func queueReads(q *pgx.Batch, b futurejobs.EffectBatch, toRead, early []futurejobs.Ref, known *futurejobs.FoldInput) {
	if len(early) > 0 {
		q.Queue(lockRules, rulesIn(early))
	}
	if len(toRead) > 0 {
		shards, rules, keys := refColumns(toRead)
		q.Queue(lockJobs, shards, rules, keys).Query(func(rows pgx.Rows) error {
			size := measuring(b)
			jobs, err := all(rows, func(row scanner, j *futurejobs.Job) error { return cmp.Or(readJob(row, j), size.add(j)) })
			known.Pending = byRef(jobs)
			return err
		})
	}
	if len(early) > 0 {
		shards, rules, keys := refColumns(early)
		q.Queue(selectEarly, shards, rules, keys).Query(func(rows pgx.Rows) error {
			found, err := all(rows, readEarly)
			known.Early = earlyByRef(found)
			return err
		})
	}
}

func refColumns(refs []futurejobs.Ref) (shards []int16, rules []int32, keys []string) {
	for _, r := range refs {
		shards = append(shards, r.Shard)
		rules = append(rules, r.RuleID)
		keys = append(keys, escape(r.Key))
	}
	return shards, rules, keys
}
