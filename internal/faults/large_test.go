package faults_test

import (
	"math/rand/v2"

	"deadman/rules"
)

// drawLarge draws event bodies of up to the maximum size.
func drawLarge(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{deaths(random, 1, placesOf(random))}
	if random.IntN(2) == 0 {
		s.nodes = [][]string{one(random)}
		s.upset = breakLink([]string{"link", "database"}[random.IntN(2)], "cut", "half-open", "slow")
	}
	s.beside(random, 3)
	s.stage = func(a *arena, random *rand.Rand) { a.padding = rules.MaxBody/4 + random.IntN(rules.MaxBody*7/10) }
}
