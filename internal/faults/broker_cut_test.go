package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"deadman/web"
)

// drawNoBroker cuts one of two nodes off the broker, temporarily or permanently. The node must report it meanwhile, and
// the other one takes its shards.
func drawNoBroker(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{nodePlan(random), {""}}
	s.stage = func(a *testbed, _ *rand.Rand) { a.links["b"] = a.brokerLink() }
	s.upset = func(a *testbed, random *rand.Rand) {
		a.waitForAll()
		a.waitForShards("b", true)
		pause(span(random, 0, time.Second))
		f := faultOf(random, []string{"cut", "half-open"}[random.IntN(2)])
		a.record("the link of b to the broker is %s", f.name)
		a.links["b"].inject(f)
		a.waitForCondition("b", "nats", false)
		a.waitForShards("b", false)
		if random.IntN(2) == 0 {
			return // permanent
		}
		pause(span(random, time.Second, 6*time.Second))
		a.links["b"].remove(f)
		a.record("the link of b to the broker is whole again")
		a.waitForCondition("b", "nats", true)
	}
}

// waitForCondition waits until /readyz of a node reports a condition as ok or failed. If it failed, the node must not report to be
// ready.
func (a *testbed) waitForCondition(node, name string, ok bool) {
	a.Helper()
	a.mu.Lock()
	url := a.at[node].HTTP
	a.mu.Unlock()
	var last string
	for begun := time.Now(); time.Since(begun) < time.Minute; pause(50 * time.Millisecond) {
		state, err := getReadiness(a.Context(), url)
		last = fmt.Sprintf("%+v, %v", state, err)
		if err != nil {
			continue
		}
		for _, c := range state.Conditions {
			if c.Name == name && c.OK == ok && (ok || !state.Healthy && c.Detail != "") {
				a.record("%s reports after %s that %s is ok: %v, %s", node, time.Since(begun).Round(10*time.Millisecond), name, ok, c.Detail)
				return
			}
		}
	}
	a.Errorf("P13: node %s does not report within a minute that its condition %s is ok: %v; it reports %s", node, name, ok, last)
}

// waitForShards waits until a node holds shards, or none.
func (a *testbed) waitForShards(node string, some bool) {
	a.Helper()
	var held map[string]int
	var err error
	for begun := time.Now(); time.Since(begun) < time.Minute; pause(50 * time.Millisecond) {
		if held, err = a.Holders(a.Context()); err != nil {
			continue
		}
		if some == slices.ContainsFunc(slices.Collect(maps.Keys(held)), func(name string) bool { return strings.HasPrefix(name, node) }) {
			a.record("that %s holds shards is %v after %s", node, some, time.Since(begun).Round(10*time.Millisecond))
			return
		}
	}
	a.Errorf("P13: that node %s holds shards is not %v after a minute: %v, %v", node, some, held, err)
}

// getReadiness returns the response of /readyz of a node.
func getReadiness(ctx context.Context, url string) (state web.Readiness, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return state, err
	}
	answer, err := (&http.Client{Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return state, err
	}
	defer answer.Body.Close()
	err = json.NewDecoder(answer.Body).Decode(&state)
	return state, err
}

// disk simulates a Postgres whose disk is full for the writes of one node to one table.
const disk = `
CREATE TABLE disk (full_for text NOT NULL, writes text NOT NULL);
INSERT INTO disk VALUES ('', '');
CREATE FUNCTION disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF EXISTS (SELECT FROM disk WHERE full_for <> '' AND current_setting('application_name') LIKE full_for || '%' AND writes = TG_ARGV[0]) THEN
		RAISE disk_full USING MESSAGE = 'could not extend file: No space left on device';
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER disk_jobs AFTER INSERT OR UPDATE OR DELETE ON future_job FOR EACH STATEMENT EXECUTE FUNCTION disk('jobs');
CREATE TRIGGER disk_jobs AFTER INSERT ON history FOR EACH STATEMENT EXECUTE FUNCTION disk('jobs');
CREATE TRIGGER disk_alerts AFTER INSERT ON alert FOR EACH ROW WHEN (NEW.status = 1 AND NEW.rule_id <> 0) EXECUTE FUNCTION disk('alerts');`

// drawNoSettle makes one of two nodes fail, temporarily or permanently: at every write of a job, so that it can neither
// settle nor ingest, or only at checks that raise an alert, so that the streams are read and jobs remain due.
func drawNoSettle(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{nodePlan(random), {""}}
	s.stage = func(a *testbed, _ *rand.Rand) {
		a.execStatements(disk)
		a.execStatements(`UPDATE witness_patience SET patience = '2 s'`) // the node's shards are taken over soon after
	}
	s.upset = func(a *testbed, random *rand.Rand) {
		a.waitForAll()
		pause(span(random, 0, time.Second))
		writes := []string{"jobs", "alerts"}[random.IntN(2)]
		a.record("the disk is full for the %s of b", writes)
		a.execStatements(`UPDATE disk SET full_for = 'b', writes = '` + writes + `'`)
		if random.IntN(2) == 0 {
			return // permanent
		}
		pause(span(random, time.Second, 6*time.Second))
		a.execStatements(`UPDATE disk SET full_for = ''`)
		a.record("there is room again")
	}
}

// exemptFromFence stops the comparison of a node's sweep marks with the due jobs; an empty name stops it for all
// nodes.
func (a *testbed) exemptFromFence(node string) {
	a.execStatements(`INSERT INTO witness_exempt VALUES ('` + node + `')`)
}

// waitForAll waits until each node has served.
func (a *testbed) waitForAll() {
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
