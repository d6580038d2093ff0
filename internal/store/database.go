package store

import (
	"context"
	"database/sql"
	"log/slog"
	"time"
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
	for {
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
