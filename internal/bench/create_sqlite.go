package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const aloneInsert = `INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

func (g *sqliteDB) insert(ctx context.Context, r *bareRows) (err error) {
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after a commit
	insert, err := tx.PrepareContext(ctx, aloneInsert)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	for i := range r.shard {
		if _, err := insert.ExecContext(ctx, r.shard[i], r.rule[i], r.version[i], r.key[i],
			r.created[i].UnixMicro(), r.since[i].UnixMicro(), r.first[i].UnixMicro(), r.next[i].UnixMicro(), r.event[i]); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (g *sqliteDB) made(ctx context.Context, jobs int) (bytes int64, err error) {
	var there int
	if err := g.db.QueryRowContext(ctx, fmt.Sprintf(madeRows+g.ofRounds()+` AND next_check_at > %d`, time.Now().UnixMicro())).Scan(&there, &bytes); err != nil {
		return 0, err
	}
	return bytes, wasMade(there, jobs)
}

func (g *sqliteDB) vacuumAndCheckpoint(ctx context.Context) error {
	return g.run(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
}

func (g *sqliteDB) run(ctx context.Context, statements ...string) error {
	return g.execute(ctx, statements...)
}
