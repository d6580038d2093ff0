package bench_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"deadman/internal/bench"
	"deadman/internal/store/storetest"
)

// Schemas left by earlier runs are listed with their sizes and not dropped. Schemas with similar names are ignored.
func TestLeftoverSchemasAreListed(t *testing.T) {
	dsn := storetest.EmptyPostgres(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // the test has its result already
	if _, err := conn.Exec(t.Context(), `CREATE SCHEMA deadman_bench_0123abcd; CREATE SCHEMA deadman_bench_of_mine; CREATE SCHEMA deadman_bench_00000000;
		CREATE TABLE deadman_bench_0123abcd.full AS SELECT repeat('x', 1000) FROM generate_series(1, 3000); CREATE VIEW deadman_bench_0123abcd.v AS SELECT 1`); err != nil {
		t.Fatal(err)
	}
	if err := runFinish(t, dsn); err != nil {
		t.Fatal(err)
	}
	s, err := bench.ReadServer(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Left) != 2 || s.Left[0] != (bench.Left{Schema: "deadman_bench_00000000"}) || s.Left[1].Schema != "deadman_bench_0123abcd" || s.Left[1].Bytes>>20 != 3 {
		t.Errorf("left: %+v", s.Left)
	}
	if c := conn.Config(); s.Database != c.Database || !strings.Contains(s.Address, c.Host) || s.Version < "1" {
		t.Errorf("%+v", s)
	}
}
