package bench_test

import (
	"os"
	"testing"

	"deadman/internal/bench"
)

// BenchmarkPings sends HTTP pings to the embedded store, and writes the same rows with plain SQL, alternating, and
// prints the result of each round. DEADMAN_BENCH_JOBS is the number of keys, DEADMAN_BENCH_PINGS the number of pings,
// DEADMAN_BENCH_CONNECTIONS the number of connections, and DEADMAN_BENCH_ROUNDS the number of rounds.
func BenchmarkPings(b *testing.B) {
	for b.Loop() {
		rate, ratio, err := bench.Pings(b.Context(), bench.PingsOptions{
			Dir: b.TempDir(), Out: os.Stdout,
			Pings: setting(b, "DEADMAN_BENCH_PINGS", 50_000), Keys: setting(b, "DEADMAN_BENCH_JOBS", 1000),
			Connections: setting(b, "DEADMAN_BENCH_CONNECTIONS", 256), Rounds: setting(b, "DEADMAN_BENCH_ROUNDS", 5),
		})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(rate, "pings/s")
		b.ReportMetric(ratio, "pings/bare")
	}
}
