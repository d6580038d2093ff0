package storetest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Environment is the variable with the DSN of a superuser that may create databases. It is set if a cluster runs
// already; otherwise tests start their own.
const Environment = "DEADMAN_TEST_DATABASE_URL"

// shared is the cluster of this process, started by the first caller. It ends with the process.
var shared = sync.OnceValues(func() (string, error) {
	if dsn := os.Getenv(Environment); dsn != "" {
		return dsn, nil
	}
	c, err := StartCluster(Settings{})
	if err != nil {
		return "", err
	}
	return c.DSN, nil
})

// Postgres returns the DSN of a new database, to be dropped at the end of the test.
func Postgres(tb testing.TB) string {
	tb.Helper()
	super, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	name := "test_" + uuid.NewString()[:8]
	if err := execute(super, "CREATE DATABASE "+name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := execute(super, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
	})
	dsn, err := withDatabase(super, name)
	if err != nil {
		tb.Fatal(err)
	}
	return dsn
}

// withDatabase returns the DSN of another database of the same server.
func withDatabase(dsn, name string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" {
		return "", fmt.Errorf("%s has to be a URL, such as postgres://postgres@127.0.0.1:5432/postgres", Environment)
	}
	u.Path = "/" + name
	return u.String(), nil
}

func execute(dsn, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("test database: %w", err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, statement); err != nil {
		return fmt.Errorf("test database: %w", err)
	}
	return nil
}

// ready reports whether a server accepts connections.
func ready(dsn string) bool { return execute(dsn, "SELECT 1") == nil }
