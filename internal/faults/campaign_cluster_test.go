package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/faults"
	"deadman/server"
)

// briefLease is the lease duration of the campaign's nodes.
const briefLease = 1500 * time.Millisecond

// testbed is the environment of one run of the campaign: a database, brokers, nodes that are restarted when they die, a
// publisher, and a notification channel.
type testbed struct {
	*testing.T
	faults.Checker
	servers     []*natsProcess
	database    *link            // between the nodes and the database; nil: none
	broker      *link            // between the nodes and the broker; nil: several brokers, or the broker is in the node
	links       map[string]*link // between each node and the broker, instead of broker
	dir         string
	port        int                               // of the broker in the node
	reach       func(node string) []string        // returns a node's flags for the database
	serving     func()                            // called once a node has served, before events are played
	programs    map[string]func() (string, error) // programs of nodes other than the breakable one, by letter
	env         []string                          // of the nodes
	sources     []string                          // streams of events
	rules       string                            // folder of the rules
	lookups     string                            // sources file; empty: none
	people      string                            // channels file; empty: no notifications
	plant       string
	count       int           // of the nodes
	linger      time.Duration // how long a stopped node stays stopped after others have taken its shards
	fenceLogged bool          // the database records which node decides
	padding     int           // additional bytes of each event

	over   chan struct{} // closed when nodes are not restarted any more
	nodes  sync.WaitGroup
	served chan struct{} // closed when a node has served
	once   sync.Once

	publishing sync.Mutex // held while an event is sent

	mu       sync.Mutex
	log      []string
	at       map[string]server.Endpoints // of the serving nodes
	lives    map[string]string           // names of the nodes' current lives
	notified map[string]bool             // ids of alerts that were notified
	acked    []string                    // ids of events
	breach   error                       // of a promise that must hold at any moment

	play  func()                      // publishes events; returns when all are published
	after func()                      // called when all faults have ended
	model func(context.Context) error // checks the effects of the events, at rest
}

// newTestbed creates a testbed with the brokers and the database of a scenario.
func newTestbed(t *testing.T, s scenario, plant string) *testbed {
	t.Helper()
	a := &testbed{
		T: t, plant: plant, count: len(s.nodes), linger: s.linger, sources: []string{"ORDERS"}, rules: "campaign", dir: t.TempDir(), serving: func() {}, after: func() {},
		links: map[string]*link{}, programs: map[string]func() (string, error){}, at: map[string]server.Endpoints{}, lives: map[string]string{}, notified: map[string]bool{},
		over: make(chan struct{}), served: make(chan struct{}),
	}
	a.play = func() { a.publishOrders(60, 20*time.Millisecond) }
	a.model = func(ctx context.Context) error { return a.CheckEvents(ctx, a.sources, a.acked) }
	t.Cleanup(func() {
		if t.Failed() || *log {
			a.mu.Lock()
			defer a.mu.Unlock()
			t.Log("what happened:\n" + strings.Join(a.log, "\n"))
		}
	})
	if s.brokers == 0 {
		onEmbedded(a)
		return a
	}
	a.servers = newServers(t, s.brokers)
	if s.brokers == 1 {
		a.broker = a.brokerLink()
	}
	a.connect(a.urls())
	a.makeStream(a.sources[0], "orders.>")
	if s.database == nil {
		s.database = onPostgres
	}
	s.database(a)
	return a
}

// brokerLink returns a link to the broker.
func (a *testbed) brokerLink() *link {
	a.Helper()
	return between(a.T, strings.TrimPrefix(a.servers[0].url(), "nats://"))
}

// urls returns the brokers' URLs, bypassing the links.
func (a *testbed) urls() string {
	if a.port != 0 {
		return fmt.Sprintf("nats://127.0.0.1:%d", a.port)
	}
	var urls []string
	for _, s := range a.servers {
		urls = append(urls, s.url())
	}
	return strings.Join(urls, ",")
}

// connect connects to the brokers.
func (a *testbed) connect(urls string) {
	a.Helper()
	var err error
	a.NATS, err = nats.Connect(urls, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(a.NATS.Close)
}

// makeStream creates a stream of events.
func (a *testbed) makeStream(name string, subjects ...string) {
	a.Helper()
	config := jetstream.StreamConfig{Name: name, Subjects: subjects, Replicas: max(1, len(a.servers))}
	eventually(a.T, time.Minute, "the broker makes a stream", func() bool {
		ctx, cancel := context.WithTimeout(a.Context(), 2*time.Second)
		defer cancel()
		_, err := a.jetStream().CreateOrUpdateStream(ctx, config)
		if err != nil {
			a.record("stream %s is not made: %v", name, err)
		}
		return err == nil
	})
}

func (a *testbed) jetStream() jetstream.JetStream {
	a.Helper()
	js, err := jetstream.New(a.NATS)
	if err != nil {
		a.Fatal(err)
	}
	return js
}

// record records a log line, which is printed if the run fails.
func (a *testbed) record(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log = append(a.log, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// wait waits until a node has served.
func (a *testbed) wait() {
	a.Helper()
	select {
	case <-a.served:
	case <-time.After(time.Minute):
		a.Fatal("no node serves")
	}
}

// keepRunning runs a node until the testbed ends. A killed node is restarted at once with the next of the plans, and without a
// plan when all are used.
func (a *testbed) keepRunning(node string, plans ...string) {
	a.Helper()
	program := breakable
	if other, ok := a.programs[node]; ok {
		program = other
	}
	path, err := program()
	if err != nil {
		a.Fatal(err)
	}
	a.nodes.Go(func() {
		for life := 1; ; life++ {
			plan := ""
			if life <= len(plans) {
				plan = plans[life-1]
			}
			if !a.runNode(path, node, life, plan) {
				return
			}
		}
	})
}

// flags returns the flags of a life of a node.
func (a *testbed) flags(node, name string) []string {
	flags := append([]string{"--rules", a.rules, "--lease", fmt.Sprintf("%dms", briefLease.Milliseconds())}, a.reach(name)...)
	switch own := a.links[node]; {
	case own != nil:
		flags = append(flags, "--nats-url", "nats://"+own.addr())
	case a.broker != nil:
		flags = append(flags, "--nats-url", "nats://"+a.broker.addr())
	case a.port == 0:
		flags = append(flags, "--nats-url", a.urls())
	}
	if a.lookups != "" {
		flags = append(flags, "--sources", a.lookups)
	}
	if a.people != "" {
		flags = append(flags, "--notify", a.people)
	}
	return flags
}

// runNode runs a node until it dies. It reports whether it is to be restarted.
func (a *testbed) runNode(path, node string, life int, plan string) bool {
	name := fmt.Sprintf("%s%d", node, life)
	a.record("%s starts with %q", name, plan)
	a.mu.Lock()
	a.lives[node] = name
	a.mu.Unlock()
	env := append([]string{"DEADMAN_FAILPOINTS=" + plan, "DEADMAN_PLANT=" + a.plant}, a.env...)
	p := startProcess(a.T, path, name, env, func(line string) { a.record("%s: %s", name, line) }, a.flags(node, name)...)
	serving := p.serving
	waker := time.NewTicker(20 * time.Millisecond)
	defer waker.Stop()
	for {
		select {
		case <-serving:
			serving = nil
			a.nodeServes(node, p.at)
		case <-a.over:
			p.kill()
			return false
		case <-waker.C:
			a.wake(p)
		case <-p.exited:
			a.record("%s ended: %s", name, p.ProcessState)
			if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				a.Errorf("%s ended by itself: %s", name, p.ProcessState)
				return false
			}
			return true
		}
	}
}

// nodeServes records the endpoints of a node.
func (a *testbed) nodeServes(node string, at server.Endpoints) {
	a.mu.Lock()
	a.at[node] = at
	a.mu.Unlock()
	a.once.Do(func() { close(a.served) })
}

// wake resumes a node that stopped itself, some time after others have taken its shards.
func (a *testbed) wake(node *process) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", node.Process.Pid))
	if err != nil || !strings.Contains(string(stat), ") T ") {
		return
	}
	a.record("%s stands still", node.name)
	deadline := time.Now().Add(6 * briefLease)
	for time.Now().Before(deadline) {
		var held int
		err := a.DB.QueryRow(`SELECT count(*) FROM witness_holder h JOIN shard_lease l ON l.shard = h.shard
			WHERE h.app = $1 OR l.expires_at <= now()`, node.name).Scan(&held)
		if err == nil && held == 0 {
			break
		}
		pause(10 * time.Millisecond)
	}
	pause(a.linger)
	a.record("%s goes on", node.name)
	node.signal(syscall.SIGCONT)
}

// publishOrders publishes the events of n orders at a pace, once a node has served: each order is created, every fifth is
// touched three times, and two of three are shipped, at once or later.
func (a *testbed) publishOrders(n int, pace time.Duration) { a.publishOrdersFrom(0, n, pace) }

// publishOrdersFrom is publishOrders with numbers of orders from first on.
func (a *testbed) publishOrdersFrom(first, n int, pace time.Duration) {
	a.Helper()
	a.wait()
	const later = 30
	for i := range n + later {
		key := orderKey(first + i)
		if i < n {
			a.publish("orders.created", key, "")
		}
		if i < n && i%5 == 0 {
			for touch := range 3 {
				a.publish("orders.touched", key, fmt.Sprintf("/%d", touch))
			}
		}
		if i < n && i%3 == 1 {
			a.publish("orders.shipped", key, "")
		}
		if past := i - later; past >= 0 && past%3 == 2 {
			a.publish("orders.shipped", orderKey(first+past), "")
		}
		pause(pace)
	}
	a.record("played")
}

// publish publishes an event of an order.
func (a *testbed) publish(subject, key, nth string) {
	a.Helper()
	id := subject + "/" + key + nth
	a.send(subject, id, fmt.Appendf(nil, `{"id": %q, "pad": %q}`, key, strings.Repeat("x", a.padding)))
	a.acked = append(a.acked, id)
}

// send publishes an event. Until the broker acknowledges it, it is sent again with the same id.
func (a *testbed) send(subject, id string, body []byte) {
	a.Helper()
	a.publishing.Lock()
	defer a.publishing.Unlock()
	js := a.jetStream()
	eventually(a.T, time.Minute, "event "+id+" is acknowledged", func() bool {
		ctx, cancel := context.WithTimeout(a.Context(), 2*time.Second)
		defer cancel()
		_, err := js.Publish(ctx, subject, body, jetstream.WithMsgID(id))
		return err == nil
	})
}

// watchCounts checks P2 repeatedly until ctx ends: it must hold at any moment.
func (a *testbed) watchCounts(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := a.Count(ctx)
		if err == nil && n.Created != n.Pending+n.Archived+n.Pruned {
			a.mu.Lock()
			a.breach = fmt.Errorf("P2: in the middle of it, created %d, but pending %d + archived %d + pruned %d", n.Created, n.Pending, n.Archived, n.Pruned)
			a.mu.Unlock()
		}
		pause(50 * time.Millisecond)
	}
}

// waitUntilSettled waits until every promise is kept, which is P12, and returns the remaining breaches after the timeout. Permanent
// breaches are returned at once.
func (a *testbed) waitUntilSettled(within time.Duration) error {
	deadline := time.Now().Add(within)
	for {
		err := a.check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		pause(100 * time.Millisecond)
	}
}

func (a *testbed) check() error {
	a.mu.Lock()
	errs := []error{a.breach}
	a.mu.Unlock()
	errs = append(errs, a.CheckPromises(a.Context()), a.model(a.Context()))
	if a.fenceLogged {
		breaches, err := a.UnfencedDecisions(a.Context())
		errs = append(errs, err)
		for _, b := range breaches {
			errs = append(errs, errors.New(b))
		}
	}
	if a.people != "" {
		errs = append(errs, a.missingNotifications())
	}
	return errors.Join(errs...)
}

// end kills the nodes.
func (a *testbed) end() {
	close(a.over)
	a.nodes.Wait()
	a.record("over")
}
