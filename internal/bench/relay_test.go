package bench_test

import (
	"os"
	"testing"

	"deadman/internal/bench"
)

// BenchmarkRelay relays alerts, and publishes the same messages in bare batches, alternating, and prints the result of
// each round. DEADMAN_BENCH_JOBS and DEADMAN_BENCH_ROUNDS set its size.
func BenchmarkRelay(b *testing.B) {
	options := bench.RelayOptions{
		DatabaseURL: durable(b), Dir: b.TempDir(), Out: os.Stdout,
		Alerts: setting(b, "DEADMAN_BENCH_JOBS", 50_000), Rounds: setting(b, "DEADMAN_BENCH_ROUNDS", 5),
	}
	for b.Loop() {
		ratio, err := bench.Relay(b.Context(), options)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(ratio, "relay/bare")
	}
}
