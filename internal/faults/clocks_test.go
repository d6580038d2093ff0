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

// drawClock has the clock of the Postgres step. A node that dies starts again meanwhile, beside one that knows better.
func drawClock(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{one(random)}
	if random.IntN(2) == 0 {
		s.nodes = [][]string{deaths(random, 3, placesOf(random)), {""}}
	} else {
		s.beside(random, 2)
	}
	var set stepped
	s.stage = func(a *arena, _ *rand.Rand) {
		set = clockOfPostgres(a)
		a.sweepsGoUnwitnessed("") // a mark by a wrong clock does not count, and jobs wait for their streams
	}
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

// drawSetBack has the clock of the Postgres, or of a node with SQLite, go back for longer than the engine waits until it
// follows. It stays there, or is set right.
func drawSetBack(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{one(random)}
	var set stepped
	if random.IntN(2) == 0 {
		s.database = onSQLite
		s.stage = func(a *arena, _ *rand.Rand) { set = clockOfNode(a) }
	} else {
		s.beside(random, 2)
		s.stage = func(a *arena, _ *rand.Rand) {
			set = clockOfPostgres(a)
			a.must(`ALTER TABLE alert DISABLE TRIGGER witness_decide`) // leases go by the clock that is followed
		}
	}
	stage := s.stage
	s.stage = func(a *arena, random *rand.Rand) {
		stage(a, random)
		a.play = func() { a.playOrders(60, 200*time.Millisecond) }
	}
	s.upset = func(a *arena, random *rand.Rand) {
		a.waitForAll()
		pause(span(random, time.Second, 6*time.Second))
		by := -span(random, time.Minute, steps[random.IntN(len(steps))])
		a.note("the clock is set by %s", by)
		set(by)
		pause(span(random, 8*time.Second, 20*time.Second))
		if random.IntN(2) == 0 {
			a.note("the clock is set right")
			set(0)
		}
	}
}

// clockOfPostgres puts functions before those by which the nodes ask the server for the time.
func clockOfPostgres(a *arena) stepped {
	a.Helper()
	var name string
	if err := a.DB.QueryRowContext(a.Context(), `SELECT current_database()`).Scan(&name); err != nil {
		a.Fatal(err)
	}
	a.must(`
CREATE TABLE server_clock (by interval NOT NULL);
INSERT INTO server_clock VALUES ('0');
CREATE FUNCTION now() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT pg_catalog.now() + by FROM public.server_clock';
CREATE FUNCTION clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + by FROM public.server_clock';
ALTER DATABASE ` + name + ` SET search_path = public, pg_catalog`)
	return func(by time.Duration) { a.must(fmt.Sprintf(`UPDATE server_clock SET by = '%f s'`, by.Seconds())) }
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
//
// A node that starts while the clock is wrong, and no other one runs, goes by it, so that it begins once all serve.
func flicker(a *arena, set stepped, random *rand.Rand) {
	a.waitForAll()
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
