package bench

import (
	"testing"
	"time"

	"deadman/internal/store/storetest"
)

// While an old transaction is open, the server keeps deleted rows; afterwards it removes them.
func TestOldSnapshot(t *testing.T) {
	g, err := openPostgres(t.Context(), storetest.EmptyPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := saveRules(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if err := g.fill(t.Context(), Finish, 1000, time.Duration(0)); err != nil {
		t.Fatal(err)
	}
	release, err := g.openOldSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	left := func() (bytes int64) {
		t.Helper()
		if err := execute(t.Context(), g.pool, `DELETE FROM future_job`, `VACUUM future_job`); err != nil {
			t.Fatal(err)
		}
		if err := g.pool.QueryRow(t.Context(), `SELECT pg_relation_size('future_job')`).Scan(&bytes); err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	if left() == 0 {
		t.Error("what is gone is forgotten beside the old transaction")
	}
	if err := release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := left(); n > 0 {
		t.Errorf("%d bytes are left after it", n)
	}
}
