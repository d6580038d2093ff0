package faults_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// planting is a bug that is built in on purpose, a scenario that brings it out, and the words
// by which the checks say so. The bugs are in plants.go and bus/planted_on.go.
type planting struct {
	plant    string
	scenario scenario
	breach   string
	calm     bool // without a fault the bug breaks no promise: the breach is due to both
}

var plantings = []planting{
	{"ack-before-commit", scenario{nodes: [][]string{{"apply.commit=kill@12"}}}, "P1: ", false},
	{"ack-before-commit", scenario{stage: openTicks, nodes: [][]string{{"apply.commit=kill@4"}}}, "came of anything", false},
	{"no-cursor-compare", scenario{linger: 400 * time.Millisecond, nodes: [][]string{{""}, sleeper}}, "P1: ", false},
	{"no-fence", scenario{nodes: [][]string{{"settle.write=sleep:1200ms"}, {"settle.write=stop@2"}}}, "P5: ", false},
	{"alerts-apart", scenario{nodes: [][]string{{"settle.write=sleep:300ms;settle.middle=kill@1"}}}, "P1: ", true},
	{"no-read-through", scenario{nodes: [][]string{{"intake.read=sleep:2500ms@20"}}}, "a false alarm", false},
	{"mark-before-publish", scenario{nodes: [][]string{{"relay.read=kill@1"}}}, "P7: ", false},
	{"duplicate-window", scenario{stage: shortWindow, nodes: [][]string{{"relay.published=kill@1"}}}, "in the stream twice", false},
	{"duplicate-window", scenario{stage: openTicks, nodes: [][]string{{"tick.emitted=kill@1"}}}, "in the stream twice", false},
	{"forgets-unacked", scenario{nodes: [][]string{{""}}, upset: brokerAway}, "P7: ", false},
	{"outage-absent", withoutSources(), "was cleared at", false},
	{"last-known", withoutSources(), "was cleared at", false},
}

// withoutSources is that rules look up in sources that are away.
func withoutSources() scenario {
	s := &scenario{nodes: [][]string{{""}}}
	s.lookUp(sourcesAway)
	return *s
}

// sleeper is a node that stands still with a full batch in hand, and goes on when another node
// has taken over.
var sleeper = []string{"intake.read=sleep:500ms@2;intake.read=stop@3"}

// brokerAway takes the broker away while alerts are decided.
func brokerAway(a *arena, _ *rand.Rand) {
	pause(1500 * time.Millisecond)
	a.servers[0].kill()
	pause(1500 * time.Millisecond)
	a.servers[0].start()
}

// attempts is how often a bug is given the chance to show: some need two nodes to come by in the
// wrong order.
const attempts = 5

// TestPlants proves that the checks of the campaign notice what they are there for: each
// scenario keeps every promise, and breaks one with the bug in it. Where it says so, the bug alone breaks none.
func TestPlants(t *testing.T) {
	for _, p := range plantings {
		p.scenario.brokers = 1
		t.Run(p.plant, func(t *testing.T) {
			t.Parallel()
			t.Run("without", func(t *testing.T) {
				if err := p.scenario.run(t, "", drained); err != nil {
					t.Errorf("the scenario breaks what is not broken: %v", err)
				}
			})
			if p.calm {
				t.Run("without a fault", func(t *testing.T) {
					if err := (scenario{brokers: 1, nodes: [][]string{{""}}}).run(t, p.plant, drained); err != nil {
						t.Errorf("the bug breaks a promise by itself, so that the fault proves nothing: %v", err)
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
				t.Errorf("the checks should say %q; they say: %v", p.breach, err)
			})
		})
	}
}
