package faults_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"deadman/internal/faults"
)

// older builds the last commit whose schema is one version older.
var older = sync.OnceValues(func() (string, error) { return faults.Older(context.Background(), "../..") })

// drawOlder runs a node of an older version beside one of this version. One of them or both are killed. More orders are
// played while both hold shards: otherwise the run would not test the two versions together.
func drawOlder(s *scenario, random *rand.Rand) {
	node := []string{"a", "b"}[random.IntN(2)]
	s.nodes = [][]string{killPlans(random, 1+random.IntN(2), failpointsOf(random)), killPlans(random, random.IntN(2), failpointsOf(random))}
	s.stage = func(a *testbed, _ *rand.Rand) {
		a.programs[node] = older
		a.exemptFromFence(node) // the older version marks a shard as swept once it is read
		play, model := a.play, a.model
		both := false
		a.play = func() {
			play()
			both = a.waitUntilHolding(time.Minute, "a", "b")
			a.publishOrdersFrom(100, 60, 20*time.Millisecond)
		}
		a.model = func(ctx context.Context) error {
			if !both {
				return errors.Join(model(ctx), errors.New("P15: the node of the older version and the one of this version never held shards at once"))
			}
			return model(ctx)
		}
	}
}

// waitUntilHolding waits until each of the nodes holds shards in its current life, and reports whether all do.
func (a *testbed) waitUntilHolding(within time.Duration, nodes ...string) bool {
	a.Helper()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); pause(50 * time.Millisecond) {
		holders, err := a.Holders(a.Context())
		a.mu.Lock()
		idle := slices.ContainsFunc(nodes, func(node string) bool { return holders[a.lives[node]] == 0 })
		a.mu.Unlock()
		if err == nil && !idle {
			a.record("shards are held by %v", holders)
			return true
		}
	}
	return false
}
