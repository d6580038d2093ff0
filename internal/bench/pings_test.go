package bench_test

import (
	"os"
	"testing"

	"deadman/internal/bench"
)

// BenchmarkPings sends pings over HTTP to the embedded store, and writes the same rows bare, in
// turn, and prints what each round gave. DEADMAN_BENCH_JOBS is how many keys ping,
// DEADMAN_BENCH_PINGS how many pings they send, and DEADMAN_BENCH_CONNECTIONS over how many
// connections; DEADMAN_BENCH_ROUNDS is how often.
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
