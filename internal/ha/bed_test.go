package ha_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus/bustest/freeport"
)

// The ways of the nodes to Postgres.
const (
	transactions = "transaction" // PgBouncer, HAProxy
	sessions     = "session"     // PgBouncer, HAProxy
	proxied      = "haproxy"     // HAProxy
	direct       = "direct"      // the URL names all servers
)

// members is the number of Postgres servers, of NATS servers and of nodes.
const members = 3

// postgresPrograms is the folder of the Postgres programs in deploy/ha/patroni.yml.
const postgresPrograms = "/usr/lib/postgresql/15/bin"

// bed is everything that runs: each server of the guide, and three nodes.
type bed struct {
	*testing.T
	begun   time.Time
	dir     string
	files   files
	etcd    []*process
	pg      []*member
	haproxy *process
	pooler  *process
	nats    []*process
	nodes   []*process
	nodeAt  []string // HTTP addresses of the nodes
	way     string   // to Postgres, of the nodes
	js      jetstream.JetStream
}

// newBed starts all servers and the nodes, and waits until the nodes hold all shards.
func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{T: t, dir: newFolder(t), begun: time.Now()}
	b.files = newFiles(b)
	binary := build(t, b.dir)
	b.progress("deadman is built")
	for i := range members {
		b.etcd = append(b.etcd, b.newEtcd(i))
	}
	for i := range members {
		b.newMember(i)
	}
	b.haproxy = b.run("haproxy", nil, program(t, "haproxy"), "-db", "-f", b.files.write("haproxy", "haproxy.cfg"))
	for i := range members {
		name := fmt.Sprintf("nats%d", i+1)
		b.nats = append(b.nats, b.run(name, []string{natsRole + "=" + b.files.write(name, "nats.conf")}, os.Args[0]))
	}
	b.awaitPostgres()
	b.progress("Postgres has a primary and a synchronous standby")
	b.createDatabase(binary)
	b.progress("the database is migrated")
	b.startPooler()
	b.connectNATS()
	b.progress("NATS has its streams")
	for i := range members {
		b.nodes, b.nodeAt = append(b.nodes, b.newNode(binary, i)), append(b.nodeAt, b.port())
	}
	b.startNodes(*pooling)
	return b
}

// progress prints what was reached, and the time since the start.
func (b *bed) progress(what string) {
	fmt.Printf("%5.1f s: %s\n", time.Since(b.begun).Seconds(), what)
}

// run starts a server as this account, until the test ends.
func (b *bed) run(name string, env []string, args ...string) *process {
	b.Helper()
	p := &process{t: b.T, name: name, dir: b.dir, env: env, args: args}
	b.keep(p)
	p.start()
	return p
}

// keep ends a server after the test, and shows the end of its log if the test failed.
func (b *bed) keep(p *process) {
	b.Cleanup(func() {
		p.kill()
		if b.Failed() {
			b.Logf("%s:\n%s", p.name, p.tail(20))
		}
	})
}

// port returns a free address of this machine.
func (b *bed) port() string {
	b.Helper()
	port, err := freeport.Find()
	if err != nil {
		b.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// newEtcd starts a member of the cluster that Patroni elects its primary in.
func (b *bed) newEtcd(i int) *process {
	b.Helper()
	name := fmt.Sprintf("pg%d", i+1)
	text, err := os.ReadFile(b.files.write(name, "etcd.env"))
	if err != nil {
		b.Fatal(err)
	}
	var env []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			env = append(env, line)
		}
	}
	return b.run("etcd-"+name, append(env, "ETCD_LOGGER=zap"), program(b.T, "etcd"))
}

// startPooler starts PgBouncer, which refuses to run as root.
func (b *bed) startPooler() {
	b.Helper()
	as, err := unprivileged()
	if err != nil {
		b.Fatal(err)
	}
	config := b.files.write("pgbouncer", "pgbouncer.ini")
	users := fmt.Sprintf("\"deadman\" %q\n\"deadman_owner\" %q\n", password, password)
	if err := os.WriteFile(filepath.Join(filepath.Dir(config), "userlist.txt"), []byte(users), 0o644); err != nil { //nolint:gosec // another account reads it
		b.Fatal(err)
	}
	b.files.own("pgbouncer")
	b.pooler = &process{t: b.T, name: "pooler", dir: filepath.Dir(config), as: as, args: []string{program(b.T, "pgbouncer"), "-q", config}}
	b.keep(b.pooler)
	b.pooler.start()
}

// connectNATS connects the judge, and creates the stream of events with three replicas.
func (b *bed) connectNATS() {
	b.Helper()
	nc, err := nats.Connect(b.natsURL(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	if b.js, err = jetstream.New(nc); err != nil {
		b.Fatal(err)
	}
	within(b.T, "the NATS servers have a stream", func(ctx context.Context) error {
		_, err := b.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Replicas: members})
		return err
	})
}

// natsURL returns the addresses of the NATS servers.
func (b *bed) natsURL() string {
	var all []string
	for i := range members {
		all = append(all, "nats://secret-of-nats@"+b.files.at(fmt.Sprintf("10.0.0.%d:4222", i+1)))
	}
	return strings.Join(all, ",")
}

// databaseURL returns the address of the database on a way, for a user.
func (b *bed) databaseURL(way, user string) string {
	host, name, more := b.files.at("127.0.0.1:6432"), "deadman", ""
	switch way {
	case sessions:
		name = "deadman_sessions"
	case proxied:
		host = b.files.at("127.0.0.1:5000")
	case direct:
		host = b.files.at("10.0.0.1:5432") + "," + b.files.at("10.0.0.2:5432") + "," + b.files.at("10.0.0.3:5432")
		more = "?target_session_attrs=read-write"
	}
	return fmt.Sprintf("postgres://%s:%s@%s/%s%s", user, password, host, name, more)
}

// rule is what the orders of the load are judged by.
const rule = `name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 3s, step: primary, severity: warning, text: "order {{key}} is not shipped"}
  - {after: 6s, step: escalated, severity: critical}
slot: 1s
`

// newNode returns a node that is not started yet.
func (b *bed) newNode(binary string, i int) *process {
	b.Helper()
	rules := filepath.Join(b.dir, "rules")
	err := errors.Join(os.MkdirAll(rules, 0o755), os.WriteFile(filepath.Join(rules, "orders.yaml"), []byte(rule), 0o644)) //nolint:gosec // no secret
	if err != nil {
		b.Fatal(err)
	}
	p := &process{t: b.T, name: fmt.Sprintf("node%d", i+1), dir: b.dir, args: []string{binary, "serve", "--rules", rules, "--log-format", "json"}}
	b.keep(p)
	return p
}

// startNodes starts the nodes on a way to Postgres, after the end of those on another one.
func (b *bed) startNodes(way string) {
	b.Helper()
	if way == b.way {
		return
	}
	for i, n := range b.nodes {
		if b.way != "" {
			n.stop()
		}
		n.env = []string{
			"DEADMAN_DATABASE_URL=" + b.databaseURL(way, "deadman"), "DEADMAN_NATS_URL=" + b.natsURL(),
			"DEADMAN_HTTP_ADDR=" + b.nodeAt[i],
		}
		n.start()
	}
	b.way = way
	b.awaitNodes()
	b.progress("the nodes are ready, by way of " + way)
}

// awaitNodes waits until each node has all conditions of readiness.
func (b *bed) awaitNodes() {
	b.Helper()
	for _, at := range b.nodeAt {
		within(b.T, "the node at "+at+" is ready", func(ctx context.Context) error {
			_, err := request(ctx, http.MethodGet, "http://"+at+"/readyz?all", "")
			return err
		})
	}
}
