package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"

	"deadman/faults"
)

// older is the program of the last commit whose schema is one version older, with the failpoints in it.
var older = sync.OnceValues(func() (string, error) {
	return faults.Older(context.Background(), "..", built, "-tags", "faultpoints")
})

// drawOlder has a node of an older version run beside one of this version. One of them or both are killed.
func drawOlder(s *scenario, random *rand.Rand) {
	node := []string{"a", "b"}[random.IntN(2)]
	s.nodes = [][]string{deaths(random, 1+random.IntN(2), placesOf(random)), deaths(random, random.IntN(2), placesOf(random))}
	s.stage = func(a *arena, _ *rand.Rand) { a.programs[node] = older }
}
