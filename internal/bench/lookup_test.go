package bench_test

import (
	"os"
	"testing"

	"deadman/internal/bench"
)

// BenchmarkLookup drains due jobs that are looked up in a table, and ones that are not, in turn,
// and prints what each round gave. DEADMAN_BENCH_JOBS, DEADMAN_BENCH_ORDERS and
// DEADMAN_BENCH_ROUNDS size it.
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
