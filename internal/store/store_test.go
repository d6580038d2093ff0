package store_test

import (
	"testing"

	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) *store.Store {
		return open(tb, store.Options{DataDir: storetest.DataDir(tb)})
	})
}

// TestPostgres runs the suite through a recorder, to check the statements afterwards.
func TestPostgres(t *testing.T) {
	wire := storetest.NewWire(t)
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(tb testing.TB) *store.Store {
			return open(tb, store.Options{DatabaseURL: wire.Postgres(tb)})
		})
	})
	t.Run("shards", func(t *testing.T) { checkMaxShards(t, wire) })
	for name, check := range map[string]func(*testing.T, []string){"texts": checkAllTextsSent, "grammar": checkStatementsPortable} {
		t.Run(name, func(t *testing.T) {
			sent := wire.Sent()
			if len(sent) == 0 {
				t.Fatal("nothing was sent; this test needs the statements of the suite, so run all of TestPostgres")
			}
			check(t, sent)
		})
	}
}

// TestConcurrentUse is the part of the suite that runs with the race detector: see unraced in internal/tools/loop.
func TestConcurrentUse(t *testing.T) {
	for name, options := range map[string]func(testing.TB) store.Options{
		"sqlite":   func(tb testing.TB) store.Options { return store.Options{DataDir: storetest.DataDir(tb)} },
		"postgres": func(tb testing.TB) store.Options { return store.Options{DatabaseURL: storetest.Postgres(tb)} },
	} {
		t.Run(name, func(t *testing.T) {
			storetest.RunConcurrent(t, func(tb testing.TB) *store.Store { return open(tb, options(tb)) })
		})
	}
}

// checkMaxShards opens a database without tables, and then the existing database.
func checkMaxShards(t *testing.T, wire *storetest.StatementRecorder) {
	o := store.Options{DatabaseURL: wire.EmptyPostgres(t), Shards: store.MaxShards}
	for range 2 {
		if g, err := open(t, o).Gauges(t.Context()); err != nil || g != (store.Gauges{}) {
			t.Errorf("gauges of nothing: %+v, %v", g, err)
		}
	}
}

// open opens a store until the test ends.
func open(tb testing.TB, o store.Options) *store.Store {
	tb.Helper()
	s, err := store.Open(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}
