package sources_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"deadman/checks/lookup"
	"deadman/internal/sources"
	"deadman/internal/store/storetest"
)

// database is a Postgres database with orders.
type database struct {
	t    testing.TB
	dsn  string
	conn *pgx.Conn
}

func newDatabase(t testing.TB) *database {
	t.Helper()
	d := &database{t: t, dsn: storetest.EmptyPostgres(t)}
	var err error
	if d.conn, err = pgx.Connect(t.Context(), d.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.conn.Close(context.Background()) })
	d.run(`CREATE TABLE orders (id bigint PRIMARY KEY, status text NOT NULL, eta timestamptz)`)
	d.run(`INSERT INTO orders SELECT i, 'UNSHIPPED', '2026-03-02 12:00:00.25+00' FROM generate_series(1, 3000) i`)
	return d
}

func (d *database) run(statement string) {
	d.t.Helper()
	if _, err := d.conn.Exec(d.t.Context(), statement); err != nil {
		d.t.Fatal(err)
	}
}

func (d *database) queryInt(query string) (n int) {
	d.t.Helper()
	if err := d.conn.QueryRow(context.WithoutCancel(d.t.Context()), query).Scan(&n); err != nil {
		d.t.Fatal(err)
	}
	return n
}

// source returns the database as a source.
func (d *database) source() lookup.Client {
	return open(d.t, sources.Spec{Postgres: &sources.Postgres{URL: d.dsn, StatementTimeout: 2 * time.Second}})
}

// singleConnSource returns the database as a source with one connection.
func (d *database) singleConnSource() lookup.Client {
	u, err := url.Parse(d.dsn)
	if err != nil {
		d.t.Fatal(err)
	}
	u.RawQuery += "&pool_max_conns=1"
	return open(d.t, sources.Spec{Postgres: &sources.Postgres{URL: u.String(), StatementTimeout: 2 * time.Second}})
}

const byID = "select status from orders where id = $1"

// TestManyKeysInOneTrip queries a whole batch with existing and missing keys, and one invalid number: only that one
// fails.
func TestManyKeysInOneTrip(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	c := d.source()
	queries, want := make([]lookup.KeyQuery, lookup.BatchMost), make([]string, lookup.BatchMost)
	for i := range queries {
		queries[i].Params, want[i] = []any{fmt.Sprint(2*i + 1)}, `{"status":"UNSHIPPED"}`
		if 2*i+1 > 3000 {
			want[i] = "absent"
		}
	}
	found, err := c.Query(within(t, 10*time.Second), lookup.Question{SQL: byID}, queries)
	checkLines(t, want, lines(found, err))
	for _, i := range []int{0, 7, 8, 1000, 1999} {
		queries[i].Params, want[i] = []any{"a"}, `error: invalid input syntax for type bigint: "a" (SQLSTATE 22P02)`
	}
	found, err = c.Query(within(t, 10*time.Second), lookup.Question{SQL: byID}, queries)
	checkLines(t, want, lines(found, err))
}

// TestFarPostgres adds a latency almost as high as to the moon: neither key-by-key queries nor a retry per failed
// key would finish in time.
func TestFarPostgres(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	at, err := url.Parse(d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy := newProxy(t, at.Host)
	addToxic(t, proxy, "latency", `{"latency": 500}`)
	at.Host = proxy.Listen
	d.dsn = at.String()
	queries, want := make([]lookup.KeyQuery, 200), make([]string, 200)
	for i := range queries {
		queries[i].Params, want[i] = []any{i + 1}, `{"status":"UNSHIPPED"}`
		if i%2 == 1 {
			queries[i].Params, want[i] = []any{"a"}, `error: invalid input syntax…`
		}
	}
	found, err := d.source().Query(within(t, 20*time.Second), lookup.Question{SQL: byID}, queries)
	checkLines(t, want, lines(found, err))
}

// TestPostgresResults checks the JSON of all column types, and the types reported by Verify.
func TestPostgresResults(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.run(`CREATE TYPE mood AS ENUM ('sad', 'ok')`)
	d.run(`CREATE DOMAIN price AS numeric(10, 2)`)
	c := d.source()
	for _, k := range []struct {
		column string
		kind   lookup.Type
		value  string
	}{
		{`true`, lookup.Boolean, `true`},
		{`false`, lookup.Boolean, `false`},
		{`null::int`, lookup.Number, `null`},
		{`-7::smallint`, lookup.Number, `-7`},
		{`9223372036854775807`, lookup.Number, `9223372036854775807`},
		{`12.50::numeric`, lookup.Number, `12.50`},
		{`12.5::price`, lookup.Number, `12.50`},
		{`1e300::float8`, lookup.Number, `1e+300`},
		{`0.1::float4`, lookup.Number, `0.1`},
		{`'a"b\n<é'::text`, lookup.Text, `"a\"b\\n\u003cé"`},
		{`'ok'::mood`, lookup.Text, `"ok"`},
		{`'8f9c3d6e-0000-4000-8000-000000000001'::uuid`, lookup.Text, `"8f9c3d6e-0000-4000-8000-000000000001"`},
		{`'2026-03-02 13:00:00.25+01'::timestamptz`, lookup.Text, `"2026-03-02T12:00:00.25Z"`},
		{`'2026-03-02 13:00:00'::timestamp`, lookup.Text, `"2026-03-02T13:00:00"`},
		{`'infinity'::timestamptz`, lookup.Text, `"infinity"`},
		{`'2026-03-02'::date`, lookup.Text, `"2026-03-02"`},
		{`'90 minutes'::interval`, lookup.Text, `"01:30:00"`},
		{`'{"b": [1, 2.50]}'::json`, lookup.Any, `{"b": [1, 2.50]}`},
		{`'{"b": 1}'::jsonb`, lookup.Any, `{"b": 1}`},
		{`to_jsonb(array[1,2])`, lookup.Any, `[1, 2]`},
	} {
		q := lookup.Question{SQL: "select " + k.column + " as v where $1::text = '1'"}
		columns, err := c.Verify(t.Context(), q, 1)
		if diff := cmp.Diff([]lookup.Column{{Name: "v", Type: k.kind}}, columns); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", k.column, err, diff)
		}
		found, err := c.Query(within(t, 10*time.Second), q, keys("1"))
		checkLines(t, []string{`{"v":` + k.value + `}`}, lines(found, err))
	}
	found, err := c.Query(within(t, 10*time.Second), lookup.Question{SQL: "select id, 'NaN'::float8 / $1::int as v from orders where id = 1"}, keys(1))
	checkLines(t, []string{"error: column v is NaN, which is not a JSON number"}, lines(found, err))
}

// TestParametersOfPostgres checks parameters for columns of other types.
func TestParametersOfPostgres(t *testing.T) {
	t.Parallel()
	c := newDatabase(t).source()
	at := time.Date(2026, 3, 2, 13, 0, 0, 250e6, time.FixedZone("", 3600))
	for _, k := range []struct {
		is    string
		value any
		want  string
	}{
		{"7::bigint", "7", "true"},
		{"7::bigint", 7, "true"},
		{"7::bigint", json.Number("7"), "true"},
		{"7::bigint", 7.0, "true"},
		{"7::bigint", " 7 ", "true"},
		{"'7'::text", 7, "true"},
		{"'1234567'::text", 1234567.0, "true"},
		{"'7'::text", "7; drop table orders", "false"},
		{"true", true, "true"},
		{"12.5::numeric", json.Number("12.50"), "true"},
		{"'2026-03-02 12:00:00.25+00'::timestamptz", at, "true"},
		{"'2026-03-02T12:00:00.25Z'::text", at, "true"},
		{"7::bigint", nil, "null"},
	} {
		found, err := c.Query(within(t, 10*time.Second), lookup.Question{SQL: "select " + k.is + " = $1 as same"}, keys(k.value))
		checkLines(t, []string{`{"same":` + k.want + `}`}, lines(found, err))
	}
}

// TestPostgresRejectsQueries checks queries that are invalid for every key, with the position of the error.
func TestPostgresRejectsQueries(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	c := d.source()
	for _, k := range []struct{ query, wantText string }{
		{"select statu from orders where id = $1", `line 1, column 8: column "statu" does not exist (SQLSTATE 42703); Perhaps you meant to reference the column "orders.status".`},
		{"select 'é', status\nfrom  order where id = $1", `line 2, column 7: syntax error at or near "order"`},
		{"select status from orders where id = $1; delete from orders", "cannot insert multiple commands into a prepared statement"},
		{"select status from orders where id = 1", "the query has 0 parameters and gets 1"},
		{"select status from orders where id = $1 and status = $2", "the query has 2 parameters and gets 1"},
		{"select 1, $1::text as a", "column 1 has no name"},
		{"select $1::text as a, 2 as a", "two columns are named a"},
		{"delete from orders where id = $1", "the statement returns no columns"},
		{"set transaction read write", "the statement returns no columns"},
		{"commit", "the statement returns no columns"},
		{"", "the statement returns no columns"},
		{"select 'a'::bytea as raw, $1::int as id", "column raw is bytes (bytea); write encode(raw, 'hex') as raw"},
		{"select array[$1::int] as list", "column list has several values (_int4); write to_jsonb(list) as list"},
		{"select row(1, $1::int) as pair", "column pair has several values (record); write to_jsonb(pair) as pair"},
		{"select int4range(1, $1::int) as span", "column span has several values (int4range); write to_jsonb(span) as span"},
	} {
		q := lookup.Question{SQL: k.query}
		if k.query == "" {
			q.SQL = " "
		}
		_, err := c.Verify(t.Context(), q, 1)
		checkRefused(t, err, k.wantText)
		_, err = c.Query(within(t, 10*time.Second), q, keys("1"))
		checkRefused(t, err, k.wantText)
	}
	if _, err := c.Verify(t.Context(), lookup.Question{HTTP: &lookup.HTTP{}}, 1); err == nil {
		t.Error("a database takes a path")
	} else {
		checkRefused(t, err, "the source is a database; query it with sql")
	}
	if n := d.queryInt("SELECT count(*) FROM orders"); n != 3000 {
		t.Errorf("%d orders are left", n)
	}
}

// TestPostgresErrors checks failures caused by a query. An error of one key does not affect the other keys.
func TestPostgresErrors(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.run(`CREATE FUNCTION sneak(id int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM orders WHERE orders.id = sneak.id; RETURN 1; END $$`)
	d.run(`CREATE FUNCTION loosen() RETURNS text LANGUAGE sql AS $$ SELECT set_config('transaction_read_only', 'off', false) $$`)
	d.run(`CREATE SEQUENCE numbers`)
	const beside = `{"v":1}`
	timeout := "error: canceling statement due to statement timeout (SQLSTATE 57014); the query took longer than the source's statement timeout"
	for name, k := range map[string]struct {
		query string
		want  []string // of the keys 1, 2 and 3
	}{
		"absent":           {"select 1 as v where $1::int <> 2", []string{beside, "absent", beside}},
		"several rows":     {"select 1 as v from generate_series(1, case $1::int when 2 then 3 else 1 end)", []string{beside, "error: the query returned 3 rows for one key; …", beside}},
		"many rows":        {"select 1 as v from generate_series(1, case $1::int when 2 then 400000 else 1 end)", []string{beside, "error: the answer is larger than 64 KiB; …", beside}},
		"64 KiB":           {"select case $1::int when 2 then to_jsonb(repeat('x', 70000)) else '1' end as v", []string{beside, "error: the answer is larger than 64 KiB; …", beside}},
		"50 MB":            {"select case $1::int when 2 then to_json(repeat(repeat('x', 1000), 50000)) else '1' end as v", []string{beside, "error: the answer is larger than 64 KiB; …", beside}},
		"too deep":         {"select case $1::int when 2 then (repeat('[', 70) || repeat(']', 70))::json else '1'::json end as v", []string{beside, "error: the answer has more than 64 levels of JSON", beside}},
		"a wrong value":    {"select 1/(2-$1::int)::int * 0 + 1 as v", []string{beside, "error: division by zero (SQLSTATE 22012)", beside}},
		"pg_sleep":         {"select case when pg_sleep(case $1::int when 2 then 60 else 0 end) is null then 0 else 1 end as v", []string{beside, timeout, beside}},
		"a write":          {"insert into orders select 5000 + $1::int, 'x' returning 1 as v", []string{sourceLine + "the source rejects the query: cannot execute INSERT in a read-only transaction (SQLSTATE 25006)"}},
		"a hidden write":   {"select sneak($1::int) as v", []string{sourceLine + "the source rejects the query: cannot execute DELETE in a read-only transaction (SQLSTATE 25006)"}},
		"a loosened write": {"select sneak($1::int) as v from loosen()", repeated("error: transaction read-write mode must be set before any query (SQLSTATE 25001)", 3)},
		"a number drawn":   {"select nextval('numbers') + $1::int as v", []string{sourceLine + "the source rejects the query: cannot execute nextval() in a read-only transaction (SQLSTATE 25006)"}},
		"a lock":           {"select 1 as v from orders where id = $1 for update", []string{sourceLine + "the source rejects the query: cannot execute SELECT FOR UPDATE in a read-only transaction (SQLSTATE 25006)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := d.source().Query(within(t, 30*time.Second), lookup.Question{SQL: k.query}, keys(1, 2, 3))
			checkLines(t, k.want, lines(found, err))
		})
	}
	t.Cleanup(func() {
		if n := d.queryInt("SELECT count(*) FROM orders"); n != 3000 {
			t.Errorf("%d orders are left", n)
		}
	})
}

// TestOversizedBatches checks keys that cost a connection each: their number is limited.
func TestOversizedBatches(t *testing.T) {
	t.Parallel()
	c := newDatabase(t).source()
	found, err := c.Query(within(t, 30*time.Second), lookup.Question{SQL: "select repeat('x', $1::int) as v"}, keys(1, 3<<20, 2, 3<<20, 3<<20, 3))
	tooLong, notQueried := "error: the answer is larger than 64 KiB; …", "error: not queried: 3 keys before it returned more than 1024 KiB each; …"
	checkLines(t, []string{`{"v":"x"}`, tooLong, `{"v":"xx"}`, tooLong, tooLong, notQueried}, lines(found, err))
}

// TestConnectionsEndedByQuery checks a query that ends its own connection for some keys: these keys fail, but not
// the source, as it is reachable.
func TestConnectionsEndedByQuery(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	q := lookup.Question{SQL: "select case when $1::int = 2 then pg_terminate_backend(pg_backend_pid())::text else 'x' end as v"}
	const lost, notQueried = "error: the database ended the connection while it ran the query: terminating connection due to administrator command (SQLSTATE 57P01)",
		"error: not queried: for 3 keys before it, the database ended the connection while it ran the query: terminating connection due to administrator command (SQLSTATE 57P01)"
	found, err := d.source().Query(within(t, 30*time.Second), q, keys(1, 2, 3))
	checkLines(t, []string{`{"v":"x"}`, lost, `{"v":"x"}`}, lines(found, err))
	found, err = d.singleConnSource().Query(within(t, 30*time.Second), q, keys(2, 2, 1, 2, 3))
	checkLines(t, []string{lost, lost, `{"v":"x"}`, lost, notQueried}, lines(found, err))
	found, err = d.singleConnSource().Query(within(t, 30*time.Second), lookup.Question{SQL: byID}, keys(1))
	checkLines(t, []string{`{"status":"UNSHIPPED"}`}, lines(found, err))
}

// TestQueriesAreIsolated queries on one connection after a query that changed all possible settings.
func TestQueriesAreIsolated(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	c := d.singleConnSource()
	set := "select set_config('statement_timeout', '1', false) || set_config('search_path', 'nowhere', false) || $1 as v"
	if _, err := c.Query(within(t, 10*time.Second), lookup.Question{SQL: set}, keys("1")); err != nil {
		t.Fatal(err)
	}
	found, err := c.Query(within(t, 10*time.Second), lookup.Question{SQL: "select status from orders, pg_sleep(0.1) where id = $1"}, keys("1"))
	checkLines(t, []string{`{"status":"UNSHIPPED"}`}, lines(found, err))
}

// TestChangingTables queries again after a column was added, on a connection that had prepared the query.
func TestChangingTables(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	c := d.source()
	q := lookup.Question{SQL: "select * from orders where id = $1"}
	found, err := c.Query(within(t, 10*time.Second), q, keys(1, 2))
	checkLines(t, repeated(`{"id":…}`, 2), lines(found, err))
	d.run(`ALTER TABLE orders ADD COLUMN paid boolean DEFAULT true`)
	found, err = c.Query(within(t, 10*time.Second), q, keys(1, 2))
	checkLines(t, repeated(`{"id":…,"paid":true}`, 2), lines(found, err))
}

// TestManyQueriesOnConnection prepares more statements than a connection keeps.
func TestManyQueriesOnConnection(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	c := d.singleConnSource()
	for i := range 450 {
		found, err := c.Query(within(t, 10*time.Second), lookup.Question{SQL: fmt.Sprintf("select %d as v where $1::int = 1", i%300)}, keys(1))
		checkLines(t, []string{fmt.Sprintf(`{"v":%d}`, i%300)}, lines(found, err))
	}
	found, err := c.Query(within(t, 10*time.Second), lookup.Question{SQL: "select count(*) as v from pg_prepared_statements where $1::int = 1"}, keys(1))
	checkLines(t, []string{`{"v":200}`}, lines(found, err))
}

// TestPostgresTimeout keeps the findings before a timeout, and continues from there.
func TestPostgresTimeout(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	c := d.source()
	slow := lookup.Question{SQL: "select pg_sleep($1)::text as v"}
	found, err := c.Query(within(t, 20*time.Second), slow, keys(0))
	checkLines(t, []string{`{"v":""}`}, lines(found, err))
	found, err = c.Query(within(t, 2*time.Second), slow, keys(0, 0, 0.9, 0.9, 0.9, 0.9))
	late := "error: timeout after … of 6 keys; make the query faster (does its column have an index?) or increase guards.timeout"
	got := lines(found, err)
	checkLines(t, []string{`{"v":""}`, `{"v":""}`}, got[:2])
	checkLines(t, []string{late}, got[5:])
	until(t, "nothing goes on behind", func() bool {
		return d.queryInt("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep($1)%' AND state = 'active' AND pid <> pg_backend_pid()") == 0
	})
}

// TestUnavailablePostgres checks failures of the source as a whole, never of one key.
func TestUnavailablePostgres(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	at, err := url.Parse(d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(u *url.URL)) lookup.Client {
		u := *at
		change(&u)
		return open(t, sources.Spec{Postgres: &sources.Postgres{URL: u.String(), StatementTimeout: 2 * time.Second}})
	}
	fails := func(t *testing.T, c lookup.Client, wants string) {
		t.Helper()
		found, err := c.Query(within(t, 2*time.Second), lookup.Question{SQL: byID}, keys(1, 2))
		checkLines(t, []string{sourceLine + wants}, lines(found, err))
		if err := c.Reach(within(t, 2*time.Second)); err == nil {
			t.Error("it can be reached")
		}
		if _, err := c.Verify(within(t, 2*time.Second), lookup.Question{SQL: byID}, 1); err == nil || strings.Contains(err.Error(), lookup.ErrQuestion.Error()) {
			t.Errorf("the question is to blame: %v", err)
		}
	}
	t.Run("refuse", func(t *testing.T) {
		t.Parallel()
		fails(t, with(func(u *url.URL) { u.Host, u.User = "127.0.0.1:1", url.UserPassword("u", "s3cret") }), "127.0.0.1:1 (127.0.0.1): dial error: dial tcp 127.0.0.1:1: connect: connection refused")
	})
	t.Run("no such database", func(t *testing.T) {
		t.Parallel()
		fails(t, with(func(u *url.URL) { u.Path = "/nowhere" }), `database "nowhere" does not exist (SQLSTATE 3D000)`)
	})
	t.Run("no such user", func(t *testing.T) {
		t.Parallel()
		fails(t, with(func(u *url.URL) { u.User = url.UserPassword("unknown", "s3cret") }), `role "unknown" does not exist (SQLSTATE 28000)`)
	})
	t.Run("hang", func(t *testing.T) {
		t.Parallel()
		proxy := newProxy(t, at.Host)
		addToxic(t, proxy, "timeout", `{"timeout": 0}`)
		fails(t, with(func(u *url.URL) { u.Host = proxy.Listen }), "no connection was established or became free in time")
	})
	t.Run("hang later", func(t *testing.T) {
		t.Parallel()
		proxy := newProxy(t, at.Host)
		c := with(func(u *url.URL) { u.Host = proxy.Listen })
		if _, err := c.Query(within(t, 10*time.Second), lookup.Question{SQL: byID}, keys(1)); err != nil {
			t.Fatal(err)
		}
		addToxic(t, proxy, "timeout", `{"timeout": 0}`)
		found, err := c.Query(within(t, time.Second), lookup.Question{SQL: byID}, keys(1, 2))
		checkLines(t, []string{sourceLine + "…in time"}, lines(found, err))
	})
	t.Run("drip", func(t *testing.T) {
		t.Parallel()
		proxy := newProxy(t, at.Host)
		c := with(func(u *url.URL) { u.Host = proxy.Listen })
		if _, err := c.Query(within(t, 10*time.Second), lookup.Question{SQL: byID}, keys(1)); err != nil {
			t.Fatal(err)
		}
		addToxic(t, proxy, "slicer", `{"average_size": 1, "size_variation": 0, "delay": 400000}`)
		found, err := c.Query(within(t, time.Second), lookup.Question{SQL: byID}, keys(1, 2))
		checkLines(t, []string{sourceLine + "…in time"}, lines(found, err))
	})
	t.Run("the pool is used up", func(t *testing.T) {
		t.Parallel()
		c := with(func(u *url.URL) { u.RawQuery = "pool_max_conns=1" })
		ctx, stop := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		busy.Go(func() {
			found, err := c.Query(ctx, lookup.Question{SQL: "select pg_sleep(0.9)::text as busy where $1::int > 0"}, slices.Repeat(keys(1), 20))
			if err == nil && found[19].Err == nil {
				t.Error("it was not busy for long enough")
			}
		})
		until(t, "the connection is taken", func() bool {
			return d.queryInt("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%as busy%' AND state = 'active' AND pid <> pg_backend_pid()") == 1
		})
		found, err := c.Query(within(t, 500*time.Millisecond), lookup.Question{SQL: byID}, keys(1, 2))
		checkLines(t, []string{sourceLine + "no connection was established or became free in time"}, lines(found, err))
		stop()
		busy.Wait()
	})
}
