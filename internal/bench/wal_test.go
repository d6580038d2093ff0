package bench_test

import (
	"testing"

	"deadman/internal/bench"
	"deadman/internal/store/storetest"
)

// The maximum size of the log that a finished job writes to a Postgres, in bytes.
const (
	// leanestWAL is the log of the smallest useful rows: plain SQL selects jobs with SKIP LOCKED, and one statement
	// deletes each and writes a history row and an alert of 40 bytes with a numeric id. It was measured as in this
	// test, right after a checkpoint, with 200,000 jobs with bodies of 200 bytes.
	leanestWAL = 867
	mostWAL    = leanestWAL * 3 / 2

	// walJobs write walShorter bytes less each than 200,000 jobs do: keys are a digit shorter, in two rows, two indexes
	// and a document, and fewer index pages are split.
	walJobs    = 20_000
	walShorter = 26

	pageBytes = 8 << 10
)

// The log of a finished job stays within its limit. Only the drain writes to it: the server neither vacuums nor makes
// checkpoints by itself.
//
// Each page of jobs is logged as a whole at the first change of one of its jobs. These pages are counted with plain
// SQL, which passes them once: on a server with checksums the engine logs more of them if its next sweep begins before
// the measurement ends.
func TestWALOfFinishedJob(t *testing.T) {
	cluster, err := storetest.StartCluster(storetest.Settings{Durable: true, Options: []string{
		"autovacuum=off", "checkpoint_timeout=1d", "max_wal_size=16GB", "wal_compression=off",
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	results, err := bench.Run(t.Context(), bench.Options{
		DatabaseURL: cluster.DSN, Shapes: []bench.Shape{bench.Finish}, Jobs: walJobs, Rounds: 1, Nodes: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	floor, engine := results[0], results[1]
	if floor.Way != bench.Floor || engine.Way != bench.Engine || floor.Images == 0 || engine.Images < floor.Images {
		t.Fatalf("what was measured is\n%v\n%v", floor, engine)
	}
	pages := floor.Images * pageBytes / walJobs
	each := engine.WAL/walJobs - engine.Images*pageBytes/walJobs + pages
	t.Logf("%d B of WAL a finished job, %d of it whole pages\n%v\n%v", each, pages, floor, engine)
	if limit := int64(mostWAL - walShorter); each > limit {
		t.Errorf("a finished job writes %d B of WAL, want up to %d; are its rows wider, or are there more of them?", each, limit)
	}
}
