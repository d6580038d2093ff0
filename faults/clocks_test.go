package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// stepped is a clock that can be set: ahead, or back where negative.
type stepped func(by time.Duration)

// drawClock has the clock of the Postgres step.
func drawClock(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{one(random)}
	s.beside(random, 2)
	var set stepped
	s.stage = func(a *arena, _ *rand.Rand) { set = clockOfPostgres(a) }
	s.upset = func(a *arena, random *rand.Rand) { flicker(a, set, random) }
}

// drawNodeClock has the clock of a node with a SQLite step. The broker is another machine.
func drawNodeClock(s *scenario, random *rand.Rand) {
	s.database = onSQLite
	s.nodes = [][]string{one(random)}
	var set stepped
	s.stage = func(a *arena, _ *rand.Rand) { set = clockOfNode(a) }
	s.upset = func(a *arena, random *rand.Rand) { flicker(a, set, random) }
}

// clockOfPostgres puts functions before those by which the nodes ask the server for the time.
func clockOfPostgres(a *arena) stepped {
	a.Helper()
	var name string
	if err := a.DB.QueryRowContext(a.Context(), `SELECT current_database()`).Scan(&name); err != nil {
		a.Fatal(err)
	}
	a.must(`
CREATE TABLE clock_step (by interval NOT NULL);
INSERT INTO clock_step VALUES ('0');
CREATE FUNCTION now() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT pg_catalog.now() + by FROM public.clock_step';
CREATE FUNCTION clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + by FROM public.clock_step';
ALTER DATABASE ` + name + ` SET search_path = public, pg_catalog`)
	return func(by time.Duration) { a.must(fmt.Sprintf(`UPDATE clock_step SET by = '%f s'`, by.Seconds())) }
}

// must runs statements of the run's own in the database.
func (a *arena) must(statements string) {
	a.Helper()
	if _, err := a.DB.ExecContext(context.Background(), statements); err != nil {
		a.Errorf("%s: %v", statements, err)
	}
}

// clockOfNode has the nodes add to their clock what a file says.
func clockOfNode(a *arena) stepped {
	a.Helper()
	file := filepath.Join(a.TempDir(), "offset")
	a.env = append(a.env, "DEADMAN_CLOCK_OFFSET="+file)
	return func(by time.Duration) {
		if err := os.WriteFile(file+".new", []byte(by.String()), 0o600); err != nil {
			a.Error(err)
		}
		if err := os.Rename(file+".new", file); err != nil { // a node reads all of it or nothing
			a.Error(err)
		}
	}
}

// steps are how far a clock steps, either way: some of them, up to so much.
var steps = []time.Duration{2 * time.Minute, 2 * time.Hour, 3 * 24 * time.Hour, 366 * 24 * time.Hour}

// flicker steps a clock a few times, each for less long than the engine waits until it follows, and sets it right.
func flicker(a *arena, set stepped, random *rand.Rand) {
	for range 2 + random.IntN(3) {
		pause(span(random, 100*time.Millisecond, 900*time.Millisecond))
		by := span(random, time.Minute, steps[random.IntN(len(steps))])
		if random.IntN(2) == 0 {
			by = -by
		}
		a.note("the clock is set by %s", by)
		set(by)
		pause(span(random, 100*time.Millisecond, 3*time.Second))
		if random.IntN(3) > 0 {
			a.note("the clock is set right")
			set(0)
		}
	}
	a.note("the clock is set right")
	set(0)
}
