package faults_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"deadman/internal/faults/histories"
	"deadman/internal/longtest"
)

// seededBug is a seeded bug, a scenario that exposes it, and the beginning of the breach that the checks must report.
// The bugs are listed in failpoints.SeededBugs.
type seededBug struct {
	plant    string
	scenario scenario
	breach   string
	calm     bool // the bug breaks no promise without a fault: the breach needs both
}

var seededBugs = []seededBug{
	{"ack-before-commit", scenario{nodes: [][]string{{"apply.commit=kill@12"}}}, "P1: ", false},
	{"ack-before-commit", scenario{stage: openTicks, nodes: [][]string{{"apply.commit=kill@4"}}}, "had an effect", false},
	{"no-cursor-compare", scenario{linger: 400 * time.Millisecond, nodes: [][]string{{""}, slowIntake}}, "P1: ", false},
	{"no-fence", scenario{nodes: [][]string{{"settle.write=sleep:1200ms"}, {"settle.write=stop@2"}}}, "P5: ", false},
	{"alerts-apart", scenario{nodes: [][]string{{"settle.write=sleep:300ms;settle.middle=kill@1"}}}, "P1: ", true},
	{"no-read-through", scenario{nodes: [][]string{{"intake.read=sleep:2500ms@20"}}}, "a false alarm", false},
	{"mark-before-publish", scenario{nodes: [][]string{{"relay.read=kill@1"}}}, "P7: ", false},
	{"duplicate-window", scenario{stage: shortWindow, nodes: [][]string{{"relay.published=kill@1"}}}, "in the stream twice", false},
	{"duplicate-window", scenario{stage: openTicks, nodes: [][]string{{"tick.emitted=kill@1"}}}, "in the stream twice", false},
	{"forgets-unacked", scenario{nodes: [][]string{{""}}, upset: brokerAway}, "P7: ", false},
	{"ack-before-commit", scenario{stage: recordHistory, nodes: [][]string{{"apply.commit=kill@12"}}}, "lost of", false},
	{"no-read-through", scenario{stage: recordHistory, nodes: [][]string{{"intake.read=sleep:2500ms@15"}}}, "G1a of", false},
	{"outage-absent", withoutSources(), "was cleared at", false},
	{"last-known", withoutSources(), "was cleared at", false},
}

// withoutSources returns a scenario in which rules query unavailable sources.
func withoutSources() scenario {
	s := &scenario{nodes: [][]string{{""}}}
	s.addLookups(stopSources)
	return *s
}

// slowIntake is a node that stops with a full batch read, and resumes after another node has taken over.
var slowIntake = []string{"intake.read=sleep:500ms@2;intake.read=stop@3"}

// brokerAway cuts the broker off while alerts are decided.
func brokerAway(a *testbed, _ *rand.Rand) {
	pause(1500 * time.Millisecond)
	a.servers[0].kill()
	pause(1500 * time.Millisecond)
	a.servers[0].start()
}

// attempts is the number of tries for a bug to show: some need two nodes to run in the wrong order.
const attempts = 5

// TestPlants proves that the checks of the campaign detect the seeded bugs: each scenario keeps every promise without
// its bug, and breaks one with it. If calm is set, the bug alone breaks none.
func TestPlants(t *testing.T) {
	longtest.Only(t, "it tests the checks of the campaign, in minutes")
	for _, p := range seededBugs {
		p.scenario.brokers = 1
		t.Run(p.plant, func(t *testing.T) {
			t.Parallel()
			t.Run("without", func(t *testing.T) {
				if err := p.scenario.run(t, "", drained); err != nil {
					t.Errorf("the scenario breaks a promise without the bug: %v", err)
				}
			})
			if p.calm {
				t.Run("without a fault", func(t *testing.T) {
					if err := (scenario{brokers: 1, nodes: [][]string{{""}}}).run(t, p.plant, drained); err != nil {
						t.Errorf("the bug breaks a promise without the fault: %v", err)
					}
				})
			}
			t.Run("with", func(t *testing.T) {
				var err error
				for range attempts {
					if err = p.scenario.run(t, p.plant, 8*time.Second); err != nil && strings.Contains(err.Error(), p.breach) {
						t.Logf("caught: %v", err)
						return
					}
				}
				t.Errorf("the checks should report %q; they report: %v", p.breach, err)
			})
		})
	}
}

// A history names the anomaly of a seeded bug: a relay that relies on the stream's window for duplicates publishes an alert
// again after its death.
func TestHistoryNamesSeededBug(t *testing.T) {
	t.Parallel()
	s := scenario{brokers: 1, nodes: [][]string{{"relay.published=kill@1"}}, stage: func(a *testbed, random *rand.Rand) {
		shortWindow(a, random)
		recordHistory(a, random)
	}}
	if err := s.run(t, "duplicate-window", time.Second); err == nil || !strings.Contains(err.Error(), string(histories.DuplicateElements)+" of ") {
		t.Errorf("the history should show %s; the checks report: %v", histories.DuplicateElements, err)
	}
}
