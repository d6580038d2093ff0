package faults_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/longtest"
)

var (
	seed  = flag.Uint64("seed", 0, "run the scenario of this seed of the campaign, or begin with it")
	runs  = flag.Int("runs", 0, "how many scenarios of the campaign to run; 0: a sample")
	log   = flag.Bool("log", false, "show what happened in runs that pass, too")
	limit = flag.Duration("within", 0, "how long a system of the campaign may take to be at rest; 0: as long as one of its kind")
	other = flag.String("program", "", "break this program in the place of the one of these sources; it has to be built with -tags faultpoints")
)

// Timeouts for a system to be at rest after the last fault. By then no check is late by more than 10 s, so a minute and
// a half is ample even on a slow machine, and it is less than nearly every step of a clock. Patient kinds take longer:
// an outage may remain open after all jobs of its rule have ended, and is closed after five minutes without checks; or
// a notification is retried after a minute if its sender died.
const (
	rested  = 90 * time.Second
	drained = 7 * time.Minute
)

var slowKinds = []string{"source", "people"}

// settleTimeout returns the timeout for the system of a scenario to be at rest.
func (s scenario) settleTimeout() time.Duration {
	switch {
	case *limit > 0:
		return *limit
	case slices.Contains(slowKinds, s.kind):
		return drained
	}
	return rested
}

// longKinds are kinds that take minutes. No sample has them.
var longKinds = []string{"people", "late", "cluster"}

// quickKinds are the kinds of the short sample: one for each part that can break.
var quickKinds = []string{"kill two", "takeover", "broker", "link", "database", "embedded", "clock", "loss", "history"}

// sample returns the seeds of the sample: the first of each quick kind, or with the long tests of each kind that takes
// seconds.
func sample() (seeds []uint64) {
	drawn := slices.Clone(longKinds)
	for i, k := range round {
		if !slices.Contains(drawn, k.name) && (longtest.Enabled() || slices.Contains(quickKinds, k.name)) {
			seeds, drawn = append(seeds, uint64(i)), append(drawn, k.name)
		}
	}
	return seeds
}

// TestCampaign breaks nodes, brokers and connections as planned by seeds, and checks every promise after each run. A
// failure prints the seed, which reproduces the plan.
func TestCampaign(t *testing.T) {
	seeds := sample()
	if *runs > 0 || *seed > 0 {
		seeds = nil
		for i := range max(1, *runs) {
			seeds = append(seeds, *seed+uint64(i))
		}
	}
	var failed atomic.Int64
	t.Run("runs", func(t *testing.T) {
		for _, seed := range seeds {
			s := scenarioOf(seed)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				t.Log(s)
				begun := time.Now()
				defer func() { // also after a timeout of the run
					if t.Failed() {
						failed.Add(1)
						t.Logf("%s; again with: go test ./internal/faults -run TestCampaign -seed %d", s, seed)
					}
				}()
				if err := s.run(t, "", s.settleTimeout()); err != nil {
					t.Errorf("%v", err)
					return
				}
				t.Logf("every promise was kept, after %s", time.Since(begun).Round(100*time.Millisecond))
			})
		}
	})
	t.Logf("%d runs, %d failed", len(seeds), failed.Load())
}

// run plays events during the faults of the scenario, with a seeded bug or none, and returns the promises still broken
// after a timeout.
func (s scenario) run(t *testing.T, plant string, within time.Duration) error {
	a := newTestbed(t, s, plant)
	defer a.end()
	random := rand.New(rand.NewPCG(s.seed, 2))
	if s.stage != nil {
		s.stage(a, random)
	}
	for i, plans := range s.nodes {
		if i > 0 {
			a.wait() // the second node holds the upper half of the shards, and with it the stream of events
		}
		a.keepRunning(string(rune('a'+i)), plans...)
	}
	a.serving()
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	a.nodes.Go(func() { a.watchCounts(watching) })

	upset := make(chan struct{})
	a.nodes.Go(func() {
		defer close(upset)
		select {
		case <-a.served:
		case <-a.over:
			return
		}
		if s.upset != nil {
			s.upset(a, random)
		}
	})
	a.play()
	<-upset
	a.after()
	return a.waitUntilSettled(within)
}

// shortWindow creates the stream of alerts with a duplicate window shorter than any death of a node.
func shortWindow(a *testbed, _ *rand.Rand) { a.makeAlerts(100 * time.Millisecond) }

// makeAlerts creates the stream of alerts with a duplicate window, before a node does.
func (a *testbed) makeAlerts(window time.Duration) {
	a.Helper()
	if _, err := a.jetStream().CreateStream(a.Context(), jetstream.StreamConfig{
		Name: "DEADMAN_ALERTS", Subjects: []string{"deadman.alerts.>"}, Duplicates: window,
		Discard: jetstream.DiscardNew, AllowDirect: true, AllowAtomicPublish: true,
	}); err != nil {
		a.Fatal(err)
	}
}
