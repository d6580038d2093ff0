package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// onAllStores runs a test on new databases without tables. reopen opens the same database again.
func onAllStores(t *testing.T, test func(t *testing.T, reopen func(shards int) (*store.Store, error))) {
	for name, options := range map[string]func(testing.TB) store.Options{
		"sqlite":   func(tb testing.TB) store.Options { return store.Options{DataDir: tb.TempDir()} },
		"postgres": func(tb testing.TB) store.Options { return store.Options{DatabaseURL: storetest.EmptyPostgres(tb)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t)
			test(t, func(shards int) (*store.Store, error) {
				o.Shards = shards
				return store.Open(t.Context(), o)
			})
		})
	}
}

func openStore(t *testing.T, reopen func(int) (*store.Store, error), shards int) *store.Store {
	t.Helper()
	s, err := reopen(shards)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func exec(t *testing.T, s *store.Store, text string) {
	t.Helper()
	if _, err := s.DB().ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

func TestShardsAreChosenOnce(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		closeStore(t, openStore(t, reopen, 5))
		s := openStore(t, reopen, 9)
		defer closeStore(t, s)
		if s.Shards() != 5 {
			t.Errorf("%d shards, want the 5 it was created with", s.Shards())
		}
		if leases, err := s.Leases(t.Context()); err != nil || len(leases) != 5 {
			t.Errorf("%d leases: %v", len(leases), err)
		}
	})
}

func TestShardsHaveLimit(t *testing.T) {
	for _, n := range []int{-1, store.MaxShards + 1} {
		if _, err := store.Open(t.Context(), store.Options{DataDir: t.TempDir(), Shards: n}); err == nil {
			t.Errorf("%d shards are accepted", n)
		}
	}
}

func TestSchemaOfNextVersionIsWorkedWith(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 0)
		exec(t, s, `INSERT INTO schema_version (version_id, is_applied) SELECT max(version_id) + 1, is_applied FROM schema_version
WHERE version_id > 0 GROUP BY is_applied`)
		closeStore(t, s)
		s = openStore(t, reopen, 0) // one version newer
		exec(t, s, `INSERT INTO schema_version (version_id, is_applied) SELECT max(version_id) + 1, is_applied FROM schema_version
WHERE version_id > 0 GROUP BY is_applied`)
		closeStore(t, s)
		if _, err := reopen(0); !errors.Is(err, store.ErrSchemaTooNew) { // two versions
			t.Errorf("open: %v, want ErrSchemaTooNew", err)
		}
	})
}

func TestForeignTablesAreRefused(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 0)
		exec(t, s, `DROP TABLE schema_version`)
		closeStore(t, s)
		if _, err := reopen(0); !errors.Is(err, store.ErrForeignSchema) {
			t.Errorf("without a version: %v, want ErrForeignSchema", err)
		}
	})
}

func TestForeignVersionTableIsRefused(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 0)
		exec(t, s, `DROP TABLE future_job`)
		closeStore(t, s)
		if _, err := reopen(0); !errors.Is(err, store.ErrForeignSchema) {
			t.Errorf("without our tables: %v, want ErrForeignSchema", err)
		}
	})
}

func TestDataFolderHasOneProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made for it", "with ? and #")
	first := open(t, store.Options{DataDir: dir})
	if !first.SingleProcess() {
		t.Error("not alone")
	}
	if _, err := os.Stat(filepath.Join(dir, store.DatabaseFile)); err != nil {
		t.Error(err)
	}
	_, err := store.Open(t.Context(), store.Options{DataDir: dir})
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second one: %v, want ErrLocked that names %s", err, dir)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := store.Open(t.Context(), store.Options{DataDir: dir})
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	closeStore(t, second)
}

func TestMissingDatabaseIsUnavailable(t *testing.T) {
	const addr = "127.0.0.1:1" // without a server
	_, err := store.Open(t.Context(), store.Options{DatabaseURL: "postgres://me:secret@" + addr + "/x?sslmode=disable"})
	if !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "secret") ||
		strings.ContainsAny(err.Error(), "\n\t") || strings.Count(err.Error(), addr) != 1 {
		t.Errorf("open: %v, want ErrUnavailable on one line, with the address once and without the password", err)
	}
}

func TestRefusingDatabaseGivesReason(t *testing.T) {
	dsn := storetest.Postgres(t)
	for name, url := range map[string]string{
		"no such database": strings.Replace(dsn, "/test_", "/no_test_", 1),
		"no such user":     strings.Replace(dsn, "postgres@", "nobody_here@", 1),
	} {
		if url == dsn {
			t.Skipf("the DSN in %s cannot be bent into one that is wrong", storetest.Environment)
		}
		if _, err := store.Open(t.Context(), store.Options{DatabaseURL: url}); !errors.Is(err, store.ErrDenied) {
			t.Errorf("%s: %v, want ErrDenied", name, err)
		}
	}
	if _, err := store.Open(t.Context(), store.Options{DatabaseURL: "postgres://me:secret@host:port/x"}); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("a URL that is none: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Open(ctx, store.Options{DatabaseURL: dsn}); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
}

func TestInvalidDatabaseURLIsReported(t *testing.T) {
	for _, text := range []string{
		"mysql://me:secret@host/x", "postgres://me:se%cret@host/x", "postgres://me:secret@host:port/x",
		"me:secret@host", "postgres://me:secret@host/x?sslmode=secret",
	} {
		_, err := store.Open(t.Context(), store.Options{DatabaseURL: text})
		if err == nil || errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("%s: %v", text, err)
		}
		message := err.Error()
		if !strings.Contains(message, "DEADMAN_DATABASE_URL") || !strings.Contains(message, "postgres://user:password@host:5432/database") ||
			strings.Contains(message, "cret") {
			t.Errorf("%s: %s", text, message)
		}
	}
}

func TestDatabaseURLWithBadEscapeGivesPosition(t *testing.T) {
	_, err := store.Open(t.Context(), store.Options{DatabaseURL: "postgres://me:s3cr%zzet@host/x", URLName: "--database-url"})
	if err == nil || !strings.HasPrefix(err.Error(), "--database-url ") || !strings.Contains(err.Error(), "%25") || strings.Contains(err.Error(), "s3c") {
		t.Errorf("open: %v", err)
	}
}

func TestDatabaseURLOfAnotherProtocolIsRefused(t *testing.T) {
	for _, mode := range []string{"exec", "simple_protocol"} {
		_, err := store.Open(t.Context(), store.Options{DatabaseURL: "postgres://me:secret@127.0.0.1:1/x?default_query_exec_mode=" + mode})
		if err == nil || errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "cache_describe") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestInvalidDatabaseFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, store.DatabaseFile)
	if err := os.WriteFile(file, []byte(strings.Repeat("no database, but long enough ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := store.Open(t.Context(), store.Options{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("open: %v", err)
	}
}

// TestProgramsOfPostgresAreChosen checks that a cluster has the programs of the chosen folder, and that a folder without
// them is an error.
func TestProgramsOfPostgresAreChosen(t *testing.T) {
	t.Setenv(storetest.ProgramsEnvironment, "/usr/lib/postgresql/none/bin")
	c, err := storetest.StartCluster(storetest.Settings{})
	if err == nil {
		err = c.Stop()
	}
	if err == nil || !strings.Contains(err.Error(), "/usr/lib/postgresql/none/bin, which has no program initdb") {
		t.Errorf("the error is %v", err)
	}
}
