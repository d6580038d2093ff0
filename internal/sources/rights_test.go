package sources_test

import (
	"context"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"deadman/checks/lookup"
	"deadman/internal/sources"
)

// locks returns the number of advisory locks in the database.
func (d *database) locks() int {
	return d.queryInt(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
}

// A session's advisory lock outlives its transaction, and could block jobs of the database's owner.
func TestLookupLeavesNoLockBehind(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	c := d.singleConnSource()
	for name, queries := range map[string][]lookup.KeyQuery{
		"all of them are answered": keys(1, 2, 3),
		"one fails":                keys(1, "a", 3),
		"the first of two fails":   keys("a", 3),
		"one query for each":       keys("a", 2, "b", 4),
	} {
		q := lookup.Question{SQL: "select pg_advisory_lock(42)::text as v, pg_advisory_lock_shared(43)::text as w, id from orders where id = $1::text::bigint"}
		found, err := c.Query(within(t, 10*time.Second), q, queries)
		if err != nil || len(found) != len(queries) {
			t.Fatalf("%s: %v", name, err)
		}
		answered := 0
		for _, f := range found {
			if f.Err == nil && strings.Contains(string(f.Value), `"id":`) {
				answered++
			}
		}
		if answered == 0 {
			t.Errorf("%s: the query takes no lock: %v", name, lines(found, err))
		}
		if left := d.locks(); left != 0 {
			t.Errorf("%s: %d locks are left", name, left)
		}
	}
}

// A connection that is closed midway releases its locks.
func TestVastLookupLeavesNoLockBehind(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	q := lookup.Question{SQL: "select pg_advisory_lock(42)::text || repeat('a', 2000000) as v from orders where id = $1"}
	if _, err := d.singleConnSource().Query(within(t, 10*time.Second), q, keys(1)); err != nil {
		t.Fatal(err)
	}
	late := within(t, time.Minute).Done()
	for d.locks() != 0 {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			t.Fatal("a lock is left")
		}
	}
}

// A user with excess permissions causes a warning once a connection exists.
func TestExcessivePermissionsAreReported(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	for grants, wantTexts := range map[string][]string{
		"": nil,
		"GRANT pg_read_server_files TO %; GRANT pg_execute_server_program TO %": {"pg_execute_server_program and pg_read_server_files", "select"},
		"ALTER ROLE % SUPERUSER": {"is a superuser", "select"},
	} {
		role := "deadman_test_" + uuid.NewString()[:8]
		d.run("CREATE ROLE " + role + " LOGIN PASSWORD 'secret'")
		t.Cleanup(func() { _, _ = d.conn.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+role) }) // the server is only for tests
		d.run(strings.ReplaceAll(grants, "%", role))
		u, err := url.Parse(d.dsn)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "secret")
		c := open(t, sources.Spec{Postgres: &sources.Postgres{URL: u.String()}})
		cautious, ok := c.(lookup.Cautious)
		if !ok || cautious.Caution() != "" {
			t.Fatal("it knows what its user may do without a connection")
		}
		if err := c.Reach(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		got := cautious.Caution()
		if wantTexts == nil && got != "" || wantTexts != nil && !strings.Contains(got, role) {
			t.Errorf("%q: %q", grants, got)
		}
		for _, part := range wantTexts {
			if !strings.Contains(got, part) {
				t.Errorf("%q: %q does not contain %q", grants, got, part)
			}
		}
	}
}

// By default lookups of one user can end each other. The documented statement revokes only that permission.
func TestDocumentedLookupStatement(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	statement := regexp.MustCompile(`(?m)^ *(REVOKE EXECUTE .*;)$`).FindSubmatch(text)
	if statement == nil {
		t.Fatal("docs/reference/sources.md has no statement")
	}
	d := newDatabase(t)
	role := "deadman_test_" + uuid.NewString()[:8]
	d.run("CREATE ROLE " + role + " LOGIN PASSWORD 'secret'")
	t.Cleanup(func() { // the server is only for tests
		for _, sql := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := d.conn.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
				t.Error(err)
			}
		}
	})
	d.run("GRANT SELECT ON orders TO " + role)
	u, err := url.Parse(d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "secret")
	c := open(t, sources.Spec{Postgres: &sources.Postgres{URL: u.String(), StatementTimeout: 10 * time.Second}})
	send := func(ctx context.Context, sql string) error {
		found, err := c.Query(ctx, lookup.Question{SQL: sql}, keys(1))
		if err == nil && len(found) == 1 {
			err = found[0].Err
		}
		return err
	}
	attack := func(function string) (first, attacker error) {
		t.Helper()
		ended := make(chan error, 1)
		go func() {
			ended <- send(within(t, 20*time.Second), "select pg_sleep(2)::text as v, '"+function+"' as marks where $1::int = 1")
		}()
		for late := within(t, 10*time.Second); d.queryInt(`SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(2)%' AND usename = '`+role+"'") == 0; {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-late.Done():
				t.Fatal("no lookup is at work")
			}
		}
		// An idle connection has the text of its last query, which may be that of an earlier attack.
		attacker = send(within(t, 10*time.Second), "select "+function+"(pid)::text as v from pg_stat_activity "+
			"where state = 'active' and query like '%pg_sleep(2)%' and pid <> pg_backend_pid() and usename = current_user and $1::int = 1 limit 1")
		return <-ended, attacker
	}
	functions := []string{"pg_terminate_backend", "pg_cancel_backend"}
	for _, function := range functions {
		first, attacker := attack(function)
		for range 4 { // on a busy machine, the first lookup may end before the attack
			if first != nil {
				break
			}
			first, attacker = attack(function)
		}
		if first == nil || attacker != nil {
			t.Fatalf("%s: the first lookup ends with %v, the other with %v; the test attacks nothing", function, first, attacker)
		}
	}
	d.run(string(statement[1]))
	for _, function := range functions {
		first, attacker := attack(function)
		if first != nil || attacker == nil || !strings.Contains(attacker.Error(), "permission denied for function "+function) {
			t.Errorf("%s: the first lookup ends with %v, the other with %v", function, first, attacker)
		}
	}
	if err := send(within(t, 10*time.Second), byID); err != nil {
		t.Errorf("an honest lookup: %v", err)
	}
}

// BenchmarkLookup measures one round trip, for one key and for a batch.
func BenchmarkLookup(b *testing.B) {
	d := newDatabase(b)
	c := d.singleConnSource()
	for name, queries := range map[string][]lookup.KeyQuery{"one": keys(1), "batch": manyKeys(lookup.BatchMost)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.Query(b.Context(), lookup.Question{SQL: byID}, queries); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func manyKeys(n int) []lookup.KeyQuery {
	all := make([]lookup.KeyQuery, n)
	for i := range all {
		all[i].Params = []any{i + 1}
	}
	return all
}
