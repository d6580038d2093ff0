package store_test

import (
	"testing"

	"deadman/store"
	"deadman/store/storetest"
)

func TestAccessOnSQLite(t *testing.T) {
	storetest.RunAccess(t, func(tb testing.TB) *store.Store {
		return open(tb, store.Options{DataDir: tb.TempDir()})
	})
}

func TestAccessOnPostgres(t *testing.T) {
	storetest.RunAccess(t, func(tb testing.TB) *store.Store {
		return open(tb, store.Options{DatabaseURL: storetest.Postgres(tb)})
	})
}
