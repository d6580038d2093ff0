package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// ScatteredAt is the minimum number of pending jobs for each due job if due jobs are scattered among them: a page has
// fewer than 25 jobs, and not all holes are filled.
const ScatteredAt = 40

const (
	backlogChunk   = 100_000 // jobs per statement
	backlogWriters = 2       // concurrent statements
)

// laterKey keeps the keys of pending jobs among those of the rounds, so that an index is written in the same places as
// if all jobs were of one kind.
const laterKey = `'key-' || i || '-later'`

// pend inserts the other pending jobs without indexes, and then creates the indexes.
//
// About half of a body is as random as the ids and amounts of real ones: otherwise the server could compress its log
// too well.
//
// If the jobs of a round are to be scattered among them, it creates a hole for each: it inserts a job and deletes it,
// so that the only other free space is at the end.
func (g *postgresDB) pend(ctx context.Context, o Options) error {
	if o.Pending == 0 {
		return nil
	}
	every := 0
	if g.apart = o.Scattered; g.apart {
		every = 3 * o.Pending / (4 * o.Jobs) // some holes are a few bytes too small for a job
	}
	if g.pending = o.Pending; every > 0 {
		g.pending -= o.Pending / every
	}
	indexes, err := g.dropIndexes(ctx)
	if err != nil {
		return err
	}
	if err := g.putIn(ctx, o, every); err != nil {
		return err
	}
	if g.apart {
		if err := execute(ctx, g.pool, `DELETE FROM future_job WHERE next_check_at < '`+g.begins.UTC().Format(time.RFC3339)+`'`); err != nil {
			return err
		}
	}
	o.progress("vacuum", 0, 1)
	if err := execute(ctx, g.pool, `VACUUM (ANALYZE) future_job`); err != nil {
		return err
	}
	for i, index := range indexes {
		o.progress("indexes", i, len(indexes))
		if err := g.makeIndex(ctx, index); err != nil {
			return err
		}
	}
	return execute(ctx, g.pool, `ANALYZE future_job`)
}

// putIn inserts the jobs with concurrent statements. One in every is a hole; 0: none.
func (g *postgresDB) putIn(ctx context.Context, o Options, every int) error {
	hole := "false"
	if every > 0 {
		hole = fmt.Sprintf("i %% %d = 0", every)
	}
	text := fmt.Sprintf(`INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
		SELECT (hashint4(i) & 1023) %% %d, r.id, r.version, %s, t, t, t, t, '{"order_id" : "ord-' || i || '", "status" : "UNSHIPPED", "total" : ' || i %% 500 ||
			', "pad" : "' || md5(i::text) || md5((-i)::text) || r.pad || '"}'
		FROM generate_series($1::int, $2::int) i,
			(SELECT id, (SELECT max(version) FROM rule_version WHERE rule_id = rule.id) AS version, repeat('x', 56) AS pad
				FROM rule WHERE name = 'bench-later') r,
			LATERAL (SELECT CASE WHEN %[4]s THEN now() ELSE $3::timestamptz + (hashint4(i) & 1073741823) %% %[3]d * interval '1 s' END AS t) x`,
		shards, laterKey, int(pendsSpread.Seconds()), hole)
	told := make(chan int)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(backlogWriters + 1)
	group.Go(func() error {
		for done := 0; done < o.Pending; {
			select {
			case n := <-told:
				done += n
				o.progress("pending jobs", done, o.Pending)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for from := 1; from <= o.Pending && ctx.Err() == nil; from += backlogChunk {
		to := min(from+backlogChunk-1, o.Pending)
		group.Go(func() error {
			if _, err := g.pool.Exec(ctx, text, from, to, g.begins); err != nil {
				return err
			}
			select {
			case told <- to - from + 1:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
	return group.Wait()
}

// index has the statements that recreate an index.
type index struct {
	make       string
	constraint string // of the index; empty: none
}

// dropIndexes drops all indexes of the jobs and returns how to recreate them.
func (g *postgresDB) dropIndexes(ctx context.Context) ([]index, error) {
	rows, err := g.pool.Query(ctx, `
SELECT c.relname, pg_get_indexdef(i.indexrelid), coalesce(k.conname, ''), coalesce(k.contype = 'p', false)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid
WHERE i.indrelid = 'future_job'::regclass ORDER BY c.relname`)
	if err != nil {
		return nil, err
	}
	var all []index
	var drop []string
	var name, definition, constraint string
	var primary bool
	if _, err := pgx.ForEachRow(rows, []any{&name, &definition, &constraint, &primary}, func() error {
		one := index{make: definition}
		kind := "UNIQUE"
		if primary {
			kind = "PRIMARY KEY"
		}
		if constraint == "" {
			drop = append(drop, `DROP INDEX `+name)
		} else {
			drop = append(drop, `ALTER TABLE future_job DROP CONSTRAINT `+constraint)
			one.constraint = fmt.Sprintf(`ALTER TABLE future_job ADD CONSTRAINT %s %s USING INDEX %s`, constraint, kind, name)
		}
		all = append(all, one)
		return nil
	}); err != nil {
		return nil, err
	}
	return all, execute(ctx, g.pool, drop...)
}

// makeIndex creates an index with a larger sort memory.
func (g *postgresDB) makeIndex(ctx context.Context, i index) error {
	tx, err := g.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // no effect after a commit
	for _, statement := range []string{`SET LOCAL maintenance_work_mem = '512MB'`, i.make, i.constraint} {
		if statement == "" {
			continue
		}
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// pends counts all pending jobs, which takes a while.
func (g *postgresDB) pends(ctx context.Context) error {
	n := 0
	if err := g.pool.QueryRow(ctx, `SELECT count(*) FROM future_job WHERE next_check_at >= $1`, g.begins).Scan(&n); err != nil {
		return err
	}
	return allPend(n, g.pending)
}

// checkApart checks that nearly all due jobs are on separate pages.
func (g *postgresDB) checkApart(ctx context.Context, jobs int) error {
	var pages int
	if err := g.pool.QueryRow(ctx, `SELECT count(DISTINCT (ctid::text::point)[0]) FROM future_job WHERE `+g.ofRounds()).Scan(&pages); err != nil {
		return err
	}
	if 4*pages < 3*jobs {
		return fmt.Errorf("%d due jobs lie on %d pages, so they aren't scattered; increase the number of pending jobs", jobs, pages)
	}
	return nil
}

// pend inserts the other pending jobs.
func (g *sqliteDB) pend(ctx context.Context, o Options) error {
	if o.Scattered {
		return errors.New("scattered jobs are not supported with SQLite; give a Postgres")
	}
	g.pending = o.Pending
	for from := 1; from <= o.Pending; from += backlogChunk {
		to := min(from+backlogChunk-1, o.Pending)
		due := fmt.Sprintf(`%d + (i * 7919) %% %d * 1000000`, g.begins.UnixMicro(), int(pendsSpread.Seconds()))
		if err := g.execute(ctx, insertAlone(from, to, `'bench-later'`, laterKey, due)); err != nil {
			return err
		}
		o.progress("pending jobs", to, o.Pending)
	}
	return nil
}

func (g *sqliteDB) pends(ctx context.Context) error {
	db, err := g.open()
	if err != nil {
		return err
	}
	n := 0
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM future_job WHERE next_check_at >= $1`, g.begins.UnixMicro()).Scan(&n); err != nil {
		return err
	}
	return allPend(n, g.pending)
}
