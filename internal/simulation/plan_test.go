package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// server is what a node calls.
type server int

const (
	database server = iota
	streams
)

// kind is a kind of fault.
type kind string

// The kinds of faults. Those without a node are of all nodes.
const (
	kill         kind = "kill"               // the node dies, and starts again at the end
	stop         kind = "stop"               // the node stops in order, and starts again at the end
	pause        kind = "pause"              // the node stands still, and wakes up at the end
	sleep        kind = "machine sleeps"     // the node stands still, and so does its clock
	hang         kind = "writes hang"        // they reach the database at the end, also those that the node gave up or did not survive
	stuck        kind = "calls are stuck"    // a share of the calls of the database, or of their answers, takes longer than a lease
	publications kind = "publications break" // alerts are refused, stored in part, or stored without an acknowledgement
	election     kind = "election"           // the streams have no leader that knows their end
)

// The kinds of faults of a server.
var (
	stalls = map[server]kind{database: "database stalls", streams: "broker stalls"}
	fails  = map[server]kind{database: "database calls fail", streams: "broker calls fail"}
	slow   = map[server]kind{database: "database is slow", streams: "broker is slow"}
)

// fault is one fault.
type fault struct {
	kind     kind
	node     string // empty: all
	from, to time.Time
	share    float64 // of the calls that fail, or that are slow
}

// lastEffect returns when the last call that began during the fault is over.
func (f fault) lastEffect() time.Time {
	switch f.kind {
	case slow[database], slow[streams]:
		return f.to.Add(2 * slowMost) // the call, and its answer
	case stuck:
		return f.to.Add(2 * stuckMost)
	case sleep:
		return f.to.Add(doubtMost)
	case hang:
		return f.to.Add(time.Second)
	}
	return f.to
}

func (f fault) String() string {
	text := string(f.kind)
	if f.node != "" {
		text += " " + f.node
	}
	return text + " for " + f.to.Sub(f.from).String()
}

// orderRule is a rule of a plan. Its document is made from its fields, and the judge reads the fields.
type orderRule struct {
	name         string
	shipping     string // stream of the events that resolve
	steps        []time.Duration
	slot         time.Duration
	hold         time.Duration
	restarts     bool     // by another event of its trigger; its events have one stream
	ticks        schedule // instead of events
	beats        beat     // instead of events
	hasCondition bool     // while
	stored       string   // subject of the events of its stored schedules, instead of events; empty: it has none
}

func (r orderRule) document() string {
	if r.stored != "" {
		return r.storedDocument()
	}
	if r.ticks.every > 0 {
		return r.tickDocument()
	}
	if r.beats.every > 0 {
		return r.beatDocument()
	}
	if r.hasCondition {
		return r.conditionDocument()
	}
	text := fmt.Sprintf("name: %s\nentity: order\ntrigger: {event: orders.created, key: event.id}\nresolve: {event: %s, key: event.id}\n", r.name, r.shippedSubject()) +
		r.escalate() + fmt.Sprintf("slot: %s\nhold: %s\n", r.slot, r.hold)
	if r.restarts {
		text += "again: restart\n"
	}
	return text
}

// escalate returns the steps as text.
func (r orderRule) escalate() string {
	text := "escalate:\n"
	for i, after := range r.steps {
		text += fmt.Sprintf("  - {after: %s, step: step-%d, severity: warning}\n", after, i)
	}
	return text
}

// created is the subject of the events that begin jobs.
const created = "orders.created"

// streamOf returns the stream of a subject of orderRule.
func streamOf(subject string) string {
	name, _, _ := strings.Cut(subject, ".")
	return strings.ToUpper(name)
}

// publication is an event that a producer publishes, again and again until the stream acknowledges it.
type publication struct {
	at           time.Time
	subject, key string
	refusals     int // until the stream stores it
	copies       int // stored, of 1 and more: acknowledgements were lost
	lag          time.Duration
	isEnough     bool // of a counted article
}

// cut is the deletion of all messages of a stream.
type cut struct {
	at        time.Time
	stream    string
	recreates bool // the stream is replaced by an empty one
}

// plan is what happens in a run, apart from what deadman does.
type plan struct {
	seed            uint64 // of the luck of each call
	begin           time.Time
	nodes           []string
	clocks          map[string]nodeClock // by node
	rules           []orderRule
	ticking         []orderRule // with schedules
	withHeartbeats  []orderRule // with heartbeats
	withConditions  []orderRule // with a condition
	withStored      []orderRule // with stored schedules
	withPings       []orderRule // with heartbeats that come as pings
	pings           []plannedPing
	events          []publication
	changes         []change // of the rules
	scheduleChanges []scheduleChange
	acks            []ack
	faults          []fault
	cuts            []cut
}

// The form of a run.
const (
	faultyFor  = 2 * time.Minute  // from the first event on
	calmFor    = 30 * time.Second // after the last check, until the judgement
	holdMost   = 40 * time.Second
	leaseFor   = 10 * time.Second
	faultsMost = 6
	doubtMost  = 12 * time.Second // until a node follows a clock of the database that seems to have stepped
	slowMost   = 8 * time.Second  // of a call, or of its answer
	stuckMost  = 20 * time.Second // of a call, or of its answer
)

// epoch is when virtual time begins: the clock of testing/synctest begins there.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// draw draws a plan. All of it derives from the seed.
func draw(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := plan{seed: seed, begin: epoch, clocks: make(map[string]nodeClock), nodes: []string{"a", "b", "c"}[:[]int{1, 2, 2, 2, 3, 3}[r.IntN(6)]]}
	for i := range 1 + r.IntN(2) {
		rule := drawRule(r, i)
		rule.restarts = rule.shipping == "ORDERS" && r.IntN(2) == 0
		p.rules = append(p.rules, rule)
	}
	last := epoch
	for i := range 4 + r.IntN(16) {
		last = p.drawOrder(r, fmt.Sprintf("order-%d", i), last)
	}
	slices.SortStableFunc(p.events, func(a, b publication) int { return a.at.Compare(b.at) })
	for range r.IntN(faultsMost + 1) {
		p.faults = append(p.faults, p.drawFault(r))
	}
	if r.IntN(5) == 0 {
		p.cuts = append(p.cuts, cut{epoch.Add(ms(r, 0, faultyFor+30*time.Second)), []string{"ORDERS", "SHIPMENTS"}[r.IntN(2)], r.IntN(2) == 0})
	}
	p.drawCases(r)
	p.drawChanges(r)
	p.drawAcks(r)
	p.drawTicks(r)
	for _, name := range p.nodes {
		p.clocks[name] = nodeClock{ms(r, -aheadMost, aheadMost), driftMost * (2*r.Float64() - 1)}
	}
	p.drawBeats(r)
	p.drawConditions(r)
	p.drawStored(r)
	p.drawPings(r)
	return p
}

// end returns when the last job has ended, at the latest.
func (p plan) end() (at time.Time) {
	at = p.begin
	for _, f := range p.faults {
		at = later(at, f.lastEffect().Add(holdMost+30*time.Second))
	}
	for _, c := range p.changes {
		at = later(at, c.at)
	}
	for _, c := range p.scheduleChanges {
		at = later(at, c.at.Add(c.delay))
	}
	for _, e := range p.events {
		for _, rule := range p.versions() {
			at = later(at, e.at.Add(rule.steps[len(rule.steps)-1]+rule.hold+2*rule.slot))
		}
	}
	return at.Add(calmFor)
}

// saved returns the rules that are saved at first, in the order of their ids.
func (p plan) saved() []orderRule {
	return slices.Concat(p.rules, p.ticking, p.withHeartbeats, p.withConditions, p.withStored, p.withPings)
}

// versions returns all versions of the rules with orders.
func (p plan) versions() []orderRule {
	all := slices.Clone(p.rules)
	for _, c := range p.changes {
		if c.kind == saves && c.rule.stored == "" {
			all = append(all, c.rule)
		}
	}
	return all
}

// subjects returns the subjects that the rules read.
func (p plan) subjects() []string {
	all := []string{created, beats, stockLow, stockCounted}
	for _, r := range p.rules {
		all = append(all, r.shippedSubject())
	}
	return all
}

// without returns a copy of a list without its i-th element.
func without[T any](all []T, i int) []T { return slices.Delete(slices.Clone(all), i, i+1) }

// shorter returns the plans that lack one part of a plan: a fault, an event or a node.
func (p plan) shorter() (all []plan) {
	for i := range p.faults {
		less := p
		less.faults = without(p.faults, i)
		all = append(all, less)
	}
	for i := range p.events {
		less := p
		less.events = without(p.events, i)
		all = append(all, less)
	}
	for i, c := range p.changes {
		if c.kind == deletes && c.rule.ticks.every+c.rule.beats.every > 0 || c.rule.stored != "" && p.isLast(i) {
			continue
		}
		less := p
		less.changes = without(p.changes, i)
		all = append(all, less)
	}
	for i := 1; i < len(p.scheduleChanges); i++ {
		less := p
		less.scheduleChanges = without(p.scheduleChanges, i)
		all = append(all, less)
	}
	for i := range p.pings {
		less := p
		less.pings = without(p.pings, i)
		all = append(all, less)
	}
	for i := range p.acks {
		less := p
		less.acks = without(p.acks, i)
		all = append(all, less)
	}
	all = append(all, p.withoutRules()...)
	if len(p.cuts) > 0 {
		less := p
		less.cuts = nil
		all = append(all, less)
	}
	if last := len(p.nodes) - 1; last > 0 {
		less := p
		less.nodes = p.nodes[:last]
		less.faults = slices.DeleteFunc(slices.Clone(p.faults), func(f fault) bool { return f.node == p.nodes[last] })
		all = append(all, less)
	}
	return all
}

// withoutRules returns the plans that lack the rules of one kind.
func (p plan) withoutRules() (all []plan) {
	if len(p.ticking) > 0 {
		less := p
		less.ticking = nil
		less.changes = slices.DeleteFunc(slices.Clone(p.changes), func(c change) bool { return c.rule.ticks.every > 0 })
		all = append(all, less)
	}
	if len(p.withConditions) > 0 {
		less := p
		less.withConditions = nil
		less.events = slices.DeleteFunc(slices.Clone(p.events), func(e publication) bool { return streamOf(e.subject) == "STOCK" })
		all = append(all, less)
	}
	if len(p.withHeartbeats) > 0 {
		less := p
		less.withHeartbeats = nil
		less.changes = slices.DeleteFunc(slices.Clone(p.changes), func(c change) bool { return c.rule.beats.every > 0 && !c.rule.beats.arePings })
		less.events = slices.DeleteFunc(slices.Clone(p.events), func(e publication) bool { return e.subject == beats })
		all = append(all, less)
	}
	if len(p.withStored) > 0 {
		all = append(all, p.withoutStored())
	}
	if len(p.withPings) > 0 {
		less := p
		less.withPings, less.pings = nil, nil
		less.changes = slices.DeleteFunc(slices.Clone(p.changes), func(c change) bool { return c.rule.beats.arePings })
		all = append(all, less)
	}
	return all
}

// withoutStored returns the plan without its stored schedules.
func (p plan) withoutStored() plan {
	p.withStored, p.scheduleChanges = nil, nil
	p.changes = slices.DeleteFunc(slices.Clone(p.changes), func(c change) bool { return c.rule.stored != "" })
	return p
}

// isLast reports whether the i-th change is the last one of its rule.
func (p plan) isLast(i int) bool {
	return !slices.ContainsFunc(p.changes[i+1:], func(c change) bool { return c.rule.name == p.changes[i].rule.name })
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// ms draws a duration from a up to b in whole milliseconds.
func ms(r *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(r.Int64N(int64((b-a)/time.Millisecond)+1))*time.Millisecond
}

func drawRule(r *rand.Rand, i int) orderRule {
	rule := orderRule{
		name: fmt.Sprintf("unshipped-%d", i), shipping: []string{"ORDERS", "SHIPMENTS"}[r.IntN(2)],
		slot: []time.Duration{time.Second, 5 * time.Second, 15 * time.Second}[r.IntN(3)], hold: ms(r, 0, holdMost).Truncate(time.Second),
	}
	after := time.Duration(0)
	for range 1 + r.IntN(3) {
		after += ms(r, time.Second, 40*time.Second).Truncate(time.Second)
		rule.steps = append(rule.steps, after)
	}
	return rule
}

// drawOrder draws the events of an order: it is created, often shipped, often about when a step is due, and sometimes created
// again.
func (p *plan) drawOrder(r *rand.Rand, key string, last time.Time) time.Time {
	at := p.begin.Add(ms(r, time.Second, faultyFor))
	if r.IntN(4) == 0 { // close to another order
		at = last.Add(ms(r, 0, 20*time.Millisecond))
	}
	p.publish(r, at, created, key)
	if r.IntN(10) == 0 {
		p.publish(r, at.Add(ms(r, time.Millisecond, 2*time.Second)), created, key)
	}
	if r.IntN(10) < 7 {
		shipped := at.Add(ms(r, 300*time.Millisecond, 90*time.Second))
		if rule := p.rules[r.IntN(len(p.rules))]; r.IntN(2) == 0 {
			step := rule.steps[r.IntN(len(rule.steps))]
			shipped = slotUp(at.Add(step), rule.slot).Add(ms(r, -800*time.Millisecond, 3*time.Second))
		}
		p.publish(r, later(shipped, at.Add(300*time.Millisecond)), p.rules[r.IntN(len(p.rules))].shippedSubject(), key)
		if r.IntN(3) == 0 {
			p.publish(r, shipped.Add(ms(r, time.Second, 90*time.Second)), created, key)
		}
	}
	return at
}

func (r orderRule) shippedSubject() string { return strings.ToLower(r.shipping) + ".shipped" }

func (p *plan) publish(r *rand.Rand, at time.Time, subject, key string) {
	e := publication{at: at, subject: subject, key: key, copies: 1}
	switch r.IntN(12) {
	case 0:
		e.refusals = 1 + r.IntN(3)
	case 1:
		e.copies = 2
	case 2:
		e.lag = ms(r, 0, 4*time.Second)
	}
	p.events = append(p.events, e)
}

// drawFault draws a fault. Half of them begin about when a step is due.
func (p *plan) drawFault(r *rand.Rand) fault {
	from := p.begin.Add(ms(r, 0, faultyFor+30*time.Second))
	if r.IntN(2) == 0 {
		rule := p.rules[r.IntN(len(p.rules))]
		due := slotUp(p.events[r.IntN(len(p.events))].at.Add(rule.steps[r.IntN(len(rule.steps))]), rule.slot)
		from = later(p.begin, due.Add(time.Duration(r.Int64N(int64(200*time.Millisecond)))-100*time.Millisecond))
	}
	f := fault{from: from, to: from.Add(ms(r, 200*time.Millisecond, 25*time.Second))}
	node := p.nodes[r.IntN(len(p.nodes))]
	both := []server{database, streams}[r.IntN(2)]
	switch r.IntN(20) {
	case 0, 1:
		f.kind, f.node = kill, node
	case 2:
		f.kind, f.node = stop, node
	case 3, 4:
		f.kind, f.node = pause, node
	case 5:
		f.kind = stalls[both]
	case 6, 7:
		f.kind, f.share = fails[both], []float64{0.1, 0.5, 1}[r.IntN(3)]
	case 8, 9:
		f.kind, f.share = slow[both], []float64{0.05, 0.2, 0.5}[r.IntN(3)]
	case 10:
		f.kind = election
	case 11:
		f.kind = publications
	case 12, 13, 14, 15: // most of them longer than a lease
		f.kind, f.node, f.to = hang, node, later(f.to, from.Add(ms(r, 5*time.Second, 20*time.Second)))
	case 16, 17:
		f.kind, f.share = stuck, []float64{0.1, 0.3, 0.6}[r.IntN(3)]
	case 18, 19:
		f.kind, f.node = sleep, node
	}
	if f.share > 0 && r.IntN(2) == 0 {
		f.node = node
	}
	return f
}

// slotUp returns the first slot at or after a time. Slots are counted from midnight.
func slotUp(at time.Time, slot time.Duration) time.Time {
	down := at.Truncate(slot)
	if down.Equal(at) {
		return at
	}
	return down.Add(slot)
}
