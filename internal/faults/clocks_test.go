package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// setClockBy sets a clock ahead, or back if negative.
type setClockBy func(by time.Duration)

// drawClock draws steps of the Postgres clock. A node that dies is restarted meanwhile, beside a node that knew the
// right time.
func drawClock(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{nodePlan(random)}
	if random.IntN(2) == 0 {
		s.nodes = [][]string{killPlans(random, 3, failpointsOf(random)), {""}}
	} else {
		s.addNode(random, 2)
	}
	var set setClockBy
	s.stage = func(a *testbed, _ *rand.Rand) {
		set = postgresClock(a)
		a.exemptFromFence("") // a mark of a wrong clock does not count, and jobs wait for their streams
	}
	s.upset = func(a *testbed, random *rand.Rand) { flicker(a, set, random) }
}

// drawNodeClock draws steps of the clock of a node with SQLite. The broker is another machine.
func drawNodeClock(s *scenario, random *rand.Rand) {
	s.database = onSQLite
	s.nodes = [][]string{nodePlan(random)}
	var set setClockBy
	s.stage = func(a *testbed, _ *rand.Rand) { set = nodeClock(a) }
	s.upset = func(a *testbed, random *rand.Rand) { flicker(a, set, random) }
}

// drawSetBack sets the clock of Postgres, or of a node with SQLite, back for longer than the engine waits before it
// follows. The clock stays wrong or is corrected.
func drawSetBack(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{nodePlan(random)}
	var set setClockBy
	if random.IntN(2) == 0 {
		s.database = onSQLite
		s.stage = func(a *testbed, _ *rand.Rand) { set = nodeClock(a) }
	} else {
		s.addNode(random, 2)
		s.stage = func(a *testbed, _ *rand.Rand) {
			set = postgresClock(a)
			a.execStatements(`ALTER TABLE alert DISABLE TRIGGER witness_decide`) // leases use the clock followed by the engine
		}
	}
	stage := s.stage
	s.stage = func(a *testbed, random *rand.Rand) {
		stage(a, random)
		a.play = func() { a.publishOrders(60, 200*time.Millisecond) }
	}
	s.upset = func(a *testbed, random *rand.Rand) {
		a.waitForAll()
		pause(span(random, time.Second, 6*time.Second))
		by := -span(random, time.Minute, steps[random.IntN(len(steps))])
		a.record("the clock is set by %s", by)
		set(by)
		pause(span(random, 8*time.Second, 20*time.Second))
		if random.IntN(2) == 0 {
			a.record("the clock is set right")
			set(0)
		}
	}
}

// postgresClock shadows the functions with which the nodes query the server's time.
func postgresClock(a *testbed) setClockBy {
	a.Helper()
	var name string
	if err := a.DB.QueryRowContext(a.Context(), `SELECT current_database()`).Scan(&name); err != nil {
		a.Fatal(err)
	}
	a.execStatements(`
CREATE TABLE server_clock (by interval NOT NULL);
INSERT INTO server_clock VALUES ('0');
CREATE FUNCTION now() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT pg_catalog.now() + by FROM public.server_clock';
CREATE FUNCTION clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + by FROM public.server_clock';
ALTER DATABASE ` + name + ` SET search_path = public, pg_catalog`)
	return func(by time.Duration) {
		a.execStatements(fmt.Sprintf(`UPDATE server_clock SET by = '%f s'`, by.Seconds()))
	}
}

// execStatements runs statements in the database.
func (a *testbed) execStatements(statements string) {
	a.Helper()
	if _, err := a.DB.ExecContext(context.Background(), statements); err != nil {
		a.Errorf("%s: %v", statements, err)
	}
}

// nodeClock makes nodes add an offset from a file to their clock.
func nodeClock(a *testbed) setClockBy {
	a.Helper()
	file := filepath.Join(a.TempDir(), "offset")
	a.env = append(a.env, "DEADMAN_CLOCK_OFFSET="+file)
	return func(by time.Duration) {
		if err := os.WriteFile(file+".new", []byte(by.String()), 0o600); err != nil {
			a.Error(err)
		}
		if err := os.Rename(file+".new", file); err != nil { // nodes read all of it or nothing
			a.Error(err)
		}
	}
}

// steps are the maximum offsets of a clock, in either direction.
var steps = []time.Duration{2 * time.Minute, 2 * time.Hour, 3 * 24 * time.Hour, 366 * 24 * time.Hour}

// flicker sets a clock a few times, each time for less than the engine waits before it follows, and corrects it.
//
// A node that starts while the clock is wrong and no other node runs adopts that clock, so flicker begins once all
// nodes serve.
func flicker(a *testbed, set setClockBy, random *rand.Rand) {
	a.waitForAll()
	for range 2 + random.IntN(3) {
		pause(span(random, 100*time.Millisecond, 900*time.Millisecond))
		by := span(random, time.Minute, steps[random.IntN(len(steps))])
		if random.IntN(2) == 0 {
			by = -by
		}
		a.record("the clock is set by %s", by)
		set(by)
		pause(span(random, 100*time.Millisecond, 3*time.Second))
		if random.IntN(3) > 0 {
			a.record("the clock is set right")
			set(0)
		}
	}
	a.record("the clock is set right")
	set(0)
}
