package sources

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"deadman/checks"
	"deadman/checks/lookup"
)

// sqlite queries a database file over read-only connections.
type sqlite struct {
	db *sql.DB
}

// openSQLite opens a file with a connection for each concurrent batch, because a shared connection would make the
// file seem unresponsive.
func openSQLite(name string, o SQLite, batches int) (lookup.Client, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", name, err)
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{
		"mode":    {"ro"},
		"_pragma": {"query_only(1)", "trusted_schema(0)", "busy_timeout(1000)"},
	}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", name, err)
	}
	db.SetMaxOpenConns(batches + lookConns)
	db.SetMaxIdleConns(batches + lookConns)
	return &sqlite{db: db}, nil
}

// Query queries key after key, as there are no round trips to save.
func (s *sqlite) Query(ctx context.Context, q lookup.Question, queries []lookup.KeyQuery) ([]checks.Finding, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	v, err := prepareQuery(ctx, c, q)
	if err != nil {
		return nil, err
	}
	stmt, err := c.PrepareContext(ctx, v.query)
	if err != nil {
		return nil, refusedBySQLite(ctx, err)
	}
	defer stmt.Close()
	found, next := unknown(queries), 0
	for ; next < len(queries) && ctx.Err() == nil; next++ {
		if len(queries[next].Params) != v.params {
			return nil, wrongCount(v.params, len(queries[next].Params))
		}
		f, err := v.run(ctx, stmt, queries[next].Params)
		if err != nil {
			return nil, err
		}
		if f.Err != nil && ctx.Err() != nil {
			break
		}
		found[next] = f
	}
	if next < len(queries) {
		if err := finish(found, func(i int) bool { return i < next }, errNoAnswer); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Verify lets SQLite parse the query.
func (s *sqlite) Verify(ctx context.Context, q lookup.Question, params int) ([]lookup.Column, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	v, err := prepareQuery(ctx, c, q)
	switch {
	case err != nil:
		return nil, err
	case v.params != params:
		return nil, wrongCount(v.params, params)
	}
	return v.columns, nil
}

// Reach opens the file if necessary.
func (s *sqlite) Reach(ctx context.Context) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var version int
	if err := c.QueryRowContext(ctx, "PRAGMA schema_version").Scan(&version); err != nil {
		return unreachableFile(ctx, err)
	}
	return nil
}

// Close closes the file. An error is irrelevant, as the connections are read-only.
func (s *sqlite) Close() { _ = s.db.Close() }

// connect takes a connection, and limits the files and values that a query can use.
func (s *sqlite) connect(ctx context.Context) (*sql.Conn, error) {
	c, err := s.db.Conn(ctx)
	if err != nil {
		return nil, unreachableFile(ctx, err)
	}
	for limit, size := range map[int]int{
		sqlite3.SQLITE_LIMIT_ATTACHED: 0, // no other file of the node
		sqlite3.SQLITE_LIMIT_LENGTH:   mostMessage,
	} {
		if _, err := sqlitedriver.Limit(c, limit, size); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// sqliteQuery is a query with its columns.
type sqliteQuery struct {
	query   string
	params  int
	columns []lookup.Column
	names   []json.RawMessage
	handle  sqliteHandle // of the connection
}

// prepareQuery compiles a query as a subquery, a position that allows only queries, without executing it.
func prepareQuery(ctx context.Context, c *sql.Conn, q lookup.Question) (*sqliteQuery, error) {
	if q.SQL == "" {
		return nil, wrapSourceKind("a database", "sql")
	}
	query, params, err := singleStatement(q.SQL)
	if err != nil {
		return nil, err
	}
	handle, err := handleOf(c)
	if err != nil {
		return nil, err
	}
	found, err := compiled(c, "SELECT * FROM (\n"+query+"\n) LIMIT 0")
	if err != nil {
		return nil, refusedBySQLite(ctx, err)
	}
	v := &sqliteQuery{query: query, params: params, handle: handle}
	for _, column := range found {
		v.columns = append(v.columns, lookup.Column{Name: columnName(column.Name, v.columns), Type: affinity(column.DeclType)})
		v.names = append(v.names, quoted(column.Name))
	}
	return v, checkColumns(v.columns)
}

// compiled compiles a query and returns its columns. It never executes the query, not even for zero rows: SQLite
// computes materialized parts of a query before it applies LIMIT 0.
func compiled(c *sql.Conn, query string) (columns []sqlitedriver.ColumnInfo, err error) {
	err = c.Raw(func(connection any) (err error) {
		compiler, ok := connection.(interface {
			ColumnInfo(query string) ([]sqlitedriver.ColumnInfo, error)
		})
		if !ok {
			return fmt.Errorf("the SQLite driver (%T) does not report the columns of a query", connection)
		}
		columns, err = compiler.ColumnInfo(query)
		return err
	})
	return columns, err
}

// columnName returns the name of a column as written in the query: for duplicates, SQLite renames the columns of a
// table to a, a:1, a:2.
func columnName(name string, before []lookup.Column) string {
	first, _, _ := strings.Cut(name, ":")
	if slices.ContainsFunc(before, func(c lookup.Column) bool { return c.Name == first }) {
		return first
	}
	return name
}

// affinity returns the usual type of a column by its declaration. An expression has no declared type.
func affinity(declared string) lookup.Type {
	declared = strings.ToUpper(declared)
	has := func(part string) bool { return strings.Contains(declared, part) }
	switch {
	case has("BOOL"):
		return lookup.Boolean
	case has("INT"), has("REAL"), has("FLOAT"), has("DOUBLE"), has("NUMERIC"), has("DECIMAL"):
		return lookup.Number
	case has("CHAR"), has("TEXT"), has("CLOB"):
		return lookup.Text
	}
	return lookup.Any
}

// run queries one key. err is not an error of the key.
func (v *sqliteQuery) run(ctx context.Context, stmt *sql.Stmt, params []any) (f checks.Finding, err error) {
	args := make([]any, len(params))
	for i, param := range params {
		if args[i], err = bound(param); err != nil {
			return f, err
		}
	}
	timeout := statementTimeout
	if end, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(end)*3/4)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer v.handle.interruptAfter(ctx)()
	f.Value, err = v.one(ctx, stmt, args)
	if err == nil || isOfSQLite(err, scopeKey) {
		f.Err = sqliteKeyError(err, timeout)
		return f, nil
	}
	return f, refusedBySQLite(ctx, err)
}

// bound converts a parameter for binding: a comparison with a column then converts it to the column's type.
func bound(param any) (any, error) {
	switch v := param.(type) {
	case nil, bool, int, float64, string:
		return v, nil
	}
	text, err := asText(param)
	return string(text), err
}

// one returns the row of one key as an object; nil: no row.
func (v *sqliteQuery) one(ctx context.Context, stmt *sql.Stmt, args []any) (json.RawMessage, error) {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	values, into := make([]any, len(v.columns)), make([]any, len(v.columns))
	for i := range values {
		into[i] = &values[i]
	}
	if !rows.Next() {
		return nil, rows.Err()
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	fields := make([]json.RawMessage, len(values))
	for i := range values {
		if fields[i], err = v.field(i, values[i]); err != nil {
			return nil, err
		}
	}
	if rows.Next() {
		return nil, severalRows("more than one")
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return row(v.names, fields)
}

// field encodes a value as JSON.
func (v *sqliteQuery) field(i int, value any) (json.RawMessage, error) {
	name := v.columns[i].Name
	switch x := value.(type) {
	case []byte:
		return nil, fmt.Errorf("column %[1]s is bytes (a blob); write hex(%[1]s) as %[1]s", name)
	case int64:
		if v.columns[i].Type == lookup.Boolean {
			return json.Marshal(x != 0)
		}
	case time.Time:
		return json.Marshal(x.UTC())
	}
	b, err := json.Marshal(value)
	if err != nil { // an infinity
		return nil, fmt.Errorf("column %s is %v, which is not a JSON number", name, value)
	}
	return b, nil
}
