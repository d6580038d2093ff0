package bench_test

import (
	"context"
	"testing"

	"deadman/internal/bench"
	"deadman/internal/store/storetest"
)

// A cancelled run returns ErrInterrupted instead of the cancelled operation's error, and leaves nothing behind.
func TestInterrupt(t *testing.T) {
	for name, database := range map[string]string{"sqlite": "", "postgres": storetest.EmptyPostgres(t)} {
		for _, shape := range []bench.Shape{bench.Mixed, bench.Create, bench.Due} {
			ctx, cancel := context.WithCancel(t.Context())
			o := bench.Options{DatabaseURL: database, Dir: t.TempDir(), Shapes: []bench.Shape{shape}, Jobs: 200, Rounds: 1, Nodes: 1, Pending: 2000, Few: 1000}
			o.Measured = func(r bench.Result) {
				if r.Shape == shape {
					cancel()
				}
			}
			if _, err := bench.Run(ctx, o); err == nil || err.Error() != "interrupted" {
				t.Errorf("%s, %s: %v", name, shape, err)
			}
			if _, err := bench.Run(ctx, o); err == nil || err.Error() != "interrupted" {
				t.Errorf("%s, %s, from the start: %v", name, shape, err)
			}
		}
		if database != "" {
			if left := schemas(t, database); left != 0 {
				t.Errorf("%d schemas are left", left)
			}
		}
	}
}
