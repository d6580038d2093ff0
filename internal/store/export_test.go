package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// DueRange is the text of a due read in SQLite, to test its plan.
const DueRange = dueRange

// DueStatement is the statement of a due read in Postgres, to test its plan.
var DueStatement = dueStatement

// FenceText takes the locks of a settle.
var FenceText = rebindPlaceholders(fenceCTE + " SELECT count(*) FROM held_now")

// Begin has the options of a transaction.
var Begin = begin

// Away is asUnavailable.
var Away = asUnavailable

// Opening returns the first statement of a transaction on database/sql.
func (s *Store) Opening() string { return s.beginSQL() }

// Pool returns the store's pool.
func (s *Store) Pool() *pgxpool.Pool { return s.engine.(*postgres).pool }

// MakeDays creates the tables of the days after now.
func (s *Store) MakeDays(ctx context.Context, now time.Time) error {
	return s.createPartitions(ctx, now)
}

// DB returns the store's database.
func (s *Store) DB() *sql.DB { return s.db }
