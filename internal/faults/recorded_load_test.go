package faults_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus/bustest"
	"deadman/internal/longtest"
	"deadman/internal/store/storetest"
	"deadman/internal/tools/chart"
)

var (
	loadFor  = flag.Duration("load", time.Minute, "for how long TestDashboardsUnderLoad runs")
	loadFile = flag.String("load-samples", "", "JSON file for what the dashboards show in TestDashboardsUnderLoad; empty: none")
)

// The load of TestDashboardsUnderLoad.
const (
	loadRate    = 40              // orders a second
	loadBurst   = 5               // so many times that during the burst
	loadLate    = 20              // one order of so many is never shipped, and one is never paid
	loadShipped = 3 * time.Second // after the order
	loadTicks   = 10              // publications a second
	loadParts   = 24              // the time of the test has so many parts
)

// loadRules are an order that waits for its event, one whose payment is looked up, one of a tenant with a quota, a heartbeat
// by ping, and a schedule.
var loadRules = []string{soakRule, `
name: order-unpaid
entity: order
trigger: {event: orders.created, key: event.id}
lookup: {http: {source: payments, path: "/orders/{{key}}"}}
while: state.paid == false
escalate: [{after: 4s, step: unpaid, text: "order {{key}} is not paid"}]
guards: {timeout: 2s, interval: 5s}
slot: 1s
`, `
name: acme-order-unreviewed
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 1m, step: late, severity: info}]
hold: 1s
slot: 1s
`, `
name: device-silent
entity: device
trigger: {heartbeat: {every: 10s, grace: 5s, keys: [pump-0, pump-1, pump-2, pump-3, pump-4, pump-5, pump-6, pump-7, pump-8, pump-9]}}
escalate: [{after: 0s, step: silent}]
slot: 1s
`, `
name: import-missing
entity: import
trigger: {schedule: "@every 10s", keys: [customers, articles]}
escalate: [{after: 5s, step: late, severity: info}]
hold: 1s
slot: 1s
`}

// loadEvents are what happens, by the parts in which it begins and ends.
var loadEvents = []struct {
	name       string
	begin, end int
	do, undo   func(l *load)
}{
	{"burst of orders", 3, 4, func(l *load) { l.rate = loadRate * loadBurst }, func(l *load) { l.rate = loadRate }},
	{"slow source", 6, 8, func(l *load) { l.source.Store(slowAnswers) }, nil},
	{"source fails", 8, 11, func(l *load) { l.source.Store(failedAnswers) }, func(l *load) { l.source.Store(goodAnswers) }},
	{"receiver of notifications away", 12, 16, func(l *load) { l.away.Store(true) }, func(l *load) { l.away.Store(false) }},
	{"NATS stopped", 17, 18, func(l *load) { l.broker.kill() }, func(l *load) { l.broker.start() }},
	{"node b killed", 19, 21, func(l *load) { l.nodes[1].kill() }, func(l *load) { l.nodes[1] = l.startNode("b") }},
	{"Postgres unreachable", 22, 23, func(l *load) { l.database.inject(fault{}) }, func(l *load) { l.database.remove(fault{}) }},
}

// The answers of the source and of the receiver.
const (
	goodAnswers int32 = iota
	slowAnswers
	failedAnswers
)

// loadEmpty are the panels without values in this load, and the reason.
var loadEmpty = map[string]string{"Clients refused by the embedded server": "the NATS server is not embedded"}

// TestDashboardsUnderLoad runs two nodes on Postgres and NATS under a load in which parts fail, and reads what each panel of
// the dashboards shows from a Prometheus that scrapes the nodes. No panel is empty, and each event shows on its panel.
func TestDashboardsUnderLoad(t *testing.T) {
	longtest.Only(t, "it needs prometheus")
	l := newLoad(t)
	l.run()
	names, boards := l.scraper.dashboards(l.begun, time.Now())
	recorded := make(map[string]chart.Sheet)
	for i, b := range boards {
		for _, e := range loadEvents {
			b.Events = append(b.Events, chart.Event{Name: e.name, Begin: float64(e.begin) * b.Span / loadParts, End: float64(e.end) * b.Span / loadParts})
		}
		recorded[names[i]] = b
		for _, p := range b.Panels {
			if _, empty := loadEmpty[p.Title]; (len(p.Lines) == 0) != empty {
				t.Errorf("%s, %q: %d lines; expected to be empty: %t", b.Title, p.Title, len(p.Lines), empty)
			}
		}
	}
	if *loadFile == "" {
		return
	}
	text, err := json.Marshal(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*loadFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// load are two nodes with their neighbours.
type load struct {
	*testing.T
	program  string
	settings []string
	ports    map[string]int // of the nodes by name
	nodes    []*process
	broker   *natsProcess
	database *link
	nc       *nats.Conn
	scraper  *scraper
	source   atomic.Int32
	away     atomic.Bool
	pings    []string // paths of the devices

	begun   time.Time
	rate    int             // orders a second
	owed    int             // orders, in parts of loadTicks
	orders  []time.Duration // when each was published
	shipped int             // so many of them are shipped, or never will be
}

func newLoad(t *testing.T) *load {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	l := &load{T: t, program: path, ports: map[string]int{"a": bustest.Port(t), "b": bustest.Port(t)}, broker: newServers(t, 1)[0]}
	dsn, err := url.Parse(storetest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	l.database = between(t, dsn.Host)
	dsn.Host = l.database.addr()
	if l.nc, err = nats.Connect(l.broker.url(), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.nc.Close)
	js, err := jetstream.New(l.nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	neighbour := httptest.NewServer(http.HandlerFunc(l.answer))
	t.Cleanup(neighbour.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for i, text := range loadRules {
		write(fmt.Sprintf("rules/%d.yaml", i), text)
	}
	l.settings = []string{
		"--insecure", "--database-url", dsn.String(), "--nats-url", l.broker.url(), "--rules", filepath.Join(dir, "rules"), "--lease", "5s",
		"--sources", write("sources.yaml", fmt.Sprintf("sources: {payments: {http: {url: %q, allow: [127.0.0.0/8]}, concurrency: 16}}\n", neighbour.URL)),
		"--notify", write("notify.yaml", fmt.Sprintf("channels: {on-call: {kind: alertmanager-webhook, url: %q}, team: {kind: alertmanager-webhook, url: %q}}\nroutes: [{rule: device-*, to: team, group_by: [key], group_wait: 1s, max_per_hour: 3600}, {to: on-call, group_by: [rule, severity], group_wait: 1s, max_per_hour: 3600}]\n", neighbour.URL+"/notify", neighbour.URL+"/team")),
		"--heartbeat-url", neighbour.URL + "/heartbeat", "--heartbeat-every", "10s", "--otlp-endpoint", neighbour.URL,
	}
	l.nodes = []*process{l.startNode("a"), l.startNode("b")}
	l.prepare()
	l.scraper = newScraper(t, l.ports)
	return l
}

// startNode starts a node, and waits until it serves.
func (l *load) startNode(name string) *process {
	l.Helper()
	p := startProcess(l.T, l.program, name, nil, func(string) {}, append(l.settings, "--http-addr", fmt.Sprintf("127.0.0.1:%d", l.ports[name]))...)
	p.awaitServing(time.Minute)
	return p
}

// prepare sets the quota of the tenant, and creates the ping URLs of the devices.
func (l *load) prepare() {
	l.Helper()
	l.nodes[0].request(http.MethodPut, "/api/v1/quotas/acme-", "", `{"jobs": 400}`, nil)
	for i := range 10 {
		var answer struct{ URL string }
		l.nodes[0].request(http.MethodPost, "/api/v1/rules/device-silent/pings", "", fmt.Sprintf(`{"key": "pump-%d"}`, i), &answer)
		l.pings = append(l.pings, answer.URL)
	}
}

// answer is the source, the receivers of notifications and heartbeats, and the collector of traces.
func (l *load) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	order, isLookup := strings.CutPrefix(r.URL.Path, "/orders/")
	mode := l.source.Load()
	switch {
	case r.URL.Path == "/notify" && l.away.Load(), isLookup && mode == failedAnswers:
		http.Error(w, "the service is away", http.StatusServiceUnavailable)
		return
	case isLookup && mode == slowAnswers:
		pause(time.Second)
	}
	if isLookup {
		_, _ = fmt.Fprintf(w, `{"paid": %t}`, !strings.HasSuffix(order, "7"))
	}
}

// run publishes orders, and has the events happen in their parts of the time.
func (l *load) run() {
	l.Helper()
	l.begun, l.rate = time.Now(), loadRate
	part := *loadFor / loadParts
	tick := time.NewTicker(time.Second / loadTicks)
	defer tick.Stop()
	nextRequest, nextPart := l.begun, 0
	for now := l.begun; now.Sub(l.begun) < *loadFor; now = <-tick.C {
		l.publish(now.Sub(l.begun))
		if now.After(nextRequest) {
			nextRequest = nextRequest.Add(time.Second)
			l.visit(now.Sub(l.begun), part)
		}
		if now.Sub(l.begun) < time.Duration(nextPart)*part {
			continue
		}
		for _, e := range loadEvents {
			if e.end == nextPart && e.undo != nil {
				e.undo(l)
			}
			if e.begin == nextPart {
				e.do(l)
			}
		}
		nextPart++
	}
}

// publish publishes the orders of a tick after a time, and ships most of those that are old enough.
func (l *load) publish(after time.Duration) {
	l.Helper()
	send := func(subject string, i int) {
		if err := l.nc.Publish(subject, fmt.Appendf(nil, `{"id": "%d"}`, i)); err != nil {
			l.Fatal(err)
		}
	}
	for l.owed += l.rate; l.owed >= loadTicks; l.owed -= loadTicks {
		send("orders.created", len(l.orders))
		l.orders = append(l.orders, after)
	}
	for ; l.shipped < len(l.orders) && l.orders[l.shipped] <= after-loadShipped; l.shipped++ {
		if l.shipped%loadLate > 0 {
			send("orders.shipped", l.shipped)
		}
	}
}

// visit sends the pings, and the requests of users, one of them with a wrong token. An unreadable event comes now and then. A
// device is silent while NATS is stopped.
func (l *load) visit(after, part time.Duration) {
	base := fmt.Sprintf("http://127.0.0.1:%d", l.ports["a"])
	seconds := int(after.Seconds())
	paths := []string{"/api/v1/alerts?limit=10", "/api/v1/jobs?limit=10", "/", l.pings[seconds%len(l.pings)]}
	if seconds%len(l.pings) == 0 && after > 13*part && after < 17*part {
		paths = paths[:3]
	}
	if seconds%7 == 0 && after > part { // a counter begins at 0
		_ = l.nc.Publish("orders.created", []byte(`{"order": 1}`)) // it is buffered
	}
	for i, path := range paths {
		go func() { // a node without a database answers late
			request, err := http.NewRequest(http.MethodGet, base+path, nil)
			if err != nil {
				l.Error(err)
				return
			}
			if seconds%10 == 0 && i == 0 {
				request.Header.Set("Authorization", "Bearer wrong")
			}
			client := http.Client{Timeout: 10 * time.Second}
			if answer, err := client.Do(request); err == nil { // the node may be busy
				_ = answer.Body.Close()
			}
		}()
	}
}
