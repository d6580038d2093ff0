package faults_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The places where a node can be killed, stopped and slowed. They are marked in the code by failpoints.Point and
// failpoints.PointErr.
var (
	intakeFailpoints = []string{"reader.message", "intake.read", "apply.commit", "intake.applied", "intake.mark", "intake.marked"}
	settleFailpoints = []string{"settle.write", "settle.written"}
	relayFailpoints  = []string{"relay.read", "relay.published", "relay.marked"}
	sourceFailpoints = []string{"find.found", "outage.met", "settle.write", "settle.written"}
	tickFailpoints   = []string{"tick.emitted", "tick.emitted", "apply.commit"}
	notifyFailpoints = []string{"notify.claimed", "notify.sent"}
	failing          = []string{"intake.applied", "settle.written", "relay.published"} // where an answer can be lost
)

// scenario is one run of the campaign, determined by its seed.
type scenario struct {
	seed     uint64
	kind     string
	brokers  int              // 0: in the node, with SQLite
	database func(a *testbed) // sets up the database; nil: onPostgres
	nodes    [][]string       // of each node, the plans of its lives
	linger   time.Duration    // how long a stopped node stays stopped after others have taken its shards

	stage func(a *testbed, random *rand.Rand) // setup before the nodes start
	upset func(a *testbed, random *rand.Rand) // faults while events are played
}

// kind is a kind of scenarios.
type kind struct {
	name  string
	times int // occurrences in a round of the campaign
	draw  func(s *scenario, random *rand.Rand)
}

// kinds are all kinds. They break nodes, connections and brokers (this file), and clocks, streams, rules, databases and
// versions (other files). New kinds are added at the end, so that existing seeds keep their scenarios in the first
// round.
var kinds = []kind{
	{"kill", 3, drawKill},
	{"kill two", 2, drawKillTwo},
	{"takeover", 2, drawTakeover},
	{"broker", 2, drawBroker},
	{"link", 3, drawLink("link")},
	{"database", 2, drawLink("database")},
	{"answers", 1, drawAnswers},
	{"window", 1, drawWindow},
	{"people", 1, drawNotifications},
	{"embedded", 1, drawEmbedded},
	{"late", 1, drawLate},
	{"cluster", 1, drawServer},
	{"source", 3, drawSource},
	{"tick", 1, drawTick},
	{"clock", 2, drawClock},
	{"node's clock", 1, drawNodeClock},
	{"clock set back", 2, drawSetBack},
	{"loss", 3, drawLoss},
	{"streams", 3, drawStreams},
	{"saving", 2, drawSaving},
	{"no broker", 1, drawNoBroker},
	{"no settle", 1, drawNoSettle},
	{"crash", 1, drawCrash},
	{"synchronous", 1, drawFailover(true)},
	{"asynchronous", 1, drawFailover(false)},
	{"large", 2, drawLarge},
	{"older", 2, drawOlder},
	{"alerts lost", 2, drawAlertsLost},
	{"made again", 2, drawRecreated},
	{"schedules", 2, drawSchedules},
	{"history", 2, drawHistory},
	{"schedules in SQLite", 1, drawSchedulesInSQLite},
}

// round lists the kinds of consecutive seeds.
var round = func() (all []kind) {
	for _, k := range kinds {
		all = append(all, slices.Repeat([]kind{k}, k.times)...)
	}
	return all
}()

// scenarioOf returns the scenario of a seed. Consecutive seeds iterate over the kinds.
func scenarioOf(seed uint64) scenario {
	k := round[seed%uint64(len(round))]
	s := scenario{seed: seed, kind: k.name, brokers: 1}
	k.draw(&s, rand.New(rand.NewPCG(seed, 1)))
	return s
}

func drawKill(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{killPlans(random, 1+random.IntN(3), failpointsOf(random))}
}

func drawKillTwo(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{killPlans(random, 2, failpointsOf(random)), killPlans(random, 1, failpointsOf(random))}
}

func drawTakeover(s *scenario, random *rand.Rand) {
	place := []string{"settle.write", "intake.read", "apply.commit", "intake.applied", "intake.mark", "relay.read", "relay.published"}[random.IntN(7)]
	s.nodes = [][]string{nodePlan(random), {seeded(random, fmt.Sprintf("%s=stop@%d", place, 1+random.IntN(3)))}}
	s.linger = span(random, 0, 800*time.Millisecond)
}

func drawBroker(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{nodePlan(random)}
	s.upset = killBroker
}

func drawLink(kind string) func(*scenario, *rand.Rand) {
	return func(s *scenario, random *rand.Rand) {
		s.nodes = [][]string{nodePlan(random)}
		s.addNode(random, 3)
		s.upset = breakLink(kind, "cut", "half-open", "slow", "narrow", "torn")
	}
}

func drawAnswers(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{{seeded(random, fmt.Sprintf("%s=error@0.3;%s=error@0.2", failing[random.IntN(3)], failing[random.IntN(3)]))}}
}

func drawWindow(s *scenario, random *rand.Rand) {
	s.stage = shortWindow
	s.nodes = [][]string{killPlans(random, 3, []string{"relay.published"})}
}

func drawNotifications(s *scenario, random *rand.Rand) {
	s.stage = startNotifications
	s.nodes = [][]string{killPlans(random, 1, notifyFailpoints)}
}

func drawEmbedded(s *scenario, random *rand.Rand) {
	s.brokers = 0
	s.nodes = [][]string{killPlans(random, 1+random.IntN(3), failpointsOf(random))}
}

func drawLate(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{{seeded(random, "")}}
	s.upset = breakLink("link", "late")
}

func drawServer(s *scenario, random *rand.Rand) {
	s.brokers = 3
	s.nodes = [][]string{nodePlan(random)}
	s.upset = loseServer
}

func drawSource(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{nodePlan(random)}
	if random.IntN(3) > 0 {
		s.nodes = [][]string{killPlans(random, 1+random.IntN(2), sourceFailpoints)}
	}
	s.addNode(random, 3)
	s.addLookups(disturbSources)
}

func drawTick(s *scenario, random *rand.Rand) {
	lives := make([]string, 1+random.IntN(2))
	for i := range lives {
		lives[i] = seeded(random, fmt.Sprintf("%s=kill@%d", tickFailpoints[random.IntN(len(tickFailpoints))], 1+random.IntN(3)))
	}
	s.stage = openTicks
	s.nodes = [][]string{lives}
	s.addNode(random, 3)
}

// addNode adds an undisturbed node, once in so many scenarios.
func (s *scenario) addNode(random *rand.Rand, once int) {
	if random.IntN(once) == 0 {
		s.nodes = append(s.nodes, []string{""})
	}
}

// addLookups makes the rules query sources with the faults of upset.
func (s *scenario) addLookups(upset func(*shop, *rand.Rand)) {
	var open *shop
	s.stage = func(a *testbed, _ *rand.Rand) { open = openShop(a, s.kills()) }
	s.upset = func(_ *testbed, random *rand.Rand) { upset(open, random) }
}

// nodePlan returns the plan of a node with a slow place, or with none.
func nodePlan(random *rand.Rand) []string { return []string{seeded(random, slow(random))} }

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

// failpointsOf draws a stage of event processing.
func failpointsOf(random *rand.Rand) []string {
	return [][]string{intakeFailpoints, intakeFailpoints, settleFailpoints, relayFailpoints}[random.IntN(4)]
}

// killPlans returns the plans of n lives that end at one of the places.
func killPlans(random *rand.Rand, n int, places []string) []string {
	plans := make([]string, n)
	for i := range plans {
		plans[i] = seeded(random, fmt.Sprintf("%s=kill@%d;%s", places[random.IntN(len(places))], 1+random.IntN(5), slow(random)))
	}
	return plans
}

// slow returns a place with occasional delays, or none.
func slow(random *rand.Rand) string {
	all := append(append(append([]string{}, intakeFailpoints[1:]...), settleFailpoints...), relayFailpoints...)
	if random.IntN(2) == 0 {
		return ""
	}
	return fmt.Sprintf("%s=sleep:%dms@0.2", all[random.IntN(len(all))], 20+random.IntN(300))
}

// seeded adds a random seed to a plan.
func seeded(random *rand.Rand, faults string) string {
	return fmt.Sprintf("seed=%d;%s", random.Uint32(), faults)
}

// span draws a duration.
func span(random *rand.Rand, least, limit time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(limit-least)))
}

// killBroker kills and restarts the broker, once or twice.
func killBroker(a *testbed, random *rand.Rand) {
	for range 1 + random.IntN(2) {
		pause(span(random, 200*time.Millisecond, 1200*time.Millisecond))
		a.record("the broker is killed")
		a.servers[0].kill()
		pause(span(random, 50*time.Millisecond, 900*time.Millisecond))
		a.record("the broker starts")
		a.servers[0].start()
	}
}

// loseServer kills one server of a cluster, and mostly restarts it.
func loseServer(a *testbed, random *rand.Rand) {
	pause(span(random, 200*time.Millisecond, 1200*time.Millisecond))
	lost := a.servers[random.IntN(len(a.servers))]
	a.record("server %s is killed", lost.Name)
	lost.kill()
	if random.IntN(3) > 0 {
		pause(span(random, 500*time.Millisecond, 2*time.Second))
		a.record("server %s starts", lost.Name)
		lost.start()
	}
}

// breakLink injects one or two of the faults into the link to the broker or to the database.
func breakLink(kind string, names ...string) func(*testbed, *rand.Rand) {
	return func(a *testbed, random *rand.Rand) {
		l := a.broker
		if kind == "database" {
			l = a.database
		}
		for range 1 + random.IntN(2) {
			pause(span(random, 200*time.Millisecond, 900*time.Millisecond))
			f := faultOf(random, names[random.IntN(len(names))])
			a.record("the %s is %s", kind, f.name)
			l.injectFor(f, span(random, 200*time.Millisecond, 1500*time.Millisecond))
			a.record("the %s is whole again", kind)
		}
	}
}
