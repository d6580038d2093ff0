package bench_test

import (
	"os"
	"testing"

	"deadman/internal/bench"
)

// BenchmarkLookup drains due jobs with and without a lookup, alternating, and prints the result of each round.
// DEADMAN_BENCH_JOBS, DEADMAN_BENCH_ORDERS and DEADMAN_BENCH_ROUNDS set its size.
func BenchmarkLookup(b *testing.B) {
	options := bench.LookupOptions{
		DatabaseURL: durable(b), Out: os.Stdout,
		Jobs: setting(b, "DEADMAN_BENCH_JOBS", 100_000), Rounds: setting(b, "DEADMAN_BENCH_ROUNDS", 5),
		Orders: setting(b, "DEADMAN_BENCH_ORDERS", 1_000_000),
	}
	for b.Loop() {
		ratio, batches, err := bench.Lookup(b.Context(), options)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(ratio, "lookup/bare")
		b.ReportMetric(float64(batches), "batches")
	}
}
