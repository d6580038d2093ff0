package store_test

import (
	"testing"

	"deadman/store"
	"deadman/store/storetest"
)

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) *store.Store {
		return open(tb, store.Options{DataDir: tb.TempDir()})
	})
}

func TestPostgres(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) *store.Store {
		return open(tb, store.Options{DatabaseURL: storetest.Postgres(tb)})
	})
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
