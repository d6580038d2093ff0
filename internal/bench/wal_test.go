package bench_test

import (
	"testing"

	"deadman/internal/bench"
	"deadman/internal/store/storetest"
)

// What a finished job may write to the log of a Postgres, in bytes.
const (
	// leanestWAL is what the leanest rows of use write: bare SQL takes jobs by SKIP LOCKED, and one statement
	// deletes each and writes a row of history and an alert of 40 bytes that is named by a number. Measured
	// as here, right after a checkpoint, with 200,000 jobs whose bodies have 200 bytes.
	leanestWAL = 867
	mostWAL    = leanestWAL * 3 / 2

	// walJobs write walShorter less each than 200,000 do: keys have a digit less, in two rows, two indexes and
	// a document, and fewer pages of the indexes are split.
	walJobs    = 20_000
	walShorter = 26

	pageBytes = 8 << 10
)

// The log of a finished job is as lean as is promised. Nothing but the drain writes to it: the server
// neither vacuums nor makes checkpoints by itself.
//
// Each page of jobs is logged as a whole when its first job goes. Those pages are counted where bare SQL
// goes over them once: where the server has checksums, they are more with an engine whose next sweep comes by
// before the measuring ends.
func TestWALOfAFinishedJob(t *testing.T) {
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
	if most := int64(mostWAL - walShorter); each > most {
		t.Errorf("a finished job writes %d B of WAL, want up to %d; are its rows wider, or are there more of them?", each, most)
	}
}
