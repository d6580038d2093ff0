package bench_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"deadman/bench"
	"deadman/store/storetest"
)

// setting is a number from the environment, or its default.
func setting(b *testing.B, name string, value int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return value
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return n
}

// durable starts a Postgres that writes to disk as in production, with an empty database.
func durable(b *testing.B) (dsn string) {
	b.Helper()
	cluster, err := storetest.StartCluster(storetest.Settings{Durable: true, Options: []string{
		"shared_buffers=1GB", "max_wal_size=4GB", "checkpoint_timeout=15min",
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			b.Error(err)
		}
	})
	conn, err := pgx.Connect(b.Context(), cluster.DSN)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(b.Context(), `CREATE DATABASE bench`); err != nil {
		b.Fatal(err)
	}
	return cluster.Database("bench")
}

// BenchmarkShapes does the work of each shape with the engine and with bare SQL in turn, and prints
// what each round gave. DEADMAN_BENCH_JOBS and DEADMAN_BENCH_ROUNDS size it; deadman bench is the
// same for everybody's database.
func BenchmarkShapes(b *testing.B) {
	options := bench.Options{
		DatabaseURL: durable(b), Shapes: bench.Shapes,
		Jobs: setting(b, "DEADMAN_BENCH_JOBS", 200_000), Rounds: setting(b, "DEADMAN_BENCH_ROUNDS", 5),
		Measured: func(r bench.Result) { fmt.Println(r) },
	}
	for b.Loop() {
		results, err := bench.Run(b.Context(), options)
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range bench.Summarize(results) {
			b.ReportMetric(s.OfFloor, string(s.Shape)+"-"+s.Way+"/floor")
		}
	}
}

// What is measured is done, by every way and on both databases, and nothing of it is left.
func TestRun(t *testing.T) {
	for name, o := range map[string]bench.Options{
		"sqlite":   {Dir: t.TempDir(), Jobs: 500, Rounds: 2, Nodes: 1},
		"postgres": {DatabaseURL: storetest.Postgres(t), Jobs: 2000, Rounds: 1, Nodes: 3},
	} {
		t.Run(name, func(t *testing.T) {
			o.Shapes = bench.Shapes
			told := 0
			o.Measured = func(bench.Result) { told++ }
			results, err := bench.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			ways := 2
			if o.Nodes > 1 {
				ways = 3
			}
			if want := len(bench.Shapes) * ways * o.Rounds; len(results) != want || told != want {
				t.Errorf("%d results, %d told, want %d", len(results), told, want)
			}
			for _, s := range bench.Summarize(results) {
				t.Logf("%+v", s)
				if s.Rate <= 0 || s.Least > s.Rate || s.Most < s.Rate || s.OfFloor <= 0 || (s.WAL > 0) != (name == "postgres") {
					t.Errorf("%+v", s)
				}
			}
			if name == "postgres" {
				if left := schemas(t, o.DatabaseURL); left != 0 {
					t.Errorf("%d schemas are left", left)
				}
			}
		})
	}
}

func schemas(t *testing.T, database string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'deadman_bench%'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
