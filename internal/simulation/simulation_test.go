package simulation_test

import (
	"flag"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/internal/store/storetest"
	"deadman/internal/testdisk"
)

var (
	firstSeed   = flag.Uint64("seed", 1, "first seed of TestSeeds")
	seedCount   = flag.Uint64("seeds", 40, "number of seeds of TestSeeds")
	serverSeeds = flag.Uint64("server-seeds", 6, "number of seeds of TestSeedsOnPostgres")
	replayCount = flag.Uint64("replays", 5, "number of seeds of TestSeedsReplay")
	shrinks     = flag.Bool("shrink", true, "shorten the plan of a breach")
	withStory   = flag.Bool("story", false, "print the story of each seed")
)

// TestMain runs the goroutines of all nodes on one thread: those that wake at the same moment run in the same order each time.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(testdisk.InMemory(m).Run())
}

// TestSeeds plays seeds and judges them, until one has a breach. It is shown with the story of the shortest plan that has one.
func TestSeeds(t *testing.T) { playSeeds(t, onSQLite, *seedCount) }

// TestSeedsOnPostgres is TestSeeds on a Postgres server. Its answers come in real time, so calls of the same moment may run in
// another order the next time.
func TestSeedsOnPostgres(t *testing.T) { playSeeds(t, storetest.VirtualPostgres, *serverSeeds) }

func playSeeds(t *testing.T, on newDatabase, count uint64) {
	counts, began := make(map[string]int), time.Now()
	for seed := *firstSeed; seed < *firstSeed+count; seed++ {
		w := play(t, draw(seed), on)
		total(counts, w.counts)
		if *withStory {
			t.Logf("seed %d\n%s", seed, strings.Join(w.story, "\n"))
		}
		if len(w.breaches) > 0 {
			t.Logf("seed %d: %s", seed, strings.Join(w.breaches, "\n"))
			if *shrinks {
				w = shrink(t, w, on)
			}
			t.Fatalf("seed %d: %s\n%s", seed, strings.Join(w.breaches, "\n"), strings.Join(w.story, "\n"))
		}
	}
	t.Logf("%d seeds in %s\n%s", count, time.Since(began).Round(time.Millisecond), table(counts))
}

// shrinksMost bounds the plans that are played to shorten one.
const shrinksMost = 100

// shrink leaves out parts of a plan while it has breaches, and returns the last run that has some.
func shrink(t *testing.T, w *deployment, on newDatabase) *deployment {
	t.Helper()
	for played := 0; played < shrinksMost; {
		shorter := w
		for _, p := range w.plan.shorter() {
			if played++; played > shrinksMost {
				return w
			}
			if one := play(t, p, on); len(one.breaches) > 0 {
				shorter = one
				break
			}
		}
		if shorter == w {
			return w
		}
		w = shorter
	}
	return w
}

// TestSeedsReplay plays seeds twice: the stories are the same. Stored schedules are left out: a change that waits for the event of a
// tick tries again after random pauses of the store.
func TestSeedsReplay(t *testing.T) {
	for seed := range *replayCount {
		p := draw(seed).withoutStored()
		first, again := play(t, p, onSQLite), play(t, p, onSQLite)
		if !slices.Equal(first.story, again.story) {
			t.Errorf("seed %d has two stories:\n%s", seed, difference(first.story, again.story))
		}
	}
}

// difference returns the first lines in which two stories differ.
func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[i] + "\n" + b[i]
		}
	}
	return "one is longer"
}
