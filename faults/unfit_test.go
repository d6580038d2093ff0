package faults_test

import (
	"math/rand/v2"
	"time"
)

// drawNoBroker has one of two nodes lose the broker, for a while or for good.
func drawNoBroker(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{one(random), {""}}
	s.stage = func(a *arena, _ *rand.Rand) { a.links["b"] = a.toBroker() }
	s.upset = func(a *arena, random *rand.Rand) {
		a.waitForAll()
		pause(span(random, 0, time.Second))
		f := faultOf(random, []string{"cut", "half-open"}[random.IntN(2)])
		a.note("the link of b to the broker is %s", f.name)
		a.links["b"].begin(f)
		if random.IntN(2) == 0 {
			return // until the end
		}
		pause(span(random, time.Second, 6*time.Second))
		a.links["b"].end(f)
		a.note("the link of b to the broker is whole again")
	}
}

// disk is a Postgres whose disk is full for one of the nodes.
const disk = `
CREATE TABLE disk (full_for text NOT NULL);
INSERT INTO disk VALUES ('');
CREATE FUNCTION disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF EXISTS (SELECT FROM disk WHERE full_for <> '' AND current_setting('application_name') LIKE full_for || '%') THEN
		RAISE disk_full USING MESSAGE = 'could not extend file: No space left on device';
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER disk AFTER INSERT OR UPDATE OR DELETE ON future_job FOR EACH STATEMENT EXECUTE FUNCTION disk();
CREATE TRIGGER disk AFTER INSERT ON history FOR EACH STATEMENT EXECUTE FUNCTION disk();`

// drawNoSettle has one of two nodes fail whenever it writes a job, for a while or for good.
func drawNoSettle(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{one(random), {""}}
	s.stage = func(a *arena, _ *rand.Rand) { a.must(disk) }
	s.upset = func(a *arena, random *rand.Rand) {
		a.waitForAll()
		pause(span(random, 0, time.Second))
		a.note("the disk is full for b")
		a.must(`UPDATE disk SET full_for = 'b'`)
		if random.IntN(2) == 0 {
			return // until the end
		}
		pause(span(random, time.Second, 6*time.Second))
		a.must(`UPDATE disk SET full_for = ''`)
		a.note("there is room again")
	}
}

// waitForAll waits until each node has served.
func (a *arena) waitForAll() {
	for range 600 {
		a.mu.Lock()
		serving := len(a.at)
		a.mu.Unlock()
		if serving == a.count {
			return
		}
		pause(100 * time.Millisecond)
	}
	a.Errorf("not all of %d nodes serve", a.count)
}
