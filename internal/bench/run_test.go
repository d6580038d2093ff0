package bench_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"deadman/internal/bench"
	"deadman/internal/store/storetest"
)

// setting returns a number from the environment, or its default.
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

// durable starts a Postgres with production settings for durability, with an empty database.
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

// BenchmarkShapes does the work of each shape with the engine and with plain SQL, alternating, and prints the result of
// each round. DEADMAN_BENCH_JOBS and DEADMAN_BENCH_ROUNDS set its size; deadman bench does the same on a user's
// database.
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

// Every way does its work on both databases and leaves nothing behind.
func TestRun(t *testing.T) {
	for name, o := range map[string]bench.Options{
		"sqlite":   {Jobs: 500, Rounds: 1, Nodes: 1, Pending: 2000, Few: 1000},
		"postgres": {DatabaseURL: storetest.EmptyPostgres(t), Jobs: 2000, Rounds: 1, Nodes: 3, Pending: 20_000, Few: 5000},
		"postgres, old snapshot": {
			DatabaseURL: storetest.EmptyPostgres(t), Shapes: []bench.Shape{bench.Finish}, Jobs: 2000, Rounds: 2, Nodes: 1, Pending: 1, OldSnapshot: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if len(o.Shapes) == 0 {
				o.Shapes = bench.Shapes
			}
			o.Dir = t.TempDir()
			reported, want, put := 0, 1, 0 // one result is that of the pending jobs
			o.Measured = func(r bench.Result) { reported++; t.Log(r) }
			o.Progress = func(what string, done, _ int) {
				if what == "pending jobs" {
					put = max(put, done)
				}
			}
			results, err := bench.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range o.Shapes {
				want += o.WaysOf(s) * o.Rounds
			}
			if len(results) != want || reported != want || put < o.Pending {
				t.Errorf("%d results, %d reported, want %d; %d jobs that wait are put in, want %d", len(results), reported, want, put, o.Pending)
			}
			for _, s := range bench.Summarize(results) {
				if s.Shape == bench.Backlog {
					continue
				}
				wal := o.DatabaseURL != "" && s.Shape != bench.Due && s.Shape != bench.Latency
				if s.Rate <= 0 || s.Least > s.Rate || s.Most < s.Rate || s.OfFloor <= 0 || s.Memory < 1<<20 || (s.WAL > 0) != wal {
					t.Errorf("%+v", s)
				}
			}
			for _, r := range results {
				checkLacks(t, o, r)
			}
			if o.DatabaseURL != "" {
				if left := schemas(t, o.DatabaseURL); left != 0 {
					t.Errorf("%d schemas are left", left)
				}
			}
		})
	}
}

// idleMost is the maximum number of pages that a sweep touches per shard if nothing is left to do, also while the
// database cannot remove deleted rows.
const idleMost = 10

// checkLacks fails the test for missing values of a result.
func checkLacks(t *testing.T, o bench.Options, r bench.Result) {
	t.Helper()
	switch r.Shape {
	case bench.Backlog:
		if r.Jobs != o.Pending || r.Took <= 0 {
			t.Errorf("%v", r)
		}
	case bench.Due:
		if r.P50 <= 0 || r.P99 < r.P50 || (r.Buffers > 0) != (o.DatabaseURL != "") {
			t.Errorf("%v", r)
		}
	case bench.Latency:
		if r.P50 <= 0 || r.P99 < r.P50 || r.Most < r.P99 {
			t.Errorf("%v", r)
		}
	case bench.Create, bench.Events:
		if r.CPU <= 0 || r.Idle > 0 {
			t.Errorf("%v", r)
		}
	default:
		if idles := o.OldSnapshot && r.Way != bench.Floor; (r.Idle > 0) != idles || r.Idle > idleMost {
			t.Errorf("%v: it should touch up to %d pages", r, idleMost)
		}
	}
}

// A due job scattered among pending ones costs about a page of log, and otherwise far less.
func TestScattered(t *testing.T) {
	cluster, err := storetest.StartCluster(storetest.Settings{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for _, scattered := range []bool{true, false} {
		results, err := bench.Run(t.Context(), bench.Options{
			DatabaseURL: cluster.DSN, Shapes: []bench.Shape{bench.Finish}, Jobs: 1000, Rounds: 1, Nodes: 1, Pending: 1000 * bench.ScatteredAt, Scattered: scattered,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results[1:] { // the first result is that of the pending jobs
			t.Log(scattered, r)
			if apart := 10*r.Images > 7*int64(r.Jobs); apart != scattered || r.Images == 0 {
				t.Errorf("scattered %v: %v", scattered, r)
			}
		}
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
