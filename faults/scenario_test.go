package faults_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Where a node can be killed, stopped and slowed. The places are in the code, as
// failpoints.Here and failpoints.Fail.
var (
	intakePlaces = []string{"reader.message", "intake.read", "apply.commit", "intake.applied", "intake.mark", "intake.marked"}
	settlePlaces = []string{"settle.write", "settle.written"}
	relayPlaces  = []string{"relay.read", "relay.published", "relay.marked"}
	sourcePlaces = []string{"find.found", "outage.met", "settle.write", "settle.written"}
	tickPlaces   = []string{"tick.emitted", "tick.emitted", "apply.commit"}
	peoplePlaces = []string{"notify.claimed", "notify.sent"}
	failing      = []string{"intake.applied", "settle.written", "relay.published"} // where an answer can be lost
)

// scenario is one run of the campaign. The seed makes it.
type scenario struct {
	seed    uint64
	kind    string
	brokers int        // 0: in the node, with SQLite
	nodes   [][]string // of each node, the plans of its lives
	people  bool
	window  bool          // the duplicate window of the stream of alerts is shorter than a node's death
	ticks   bool          // in the place of orders
	linger  time.Duration // how long a node stands still after others have taken its shards
	upset   func(a *arena, random *rand.Rand)
	// sources is what goes wrong with the sources that rules look up in; nil: they look nothing up.
	sources func(s *shop, random *rand.Rand)
}

// kinds are the kinds of scenarios, the frequent ones several times.
var kinds = []string{
	"kill", "kill", "kill", "kill two", "kill two", "takeover", "takeover", "broker", "broker",
	"link", "link", "link", "database", "database", "answers", "window", "people", "embedded", "late", "cluster",
	"source", "source", "source", "tick",
}

// scenarioOf makes the scenario of a seed. Seeds that follow each other go through the kinds.
func scenarioOf(seed uint64) scenario {
	random := rand.New(rand.NewPCG(seed, 1))
	s := scenario{seed: seed, kind: kinds[seed%uint64(len(kinds))], brokers: 1}
	switch s.kind {
	case "kill":
		s.nodes = [][]string{deaths(random, 1+random.IntN(3), placesOf(random))}
	case "kill two":
		s.nodes = [][]string{deaths(random, 2, placesOf(random)), deaths(random, 1, placesOf(random))}
	case "takeover":
		place := []string{"settle.write", "intake.read", "apply.commit", "intake.applied", "intake.mark", "relay.read", "relay.published"}[random.IntN(7)]
		s.nodes = [][]string{{seeded(random, slow(random))}, {seeded(random, fmt.Sprintf("%s=stop@%d", place, 1+random.IntN(3)))}}
		s.linger = span(random, 0, 800*time.Millisecond)
	case "broker":
		s.nodes = [][]string{{seeded(random, slow(random))}}
		s.upset = killBroker
	case "link", "database":
		s.nodes = [][]string{{seeded(random, slow(random))}}
		if random.IntN(3) == 0 {
			s.nodes = append(s.nodes, []string{""})
		}
		s.upset = breakLink(s.kind, "cut", "half-open", "slow", "narrow", "torn")
	case "answers":
		s.nodes = [][]string{{seeded(random, fmt.Sprintf("%s=error@0.3;%s=error@0.2", failing[random.IntN(3)], failing[random.IntN(3)]))}}
	case "window":
		s.window = true
		s.nodes = [][]string{deaths(random, 3, []string{"relay.published"})}
	case "people":
		s.people = true
		s.nodes = [][]string{deaths(random, 1, peoplePlaces)}
	case "embedded":
		s.brokers = 0
		s.nodes = [][]string{deaths(random, 1+random.IntN(3), placesOf(random))}
	case "late":
		s.nodes = [][]string{{seeded(random, "")}}
		s.upset = breakLink("link", "late")
	case "cluster":
		s.brokers = 3
		s.nodes = [][]string{{seeded(random, slow(random))}}
		s.upset = loseServer
	case "tick":
		s.ticks = true
		lives := make([]string, 1+random.IntN(2))
		for i := range lives {
			lives[i] = seeded(random, fmt.Sprintf("%s=kill@%d", tickPlaces[random.IntN(len(tickPlaces))], 1+random.IntN(3)))
		}
		s.nodes = [][]string{lives}
		if random.IntN(3) == 0 {
			s.nodes = append(s.nodes, []string{""})
		}
	case "source":
		s.sources = upsetSources
		s.nodes = [][]string{{seeded(random, slow(random))}}
		if random.IntN(3) > 0 {
			s.nodes = [][]string{deaths(random, 1+random.IntN(2), sourcePlaces)}
		}
		if random.IntN(3) == 0 {
			s.nodes = append(s.nodes, []string{""})
		}
	}
	return s
}

// kills reports whether nodes die.
func (s scenario) kills() bool {
	return slices.ContainsFunc(slices.Concat(s.nodes...), func(plan string) bool { return strings.Contains(plan, "=kill") })
}

func (s scenario) String() string {
	lives := make([]string, len(s.nodes))
	for i, plans := range s.nodes {
		lives[i] = fmt.Sprintf("%q", plans)
	}
	return fmt.Sprintf("seed %d, %s: %s", s.seed, s.kind, strings.Join(lives, " beside "))
}

// placesOf draws a part of the way of an event.
func placesOf(random *rand.Rand) []string {
	return [][]string{intakePlaces, intakePlaces, settlePlaces, relayPlaces}[random.IntN(4)]
}

// deaths are the plans of so many lives that end at one of the places.
func deaths(random *rand.Rand, n int, places []string) []string {
	plans := make([]string, n)
	for i := range plans {
		plans[i] = seeded(random, fmt.Sprintf("%s=kill@%d;%s", places[random.IntN(len(places))], 1+random.IntN(5), slow(random)))
	}
	return plans
}

// slow is a place at which things take a while, now and then, or none.
func slow(random *rand.Rand) string {
	all := append(append(append([]string{}, intakePlaces[1:]...), settlePlaces...), relayPlaces...)
	if random.IntN(2) == 0 {
		return ""
	}
	return fmt.Sprintf("%s=sleep:%dms@0.2", all[random.IntN(len(all))], 20+random.IntN(300))
}

// seeded gives a plan a seed of its own.
func seeded(random *rand.Rand, faults string) string {
	return fmt.Sprintf("seed=%d;%s", random.Uint32(), faults)
}

// span draws how long something lasts.
func span(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

// killBroker kills the broker and starts it again, once or twice.
func killBroker(a *arena, random *rand.Rand) {
	for range 1 + random.IntN(2) {
		pause(span(random, 200*time.Millisecond, 1200*time.Millisecond))
		a.note("the broker is killed")
		a.servers[0].kill()
		pause(span(random, 50*time.Millisecond, 900*time.Millisecond))
		a.note("the broker starts")
		a.servers[0].start()
	}
}

// loseServer kills one server of a cluster, and mostly starts it again.
func loseServer(a *arena, random *rand.Rand) {
	pause(span(random, 200*time.Millisecond, 1200*time.Millisecond))
	lost := a.servers[random.IntN(len(a.servers))]
	a.note("server %s is killed", lost.Name)
	lost.kill()
	if random.IntN(3) > 0 {
		pause(span(random, 500*time.Millisecond, 2*time.Second))
		a.note("server %s starts", lost.Name)
		lost.start()
	}
}

// breakLink gives the link to the broker or to the database one or two of the faults.
func breakLink(kind string, names ...string) func(*arena, *rand.Rand) {
	return func(a *arena, random *rand.Rand) {
		l := a.broker
		if kind == "database" {
			l = a.database
		}
		for range 1 + random.IntN(2) {
			pause(span(random, 200*time.Millisecond, 900*time.Millisecond))
			f := faultOf(random, names[random.IntN(len(names))])
			a.note("the %s is %s", kind, f.name)
			l.have(f, span(random, 200*time.Millisecond, 1500*time.Millisecond))
			a.note("the %s is whole again", kind)
		}
	}
}
