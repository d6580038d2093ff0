package faults_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/bus/bustest"
	"deadman/faults"
	"deadman/store"
	"deadman/store/storetest"
)

// briefLease is how long the nodes of the campaign hold a shard without renewal.
const briefLease = 1500 * time.Millisecond

// arena is what one run of the campaign happens in: a database, brokers, nodes that are
// started again when they die, a publisher, and somebody who is told.
type arena struct {
	*testing.T
	faults.Checker
	servers  []*server
	database *link // between the nodes and the database; nil: SQLite in dir
	broker   *link // between the nodes and the broker; nil: there are several, or it is in the node
	dir      string
	port     int    // of the broker in the node
	dsn      string // through the link
	source   string // the stream of events
	rules    string // the folder of the rules
	lookups  string // the file of the sources that rules look up in; empty: none
	people   string // the file of channels; empty: nobody is told
	plant    string
	linger   time.Duration // how long a node stands still after others have taken its shards

	over   chan struct{} // closed when nodes are not started again
	nodes  sync.WaitGroup
	served chan struct{} // closed when a node has served
	once   sync.Once

	mu     sync.Mutex
	log    []string
	told   map[string]bool // ids of alerts that people were told of
	acked  []string        // ids of events
	breach error           // of a promise that holds at any moment

	// model checks what became of the events, at rest.
	model func(context.Context) error
}

// newArena makes an arena with a Postgres of its own and so many brokers, or where there is
// none, with all of it in the folder of a node.
func newArena(t *testing.T, brokers int, plant string) *arena {
	t.Helper()
	a := &arena{T: t, plant: plant, source: "ORDERS", rules: "campaign", dir: t.TempDir(), over: make(chan struct{}), served: make(chan struct{}), told: map[string]bool{}}
	a.model = func(ctx context.Context) error { return a.Exactly(ctx, a.source, a.acked) }
	t.Cleanup(func() {
		if t.Failed() || *trace {
			a.mu.Lock()
			defer a.mu.Unlock()
			t.Log("what happened:\n" + strings.Join(a.log, "\n"))
		}
	})
	if brokers == 0 {
		a.port = bustest.Port(t)
		return a
	}
	a.servers = newServers(t, brokers)
	a.dsn = storetest.Postgres(t)
	if err := migrate(t.Context(), a.dsn); err != nil {
		t.Fatal(err)
	}
	a.openDB("pgx", a.dsn)
	if err := a.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(a.dsn)
	if err != nil {
		t.Fatal(err)
	}
	a.database = between(t, u.Host)
	u.Host = a.database.addr()
	a.dsn = u.String()
	if brokers == 1 {
		a.broker = between(t, strings.TrimPrefix(a.servers[0].url(), "nats://"))
	}
	a.connect(a.urls())
	a.makeSource()
	return a
}

func migrate(ctx context.Context, dsn string) error {
	s, err := store.Open(ctx, store.Options{DatabaseURL: dsn, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return s.Close()
}

func (a *arena) openDB(driver, dsn string) {
	a.Helper()
	var err error
	if a.DB, err = sql.Open(driver, dsn); err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = a.DB.Close() })
}

// urls are where the brokers are, past every link.
func (a *arena) urls() string {
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
func (a *arena) connect(urls string) {
	a.Helper()
	var err error
	a.NATS, err = nats.Connect(urls, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(a.NATS.Close)
}

// makeSource makes the stream of events.
func (a *arena) makeSource() {
	a.Helper()
	js, err := jetstream.New(a.NATS)
	if err != nil {
		a.Fatal(err)
	}
	config := jetstream.StreamConfig{Name: a.source, Subjects: []string{"orders.>"}, Replicas: max(1, len(a.servers))}
	eventually(a.T, time.Minute, "the broker makes a stream", func() bool {
		ctx, cancel := context.WithTimeout(a.Context(), 2*time.Second)
		defer cancel()
		_, err := js.CreateStream(ctx, config)
		return err == nil
	})
}

// note keeps what happened, for a run that fails.
func (a *arena) note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log = append(a.log, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// wait waits until some node has served.
func (a *arena) wait() {
	a.Helper()
	select {
	case <-a.served:
	case <-time.After(time.Minute):
		a.Fatal("no node serves")
	}
}

// keep runs a node until the arena is over. Each time that it is killed it is started again at
// once, with the next of the plans, and without one when they are spent.
func (a *arena) keep(name string, plans ...string) {
	a.Helper()
	path, err := breakable()
	if err != nil {
		a.Fatal(err)
	}
	a.nodes.Go(func() {
		for life := 1; ; life++ {
			plan := ""
			if life <= len(plans) {
				plan = plans[life-1]
			}
			if !a.live(path, fmt.Sprintf("%s%d", name, life), plan) {
				return
			}
		}
	})
}

// live runs a node until it dies. It reports whether there is to be another.
func (a *arena) live(path, name, plan string) bool {
	a.note("%s starts with %q", name, plan)
	args := []string{"--rules", a.rules, "--lease", "1500ms"}
	switch {
	case a.database == nil:
		args = append(args, "--data-dir", a.dir, "--nats-addr", fmt.Sprintf("127.0.0.1:%d", a.port))
	case a.broker == nil:
		args = append(args, "--database-url", a.dsn+"&application_name="+name, "--nats-url", a.urls())
	default:
		args = append(args, "--database-url", a.dsn+"&application_name="+name, "--nats-url", "nats://"+a.broker.addr())
	}
	if a.lookups != "" {
		args = append(args, "--sources", a.lookups)
	}
	if a.people != "" {
		args = append(args, "--notify", a.people)
	}
	env := []string{"DEADMAN_FAILPOINTS=" + plan, "DEADMAN_PLANT=" + a.plant}
	node := spawn(a.T, path, name, env, func(line string) { a.note("%s: %s", name, line) }, args...)
	serving := node.serving
	waker := time.NewTicker(20 * time.Millisecond)
	defer waker.Stop()
	for {
		select {
		case <-serving:
			serving = nil
			a.once.Do(func() { close(a.served) })
		case <-a.over:
			node.kill()
			return false
		case <-waker.C:
			a.wake(node)
		case <-node.exited:
			a.note("%s ended: %s", name, node.ProcessState)
			if status, ok := node.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				a.Errorf("%s ended by itself: %s", name, node.ProcessState)
				return false
			}
			return true
		}
	}
}

// wake lets a node that stopped itself go on, a while after its shards have been taken by others.
func (a *arena) wake(node *process) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", node.Process.Pid))
	if err != nil || !strings.Contains(string(stat), ") T ") {
		return
	}
	a.note("%s stands still", node.name)
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
	a.note("%s goes on", node.name)
	node.signal(syscall.SIGCONT)
}

// tell has somebody listen to what people are told.
func (a *arena) tell() {
	a.Helper()
	ear := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var message struct {
			Data struct{ Alerts []struct{ ID string } }
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &message)
		}
		if err != nil {
			return // whoever was killed sends it again
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, said := range message.Data.Alerts {
			a.told[said.ID] = true
		}
	}))
	a.Cleanup(ear.Close)
	a.people = filepath.Join(a.TempDir(), "people.yaml")
	file := fmt.Appendf(nil, `
channels: {people: {kind: webhook, url: %s}}
routes: [{to: people, group_wait: 0s, max_per_hour: 3600}]`, ear.URL)
	if err := os.WriteFile(a.people, file, 0o600); err != nil {
		a.Fatal(err)
	}
}

// play publishes the events of n orders at a pace, once a node has served: each order is
// created, every fifth touched three times, and two of three are shipped, at once or later. An
// event that the broker does not acknowledge is sent again, under the same id.
func (a *arena) play(n int, pace time.Duration) {
	a.Helper()
	a.wait()
	js, err := jetstream.New(a.NATS)
	if err != nil {
		a.Fatal(err)
	}
	const later = 30
	for i := range n + later {
		key := fmt.Sprintf("%04d", i)
		if i < n {
			a.publish(js, "orders.created", key, "")
		}
		if i < n && i%5 == 0 {
			for touch := range 3 {
				a.publish(js, "orders.touched", key, fmt.Sprintf("/%d", touch))
			}
		}
		if i < n && i%3 == 1 {
			a.publish(js, "orders.shipped", key, "")
		}
		if past := i - later; past >= 0 && past%3 == 2 {
			a.publish(js, "orders.shipped", fmt.Sprintf("%04d", past), "")
		}
		pause(pace)
	}
	a.note("played")
}

func (a *arena) publish(js jetstream.JetStream, subject, key, nth string) {
	id := subject + "/" + key + nth
	body := fmt.Appendf(nil, `{"id": %q}`, key)
	eventually(a.T, time.Minute, "event "+id+" is acknowledged", func() bool {
		ctx, cancel := context.WithTimeout(a.Context(), 2*time.Second)
		defer cancel()
		_, err := js.Publish(ctx, subject, body, jetstream.WithMsgID(id))
		return err == nil
	})
	a.acked = append(a.acked, id)
}

// watchCounts checks P2 again and again until ctx ends: it holds at any moment.
func (a *arena) watchCounts(ctx context.Context) {
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

// rest waits until every promise is kept, which is P12, and returns what is still broken when
// the time is over. Some breaches no time heals; they are returned at once.
func (a *arena) rest(within time.Duration) error {
	deadline := time.Now().Add(within)
	for {
		err := a.check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		pause(100 * time.Millisecond)
	}
}

func (a *arena) check() error {
	a.mu.Lock()
	errs := []error{a.breach}
	a.mu.Unlock()
	errs = append(errs, a.Promises(a.Context()), a.model(a.Context()))
	if a.database != nil {
		breaches, err := a.Witnessed(a.Context())
		errs = append(errs, err)
		for _, b := range breaches {
			errs = append(errs, errors.New(b))
		}
	}
	if a.people != "" {
		errs = append(errs, a.untold())
	}
	return errors.Join(errs...)
}

// untold says what people were not told of.
func (a *arena) untold() error {
	said, err := a.Stream(a.Context())
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	missing := 0
	for _, s := range said {
		if !a.told[s.ID] {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("people were not told of %d of %d alerts", missing, len(said))
	}
	return nil
}

// end kills the nodes.
func (a *arena) end() {
	close(a.over)
	a.nodes.Wait()
	a.note("over")
}
