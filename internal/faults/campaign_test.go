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
)

var (
	seed  = flag.Uint64("seed", 0, "run the scenario of this seed of the campaign, or begin with it")
	runs  = flag.Int("runs", 0, "how many scenarios of the campaign to run; 0: a sample")
	log   = flag.Bool("log", false, "show what happened in runs that pass, too")
	limit = flag.Duration("within", 0, "how long a system of the campaign may take to be at rest; 0: as long as one of its kind")
	other = flag.String("program", "", "break this program in the place of the one of these sources; it has to be built with -tags faultpoints")
)

// How long a system may take to be at rest after the last fault. No check is late by more than 10 s then, so a minute and a
// half has room for the machine alone, and is less than nearly every step of a clock. In kinds of patient an outage may last
// by which all jobs of its rule have ended, so that nobody asks any more: it is over after five minutes of quiet; or a
// message to people whose sender died is tried again after a minute.
const (
	rested  = 90 * time.Second
	drained = 7 * time.Minute
)

var patient = []string{"source", "people"}

// patience is how long the system of a scenario may take to be at rest.
func (s scenario) patience() time.Duration {
	switch {
	case *limit > 0:
		return *limit
	case slices.Contains(patient, s.kind):
		return drained
	}
	return rested
}

// long are kinds that take minutes. The sample of every day leaves them out.
var long = []string{"people", "late", "cluster"}

// sample are seeds of the campaign for every day: the first of each kind that takes seconds.
func sample() (seeds []uint64) {
	drawn := slices.Clone(long)
	for i, k := range round {
		if !slices.Contains(drawn, k.name) {
			seeds, drawn = append(seeds, uint64(i)), append(drawn, k.name)
		}
	}
	return seeds
}

// TestCampaign breaks nodes, brokers and connections as seeds say, and checks every promise
// after each. A failure names the seed, which makes the same plan again.
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
				defer func() { // also where the run was given up
					if t.Failed() {
						failed.Add(1)
						t.Logf("%s; again with: go test ./internal/faults -run TestCampaign -seed %d", s, seed)
					}
				}()
				if err := s.run(t, "", s.patience()); err != nil {
					t.Errorf("%v", err)
					return
				}
				t.Logf("every promise was kept, after %s", time.Since(begun).Round(100*time.Millisecond))
			})
		}
	})
	t.Logf("%d runs, %d failed", len(seeds), failed.Load())
}

// run plays events while what the scenario says goes wrong, with a bug planted or none, and
// returns the promises that are still broken after a while.
func (s scenario) run(t *testing.T, plant string, within time.Duration) error {
	a := newArena(t, s, plant)
	defer a.end()
	random := rand.New(rand.NewPCG(s.seed, 2))
	if s.stage != nil {
		s.stage(a, random)
	}
	for i, plans := range s.nodes {
		if i > 0 {
			a.wait() // the second takes the upper half of the shards, and with it the stream of events
		}
		a.keep(string(rune('a'+i)), plans...)
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
	return a.rest(within)
}

// shortWindow makes the stream of alerts with a duplicate window that any death of a node outlasts.
func shortWindow(a *arena, _ *rand.Rand) { a.makeAlerts(100 * time.Millisecond) }

// makeAlerts makes the stream of alerts before a node does, with a duplicate window.
func (a *arena) makeAlerts(window time.Duration) {
	a.Helper()
	if _, err := a.jetStream().CreateStream(a.Context(), jetstream.StreamConfig{
		Name: "DEADMAN_ALERTS", Subjects: []string{"deadman.alerts.>"}, Duplicates: window,
		Discard: jetstream.DiscardNew, AllowDirect: true, AllowAtomicPublish: true,
	}); err != nil {
		a.Fatal(err)
	}
}
