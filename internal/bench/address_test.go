package bench_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"deadman/internal/bench"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// runFinish measures a few jobs on a database.
func runFinish(t *testing.T, database string) error {
	t.Helper()
	_, err := bench.Run(t.Context(), bench.Options{DatabaseURL: database, Shapes: []bench.Shape{bench.Finish}, Jobs: 100, Rounds: 1, Nodes: 1})
	return err
}

// with returns a URL with an additional parameter.
func with(address, parameter string) string {
	if strings.Contains(address, "?") {
		return address + "&" + parameter
	}
	return address + "?" + parameter
}

// The error for an invalid URL has the flag and the remedy, and never the password.
func TestInvalidAddress(t *testing.T) {
	const exampleURL = "postgres://user:password@host:5432/database"
	for address, want := range map[string]string{
		"postgres://u:s3cr%zzet@h/x":    exampleURL,
		"mysql://u:s3cret@h/x":          `begins with "mysql://"`,
		"postgres://u:s3c/ret@h:port/x": exampleURL,
		"u:s3cret@h/x":                  exampleURL,
		"postgres://u:s3cret@127.0.0.1:1/x?default_query_exec_mode=exec":       "cache_describe",
		"postgres://u:s3cret@nowhere.invalid/x":                                "is it running, and is --database-url right?",
		"host=127.0.0.1 port=1 user=u password=a://s3cret%zz dbname=x":         "is it running",
		"postgres://u:s3cret@127.0.0.1:1,127.0.0.1:2/x?search_path=somebodies": "is it running",
	} {
		err := runFinish(t, address)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--database-url") ||
			strings.Contains(err.Error(), "DEADMAN_DATABASE_URL") || strings.Contains(err.Error(), "s3c") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", address, err, want)
		}
	}
}

// The error for a server that refuses has the server's message and the remedy, and no schema is left.
func TestServerRefusesSchema(t *testing.T) {
	dsn := storetest.EmptyPostgres(t)
	guest := strings.Replace(dsn, "postgres@", "bench%20guest@", 1)
	if guest == dsn {
		t.Skipf("the DSN in %s is not one of postgres without a password", storetest.Environment)
	}
	if err := runFinish(t, strings.Replace(dsn, "/test_", "/no_test_", 1)); !errors.Is(err, store.ErrDenied) || !strings.Contains(err.Error(), "create the database") {
		t.Errorf("no such database: %v", err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // the test has its result already
	if _, err := conn.Exec(t.Context(), `CREATE ROLE "bench guest" LOGIN; ALTER ROLE "bench guest" SET default_transaction_read_only = off`); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := conn.Exec(t.Context(), `DROP ROLE "bench guest"`); err != nil {
			t.Error(err)
		}
	}()
	if err := runFinish(t, guest); err == nil || !strings.Contains(err.Error(), "GRANT CREATE ON DATABASE "+conn.Config().Database+` TO "bench guest"`) {
		t.Errorf("no right to create a schema: %v", err)
	}
	if _, err := conn.Exec(t.Context(), `ALTER ROLE "bench guest" SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	if err := runFinish(t, guest); err == nil || !strings.Contains(err.Error(), "give the primary") {
		t.Errorf("a server that only reads: %v", err)
	}
	if err := runFinish(t, with(dsn, "default_query_exec_mode=exec")); err == nil || !strings.Contains(err.Error(), "--database-url: default_query_exec_mode") {
		t.Errorf("a mode that can't be: %v", err)
	}
	if err := runFinish(t, with(dsn, "search_path=public")); err != nil {
		t.Errorf("a search_path of one's own: %v", err)
	}
	if left := schemas(t, dsn); left != 0 {
		t.Errorf("%d schemas are left", left)
	}
}
