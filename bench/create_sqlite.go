package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

const aloneInsert = `INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// again has one writer, however many are asked for: SQLite has no more.
func (g *sqliteGround) again(ctx context.Context) (insert func(ctx context.Context, writers int) error, err error) {
	rows, err := g.db.QueryContext(ctx, bareRead+` WHERE `+g.ofRounds()+` ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var all [][]any
	for rows.Next() {
		var numbers [7]int64
		var key, event string
		if err := rows.Scan(&numbers[0], &numbers[1], &numbers[2], &key, &numbers[3], &numbers[4], &numbers[5], &numbers[6], &event); err != nil {
			return nil, err
		}
		all = append(all, []any{numbers[0], numbers[1], numbers[2], key, numbers[3], numbers[4], numbers[5], numbers[6], event})
	}
	return func(ctx context.Context, _ int) error { return g.insertAll(ctx, all) }, rows.Err()
}

// insertAll inserts rows, as many in a transaction as the engine does at most.
func (g *sqliteGround) insertAll(ctx context.Context, rows [][]any) (err error) {
	insert, err := g.db.PrepareContext(ctx, aloneInsert)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	for batch := range slices.Chunk(rows, bareBatch) {
		if err := g.insertBatch(ctx, insert, batch); err != nil {
			return err
		}
	}
	return nil
}

func (g *sqliteGround) insertBatch(ctx context.Context, insert *sql.Stmt, rows [][]any) error {
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	within := tx.StmtContext(ctx, insert)
	for _, row := range rows {
		if _, err := within.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (g *sqliteGround) made(ctx context.Context, jobs int) (bytes int64, err error) {
	var there int
	if err := g.db.QueryRowContext(ctx, fmt.Sprintf(madeRows+g.ofRounds()+` AND next_check_at > %d`, time.Now().UnixMicro())).Scan(&there, &bytes); err != nil {
		return 0, err
	}
	return bytes, wasMade(there, jobs)
}

func (g *sqliteGround) calm(ctx context.Context) error {
	return g.run(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
}

func (g *sqliteGround) run(ctx context.Context, statements ...string) error {
	return g.execute(ctx, statements...)
}
