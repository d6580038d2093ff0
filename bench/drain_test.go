package bench_test

import (
	"context"
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

// BenchmarkDrain drains due jobs with the engine and with bare SQL in turn, and prints what
// each round gave. DEADMAN_BENCH_JOBS and DEADMAN_BENCH_ROUNDS size it.
func BenchmarkDrain(b *testing.B) {
	options := bench.Options{
		DatabaseURL: durable(b), Out: os.Stdout,
		Jobs: setting(b, "DEADMAN_BENCH_JOBS", 200_000), Rounds: setting(b, "DEADMAN_BENCH_ROUNDS", 5),
	}
	for b.Loop() {
		ratio, err := bench.Drain(b.Context(), options)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(ratio, "engine/floor")
	}
}
