package sources_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/checks/lookup"
	"deadman/internal/sources"
)

// file is an SQLite database with orders.
type file struct {
	t    *testing.T
	path string
	db   *sql.DB
}

func newFile(t *testing.T) *file {
	t.Helper()
	f := &file{t: t, path: filepath.Join(t.TempDir(), "a shop?.db")}
	var err error
	if f.db, err = sql.Open("sqlite", "file:"+strings.ReplaceAll(f.path, "?", "%3f")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.db.Close() })
	f.run(`CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL, eta TIMESTAMP, paid BOOLEAN, total NUMERIC)`)
	f.run(`INSERT INTO orders VALUES (1, 'UNSHIPPED', '2026-03-02 12:00:00', 1, 12.5), (2, 'SHIPPED', null, 0, 7)`)
	return f
}

func (f *file) run(statement string) {
	f.t.Helper()
	if _, err := f.db.ExecContext(f.t.Context(), statement); err != nil {
		f.t.Fatal(err)
	}
}

func (f *file) source() lookup.Client {
	return open(f.t, sources.Spec{SQLite: &sources.SQLite{Path: f.path}})
}

func TestSQLiteResults(t *testing.T) {
	t.Parallel()
	c := newFile(t).source()
	q := lookup.Question{SQL: "select *, 'a\"b' as said from orders where id = $1; -- one of them"}
	columns, err := c.Verify(t.Context(), q, 1)
	want := []lookup.Column{{Name: "id", Type: lookup.Number}, {Name: "status", Type: lookup.Text}, {Name: "eta", Type: lookup.Any}, {Name: "paid", Type: lookup.Boolean}, {Name: "total", Type: lookup.Number}, {Name: "said", Type: lookup.Any}}
	if diff := cmp.Diff(want, columns); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	first := `{"id":1,"status":"UNSHIPPED","eta":"2026-03-02T12:00:00Z","paid":true,"total":12.5,"said":"a\"b"}`
	found, err := c.Query(within(t, 10*time.Second), q, keys(1, "1", "2", "a", 3, nil))
	checkLines(t, []string{first, first, `{"id":2,"status":"SHIPPED","eta":null,"paid":false,"total":7,"said":"a\"b"}`, "absent", "absent", "absent"}, lines(found, err))
	found, err = c.Query(within(t, 10*time.Second), lookup.Question{SQL: "select $2 as b, $1 as a, $2 as c"}, []lookup.KeyQuery{{Params: []any{"first", 2.5}}})
	checkLines(t, []string{`{"b":2.5,"a":"first","c":2.5}`}, lines(found, err))
}

// TestSQLiteRejectsQueries checks queries that are invalid for every key, and statements that are not queries.
func TestSQLiteRejectsQueries(t *testing.T) {
	t.Parallel()
	f := newFile(t)
	c := f.source()
	for _, k := range []struct{ query, wantText string }{
		{"select statu from orders where id = $1", "no such column: statu"},
		{"select status form orders where id = $1", "syntax error"},
		{"select status from orders where id = $1; delete from orders", "the query has more than one statement"},
		{"select 1 as a, $1 as b) ; delete from orders; select * from (select 1", "the query has more than one statement"},
		{"select 1 as a where $1) limit 1 offset (1", "syntax error"},
		{"select status from orders where id = 1", "the query has 0 parameters and gets 1"},
		{"select status from orders where id = $1 and status = $2", "the query has 2 parameters and gets 1"},
		{"select status from orders where id = ?", `"?" is not a parameter here`},
		{"select status from orders where id = :id", `":id" is not a parameter here`},
		{"select status from orders where id = $id", `"$id" is not a parameter`},
		{"delete from orders where id = $1 returning id", "syntax error"},
		{"pragma query_only = 0", "syntax error"},
		{"attach database '/etc/passwd' as p", "syntax error"},
		{"vacuum into '/tmp/copy.db'", "syntax error"},
		{"select load_extension('x') as v where $1", "not authorized"},
		{"select 1 as a, $1 as a", "two columns are named a"},
	} {
		q := lookup.Question{SQL: k.query}
		_, err := c.Verify(t.Context(), q, 1)
		found, queryErr := c.Query(within(t, 10*time.Second), q, keys(1))
		if k.wantText == "not authorized" { // reported only at execution
			checkLines(t, []string{"error: SQL logic error: not authorized (1)"}, lines(found, queryErr))
			continue
		}
		checkRefused(t, err, k.wantText)
		checkRefused(t, queryErr, k.wantText)
	}
	var left int
	if err := f.db.QueryRowContext(t.Context(), `SELECT count(*) FROM orders`).Scan(&left); err != nil || left != 2 {
		t.Errorf("%d orders are left, %v", left, err)
	}
}

// TestSQLiteRunsNothingToVerify verifies queries that would run forever, or fail on the data of a table, if any part
// were executed: a materialized part is computed before a limit of 0 applies.
func TestSQLiteRunsNothingToVerify(t *testing.T) {
	t.Parallel()
	f := newFile(t)
	f.run("CREATE TABLE secrets (k TEXT, v TEXT)")
	f.run("INSERT INTO secrets VALUES ('card', '4111-1111')")
	c := f.source()
	for name, query := range map[string]string{
		"without end": "with recursive c(x) as (select 1 union all select x+1 from c), m as materialized (select max(x) as v from c) select a.v from m a, m b where $1=$1",
		"an oracle": "with m as materialized (select case when (select unicode(substr(v, 1)) from secrets where k = 'card') > 0 then abs(-9223372036854775807-1) else 1 end as v) " +
			"select a.v from m a, m b where $1=$1",
	} {
		columns, err := c.Verify(within(t, 30*time.Second), lookup.Question{SQL: query}, 1)
		if err != nil || len(columns) != 1 || columns[0].Name != "v" {
			t.Errorf("%s: %+v, %v", name, columns, err)
		}
	}
}

// TestSQLiteErrors checks errors of the second of three keys.
func TestSQLiteErrors(t *testing.T) {
	t.Parallel()
	f := newFile(t)
	const beside = `{"v":1}`
	for name, k := range map[string]struct{ query, second string }{
		"absent":            {"select 1 as v where $1 <> 2", "absent"},
		"several rows":      {"select 1 as v from orders where id = 1 or $1 = 2", "error: the query returned more than one rows for one key; …"},
		"a long value":      {"select iif($1 = 2, hex(zeroblob(40000)), 1) as v", "error: the answer is larger than 64 KiB; …"},
		"1 GB":              {"select iif($1 = 2, hex(zeroblob(500000000)), 1) as v", "error: the answer is larger than 64 KiB; …"},
		"bytes":             {"select iif($1 = 2, x'00ff', 1) as v", "error: column v is bytes (a blob); write hex(v) as v"},
		"no number of JSON": {"select iif($1 = 2, 9e999, 1) as v", "error: column v is +Inf, which is not a JSON number"},
		"a wrong value":     {"select json_extract(iif($1 = 2, '{', '[1]'), '$[0]') as v", "error: SQL logic error: malformed JSON (1)"},
		"without end":       {"with recursive n(i) as (select 1 union all select i + 1 from n where $1 = 2) select max(i) as v from n", "error: the query took longer than 2s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := f.source().Query(within(t, 30*time.Second), lookup.Question{SQL: k.query}, keys(1, 2, 3))
			checkLines(t, []string{beside, k.second, beside}, lines(found, err))
		})
	}
}

// TestUnavailableSQLite checks failures of the file.
func TestUnavailableSQLite(t *testing.T) {
	t.Parallel()
	q := lookup.Question{SQL: byID}
	fails := func(c lookup.Client, wantText string) {
		t.Helper()
		found, err := c.Query(within(t, 5*time.Second), q, keys(1, 2))
		checkLines(t, []string{sourceLine + wantText}, lines(found, err))
		if err := c.Reach(within(t, 5*time.Second)); err == nil {
			t.Error("it can be reached")
		}
	}
	none := filepath.Join(t.TempDir(), "none.db")
	fails(open(t, sources.Spec{SQLite: &sources.SQLite{Path: none}}), "unable to open database file…")
	if _, err := os.Stat(none); err == nil {
		t.Error("it made the file")
	}
	text := filepath.Join(t.TempDir(), "text.db")
	write(t, text, strings.Repeat("this is text\n", 1000))
	fails(open(t, sources.Spec{SQLite: &sources.SQLite{Path: text}}), "file is not a database (26)")

	f := newFile(t)
	c := f.source()
	if err := c.Reach(t.Context()); err != nil {
		t.Error(err)
	}
	f.db.SetMaxOpenConns(1)
	f.run("BEGIN EXCLUSIVE")
	fails(c, "database is locked (5) (SQLITE_BUSY)")
	f.run("COMMIT")
	found, err := c.Query(within(t, 5*time.Second), q, keys(1))
	checkLines(t, []string{`{"status":"UNSHIPPED"}`}, lines(found, err))
}

// TestSQLiteTimeout keeps the findings before a timeout.
func TestSQLiteTimeout(t *testing.T) {
	t.Parallel()
	c := newFile(t).source()
	endless := "with recursive n(i) as (select 1 union all select i + 1 from n where $1 > 1) select max(i) as v from n"
	queries := keys(1)
	for i := range 30 {
		queries = append(queries, keys(i+2)...)
	}
	found, err := c.Query(within(t, time.Second), lookup.Question{SQL: endless}, queries)
	got := lines(found, err)
	checkLines(t, []string{`{"v":1}`, "error: the query took longer than …ms"}, got[:2])
	checkLines(t, []string{fmt.Sprintf("error: timeout after … of %d keys; make the query faster (does its column have an index?) or increase guards.timeout", len(queries))}, got[30:])
}

// TestSQLiteWithoutTime checks that a query that the end of the batch leaves no time ends: SQLite does not notice an interrupt
// that comes before it runs a statement.
func TestSQLiteWithoutTime(t *testing.T) {
	t.Parallel()
	c := newFile(t).source()
	endless := lookup.Question{SQL: "with recursive n(i) as (select 1 union all select i + 1 from n where $1 > 1) select max(i) as v from n"}
	queries := keys(2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2)
	var batches sync.WaitGroup
	for range 4 {
		batches.Go(func() {
			for range 100 {
				_, _ = c.Query(within(t, 30*time.Millisecond), endless, queries) // it times out
			}
		})
	}
	batches.Wait()
}

// TestBatchWaitsForNoOther queries a file with several concurrent batches, each with its own timeout: a batch queued
// behind another would report a timeout of the file.
func TestBatchWaitsForNoOther(t *testing.T) {
	t.Parallel()
	f := newFile(t)
	c := f.source()
	slow := lookup.Question{SQL: "with recursive c(n) as (select 1 union all select n + 1 from c) select max(n) as n from c where $1 > 0"}
	const others = 3 // beside the one with a result
	var hanging sync.WaitGroup
	ctx, stop := context.WithCancel(within(t, time.Minute))
	for range others {
		hanging.Go(func() {
			_, _ = c.Query(ctx, slow, keys(1, 1, 1, 1, 1, 1, 1, 1)) // it is interrupted
		})
	}
	t.Cleanup(hanging.Wait)
	t.Cleanup(stop)
	for range 2 {
		found, err := c.Query(within(t, 10*time.Second), lookup.Question{SQL: "select status from orders where id = $1"}, keys(1))
		checkLines(t, []string{`{"status":"UNSHIPPED"}`}, lines(found, err))
		if err := c.Reach(within(t, 10*time.Second)); err != nil {
			t.Error(err)
		}
	}
}
