package faults_test

import (
	"math/rand/v2"

	"deadman/rules/bodies"
)

// drawLarge draws event bodies of up to the maximum size.
func drawLarge(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{killPlans(random, 1, failpointsOf(random))}
	if random.IntN(2) == 0 {
		s.nodes = [][]string{nodePlan(random)}
		s.upset = breakLink([]string{"link", "database"}[random.IntN(2)], "cut", "half-open", "slow")
	}
	s.addNode(random, 3)
	s.stage = func(a *testbed, random *rand.Rand) { a.padding = bodies.MaxBytes/4 + random.IntN(bodies.MaxBytes*7/10) }
}
