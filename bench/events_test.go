package bench_test

import (
	"os"
	"testing"

	"deadman/bench"
)

// BenchmarkEvents takes in events, and inserts the same rows bare, in turn, and prints what
// each round gave. DEADMAN_BENCH_JOBS and DEADMAN_BENCH_ROUNDS size it;
// DEADMAN_BENCH_EMBEDDED=1 measures the same on SQLite, too.
func BenchmarkEvents(b *testing.B) {
	options := bench.EventsOptions{
		DatabaseURL: durable(b), Dir: b.TempDir(), Out: os.Stdout,
		Events: setting(b, "DEADMAN_BENCH_JOBS", 100_000), Rounds: setting(b, "DEADMAN_BENCH_ROUNDS", 5),
		Embedded: setting(b, "DEADMAN_BENCH_EMBEDDED", 0) == 1,
	}
	for b.Loop() {
		ratio, err := bench.Events(b.Context(), options)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(ratio, "intake/bare")
	}
}
