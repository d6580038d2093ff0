package store

import (
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
)

// DueRange is the text of a due read in SQLite, whose plan is tested.
const DueRange = dueRange

// DueStatement is the statement of a due read in Postgres, whose plan is tested.
var DueStatement = dueStatement

// FenceText takes the locks that a settle takes.
var FenceText = rebindPlaceholders(fenceCTE + " SELECT count(*) FROM stand")

// Begin is how a transaction begins.
var Begin = begin

// Away makes ErrUnavailable of errors that say so.
var Away = asUnavailable

// Opening is the first statement of a transaction on database/sql.
func (s *Store) Opening() string { return s.beginSQL() }

// Pool is the store's pool.
func (s *Store) Pool() *pgxpool.Pool { return s.engine.(*postgres).pool }

// DB is the store's database.
func (s *Store) DB() *sql.DB { return s.db }
