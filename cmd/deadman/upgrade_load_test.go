package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/longtest"
)

// orderRule raises an alert for each order that is not done within 2 s.
const orderRule = `
name: upgrade
entity: order
trigger: {event: upgrade.begun, key: event.id}
resolve: {event: upgrade.done, key: event.id}
escalate: [{after: 2s, step: late, severity: error}, {after: 1h, step: lost, severity: critical}]
slot: 1s
`

// orderKinds are the kinds of orders of the load, which take turns.
var orderKinds = []struct {
	done     time.Duration // after the start of the order; 0: with the start, negative: never
	statuses string        // of its alerts in the stream
}{
	{0, ""},
	{time.Second, ""},
	{-1, "firing"},
	{10 * time.Second, "firing resolved"}, // longer than a check may be late
}

// newerCalendar and newerRule are documents of the newer version. The older one knows no calendars of the database, and
// cannot read the rule.
const (
	newerCalendar = "calendars: {always: {zone: UTC}}\n"
	newerRule     = `
name: newer
entity: order
trigger: {event: newer.begun, key: event.id}
escalate: [{after: 2s, of: always, step: late, severity: error}]
slot: 1s
`
)

// loadedOrder is an order of the load.
type loadedOrder struct {
	key   string
	kind  int
	begun time.Time
	phase string // of the upgrade, at the start of the order
}

// orderLoad publishes the events of orders.
type orderLoad struct {
	f       *fleet
	running sync.WaitGroup
	cancel  context.CancelFunc

	mu     sync.Mutex
	phase  string
	phases []string
	orders []loadedOrder
}

// startOrders starts a load of about 100 orders a second.
func (f *fleet) startOrders() *orderLoad {
	ctx, cancel := context.WithCancel(f.Context())
	l := &orderLoad{f: f, cancel: cancel}
	l.running.Go(func() { l.publishUntil(ctx) })
	return l
}

// publishUntil publishes the start of orders until the context ends, and then the rest of their events.
func (l *orderLoad) publishUntil(ctx context.Context) {
	waiting := make([][]loadedOrder, len(orderKinds)) // of each kind, the oldest first
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i, rest := 0, 1; ctx.Err() == nil || rest > 0; i++ {
		if ctx.Err() == nil {
			o := loadedOrder{key: fmt.Sprintf("k%06d", i), kind: i % len(orderKinds), begun: time.Now()}
			l.mu.Lock()
			o.phase = l.phase
			l.orders = append(l.orders, o)
			l.mu.Unlock()
			l.publish("upgrade.begun", o.key)
			if orderKinds[o.kind].done >= 0 {
				waiting[o.kind] = append(waiting[o.kind], o)
			}
		}
		rest = 0
		for kind, orders := range waiting {
			for len(orders) > 0 && time.Since(orders[0].begun) >= orderKinds[kind].done {
				l.publish("upgrade.done", orders[0].key)
				orders = orders[1:]
			}
			waiting[kind] = orders
			rest += len(orders)
		}
		<-tick.C
	}
}

func (l *orderLoad) publish(subject, key string) {
	if _, err := l.f.js.Publish(context.Background(), subject, fmt.Appendf(nil, `{"id":%q}`, key)); err != nil {
		l.f.Errorf("publish: %v", err)
	}
}

// publishNewer publishes the start of n orders of the newer rule.
func (l *orderLoad) publishNewer(from, n int) {
	for i := range n {
		l.publish("newer.begun", fmt.Sprintf("n%d", from+i))
	}
}

// enter begins a phase of the upgrade. The load goes on for a number of further orders before enter returns.
func (l *orderLoad) enter(phase string, further int, do func()) {
	l.f.Helper()
	l.mu.Lock()
	l.phase = phase
	l.phases = append(l.phases, phase)
	begun := len(l.orders)
	l.mu.Unlock()
	do()
	l.f.eventually("the load goes on: "+phase, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.orders) >= begun+further
	})
}

// stop ends the load and returns its orders.
func (l *orderLoad) stop() []loadedOrder {
	l.cancel()
	l.running.Wait()
	return l.orders
}

// phaseFigures are the figures of a phase.
type phaseFigures struct {
	orders, alerts    int
	lost, twice, more int // alerts: missing, repeated, of orders that were done in time
	late              []time.Duration
}

// judge compares the alerts of each order with the expected ones, and logs the figures of each phase.
func (l *orderLoad) judge() {
	f, orders := l.f, l.stop()
	f.Helper()
	count := func(text string) int {
		return f.queryInt(text + ` JOIN rule r ON r.id = x.rule_id WHERE r.name = 'upgrade'`)
	}
	firing := 0
	for _, o := range orders {
		if orderKinds[o.kind].statuses != "" {
			firing++
		}
	}
	f.eventually("all events are read and all alerts are decided", func() bool {
		return count(`SELECT count(*) FROM history x`)+count(`SELECT count(*) FROM future_job x`) >= len(orders) &&
			count(`SELECT count(*) FROM alert x`) >= firing+firing/2 && f.queryInt(`SELECT count(*) FROM future_job WHERE next_check_at <= now()`) == 0
	})
	f.eventually("all alerts are published", func() bool { return f.queryInt(`SELECT count(*) FROM alert_outbox`) == 0 })

	const ofRule = ` JOIN rule r ON r.id = x.rule_id WHERE r.name = 'upgrade' GROUP BY x.key`
	jobs := f.queryCounts(`SELECT x.key, count(*) FROM (SELECT key, rule_id FROM history UNION ALL SELECT key, rule_id FROM future_job) AS x` + ofRule)
	decided := f.queryCounts(`SELECT x.key, count(*) FROM alert x` + ofRule)
	alerts, figures := f.publishedByKey(), map[string]*phaseFigures{}
	for _, phase := range l.phases {
		figures[phase] = &phaseFigures{}
	}
	for _, o := range orders {
		if jobs[o.key] != 1 || decided[o.key] != len(alerts[o.key]) {
			f.Errorf("%s: order %s has %d jobs, %d alerts decided and %d published", o.phase, o.key, jobs[o.key], decided[o.key], len(alerts[o.key]))
		}
		if got := figures[o.phase].add(o, alerts[o.key]); got != orderKinds[o.kind].statuses {
			f.Errorf("%s: the alerts of order %s are %q, want %q", o.phase, o.key, got, orderKinds[o.kind].statuses)
		}
	}
	if n := len(jobs) - len(orders); n != 0 {
		f.Errorf("%d jobs of no order", n)
	}
	for _, phase := range l.phases {
		p := figures[phase]
		slices.Sort(p.late)
		f.Logf("| %s | %d | %d | %d | %d | %d | %s | %s |", phase, p.orders, p.alerts, p.lost, p.twice, p.more,
			p.late[len(p.late)*99/100].Round(10*time.Millisecond), p.late[len(p.late)-1].Round(10*time.Millisecond))
	}
}

// add counts the alerts of an order, and returns their statuses.
func (p *phaseFigures) add(o loadedOrder, alerts []published) string {
	p.orders++
	var statuses []string
	ids := map[string]bool{}
	for _, a := range alerts {
		if ids[a.id] {
			p.twice++
		}
		ids[a.id] = true
		statuses = append(statuses, a.status)
	}
	wanted := len(strings.Fields(orderKinds[o.kind].statuses))
	p.alerts += len(ids)
	p.lost += max(wanted-len(ids), 0)
	p.more += max(len(ids)-wanted, 0)
	if len(alerts) > 0 {
		due := o.begun.Add(2 * time.Second).Truncate(time.Second).Add(time.Second) // the next slot
		p.late = append(p.late, max(alerts[0].at.Sub(due), 0))
	}
	return strings.Join(statuses, " ")
}

// withRoles creates the Postgres users of deploy/postgres-roles.sql. The nodes of the fleet run as the user without DDL
// rights; the returned fleet has the programs of the schema's owner.
func (f *fleet) withRoles() (owner *fleet) {
	f.Helper()
	script, err := os.ReadFile(filepath.Join(repository(f.T), "deploy", "postgres-roles.sql"))
	if err != nil {
		f.Fatal(err)
	}
	before, after, _ := strings.Cut(string(script), "\\connect deadman\n")
	superuser := strings.Replace(f.dsn, "/postgres?", "/deadman?", 1)
	for _, part := range []struct{ dsn, text string }{{f.dsn, before}, {superuser, after}} {
		c, err := pgx.Connect(f.Context(), part.dsn)
		if err != nil {
			f.Fatal(err)
		}
		for paragraph := range strings.SplitSeq(part.text, "\n\n") { // CREATE DATABASE has to be sent alone
			if _, err := c.PgConn().Exec(f.Context(), paragraph).ReadAll(); err != nil {
				f.Fatalf("%s\n%v", paragraph, err)
			}
		}
		if err := c.Close(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
	if err := f.db.Close(); err != nil {
		f.Fatal(err)
	}
	if f.db, err = sql.Open("pgx", superuser); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = f.db.Close() })
	o := *f
	o.dsn = strings.Replace(superuser, "postgres@", "deadman_owner@", 1)
	f.dsn = strings.Replace(superuser, "postgres@", "deadman@", 1)
	return &o
}

// runOn runs a command of the current version against a node.
func (f *fleet) runOn(m *fleetNode, args ...string) {
	f.Helper()
	cmd := command(f.Context(), f.T, []string{"DEADMAN_URL=" + m.url()}, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		f.Errorf("%v: %v\n%s", args, err, out)
	}
}

// messages returns the messages of levels in a node's log, with their numbers. It leaves out the known
// errors of a node of the older version: a sweep that the end of the node cuts off, and the newer rule.
func (m *fleetNode) messages(levels ...string) map[string]int {
	counts := map[string]int{}
	for line := range strings.Lines(m.log.String()) {
		var entry struct{ Level, Msg, Err string }
		isKnown := func() bool {
			return strings.HasSuffix(entry.Err, context.Canceled.Error()) || strings.Contains(entry.Err, "rule newer version ")
		}
		if json.Unmarshal([]byte(line), &entry) == nil && slices.Contains(levels, entry.Level) && !isKnown() {
			counts[entry.Level+" "+entry.Msg+": "+entry.Err]++
		}
	}
	return counts
}

// TestUpgradeUnderLoad upgrades two nodes of the last version with an older schema, and goes back, while orders begin and
// end. The schema's owner migrates, and the nodes run as a user without DDL rights. Each order has its alerts exactly once.
func TestUpgradeUnderLoad(t *testing.T) {
	longtest.Only(t, "it upgrades and goes back under load, which takes minutes")
	if runtime.GOOS == "windows" {
		t.Skip("nodes are stopped by a signal")
	}
	older, newer := buildOlder(t), os.Args[0]
	f := newFleet(t)
	if _, err := f.js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "UPGRADE", Subjects: []string{"upgrade.>", "newer.>"}}); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Dir(f.rules), "rules/upgrade.yaml", orderRule)
	owner := f.withRoles()
	owner.runProgram(older, exitOK, "applied: ", "migrate")
	before := f.queryInt(`SELECT max(version_id) FROM schema_version`)
	nodes := []*fleetNode{f.startReady(older), f.startReady(older)}
	all := slices.Clone(nodes)
	replace := func(i int, program string) {
		nodes[i].stop()
		nodes[i] = f.startReady(program)
		all = append(all, nodes[i])
		f.eventually("both hold shards", func() bool { return f.holders() == 2 })
	}

	const further = 1000
	l := f.startOrders()
	l.enter("two older nodes, older schema", further, func() {})
	l.enter("a newer node is refused", further, func() {
		f.runProgram(newer, exitFailure, "deadman migrate", "serve", "--http-addr", "127.0.0.1:0", "--rules", f.rules)
		f.runProgram(newer, exitCondition, "pending: ", "migrate", "--check")
	})
	l.enter("the owner migrates", further, func() {
		owner.runProgram(newer, exitOK, "applied: ", "migrate")
		if after := f.queryInt(`SELECT max(version_id) FROM schema_version`); after != before+1 {
			t.Errorf("the schema went from version %d to %d", before, after)
		}
	})
	l.enter("one node of each version", further, func() { replace(0, newer) })
	const newOrders = 200
	l.enter("a rule for the newer version only", further, func() {
		f.runOn(nodes[0], "calendar", "apply", writeFile(t, t.TempDir(), "calendars.yaml", newerCalendar))
		f.runOn(nodes[0], "rule", "apply", writeFile(t, t.TempDir(), "newer.yaml", newerRule))
		l.publishNewer(0, newOrders)
	})
	l.enter("two newer nodes", further, func() { replace(1, newer) })
	l.enter("back to one node of each version", further, func() { replace(0, older) })
	l.enter("back to two older nodes, newer schema", further, func() {
		replace(1, older)
		l.publishNewer(newOrders, newOrders)
	})
	l.enter("again two newer nodes", further, func() { replace(0, newer); replace(1, newer) })
	l.judge()
	// A node of the older version refused the events of the newer rule. They are dead letters, and none is lost.
	if n := f.queryInt(`SELECT count(*) FROM dead_letter WHERE rule = 'newer'`); n < newOrders {
		t.Errorf("%d events of the newer rule are dead letters, want %d or more", n, newOrders)
	}
	f.runOn(nodes[0], "dead-letter", "retry", "--rule", "newer")
	f.eventually("each order of the newer rule has its alert", func() bool {
		return f.queryInt(`SELECT count(DISTINCT x.key) FROM alert x JOIN rule r ON r.id = x.rule_id WHERE r.name = 'newer'`) == 2*newOrders
	})
	if n := f.queryInt(`SELECT count(*) FROM alert x JOIN rule r ON r.id = x.rule_id WHERE r.name = 'newer'`); n != 2*newOrders {
		t.Errorf("%d orders of the newer rule have %d alerts", 2*newOrders, n)
	}
	for _, m := range all {
		if found := m.messages("ERROR"); len(found) > 0 {
			t.Errorf("%s logs errors: %v", filepath.Base(m.cmd.Path), found)
		}
		t.Logf("%s warns: %v", filepath.Base(m.cmd.Path), slices.Sorted(maps.Keys(m.messages("WARN"))))
	}
}
