package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/internal/testwait"
)

// fleet is a set of nodes of several versions on one Postgres and one broker.
type fleet struct {
	*testing.T
	postgres  *storetest.Cluster
	dsn, nats string
	rules     string
	db        *sql.DB
	js        jetstream.JetStream
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	cluster := postgres(t)
	f := &fleet{T: t, postgres: cluster, dsn: cluster.DSN, nats: server.ClientURL()}
	f.rules = filepath.Dir(writeFile(t, t.TempDir(), "rules/upgrade.yaml", upgradeRule))
	if f.db, err = sql.Open("pgx", f.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.db.Close() })
	f.js = bustest.JetStream(t, f.nats)
	if _, err := f.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "UPGRADE", Subjects: []string{"upgrade.>"}}); err != nil {
		t.Fatal(err)
	}
	return f
}

// postgres starts a Postgres for this test.
func postgres(t *testing.T) *storetest.Cluster {
	t.Helper()
	cluster, err := storetest.StartCluster(storetest.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// settings returns the environment of all programs of the fleet.
func (f *fleet) settings() []string {
	return []string{"DEADMAN_DATABASE_URL=" + f.dsn, "DEADMAN_NATS_URL=" + f.nats}
}

// fleetNode is a node of the fleet.
type fleetNode struct {
	f       *fleet
	cmd     *exec.Cmd
	log     *bustest.Log
	stopped bool
}

// start starts a node without waiting until it is ready.
func (f *fleet) start(program string) *fleetNode {
	f.Helper()
	m := &fleetNode{f: f, log: &bustest.Log{}}
	m.cmd = command(context.WithoutCancel(f.Context()), f.T, f.settings(), "serve", "--http-addr", "127.0.0.1:0", "--rules", f.rules, "--lease", "3s", "--log-format", "json")
	m.cmd.Path, m.cmd.Args[0] = program, program
	m.cmd.Stdout, m.cmd.Stderr = io.Discard, m.log
	if err := m.cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		m.stop()
		if f.Failed() {
			f.Logf("%s:\n%s", program, m.log)
		}
	})
	return m
}

// startReady starts a node and waits until it is ready.
func (f *fleet) startReady(program string) *fleetNode {
	f.Helper()
	m := f.start(program)
	m.eventually("the node is ready", func() bool { return m.ready() == http.StatusOK })
	return m
}

// stop stops the node as an operator would.
func (m *fleetNode) stop() {
	m.f.Helper()
	if m.stopped {
		return
	}
	m.stopped = true
	sendSignal(m.f.T, m.cmd, syscall.SIGTERM)
	if err := m.cmd.Wait(); err != nil {
		m.f.Errorf("the node does not stop well: %v\n%s", err, m.log)
	}
}

// url returns the address of the node; empty: it does not serve yet.
func (m *fleetNode) url() string {
	if at := servingLine.FindStringSubmatch(m.log.String()); at != nil {
		return at[1]
	}
	return ""
}

// ready returns the status of /readyz, or 0 if the node does not answer.
func (m *fleetNode) ready() int { return m.get("/readyz") }

// get returns the status of a page, or 0 if the node does not answer.
func (m *fleetNode) get(path string) int {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	r, err := client.Get(m.url() + path)
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

func (m *fleetNode) eventually(what string, holds func() bool) {
	m.f.Helper()
	m.f.eventually(what, holds)
}

func (f *fleet) eventually(what string, holds func() bool) {
	f.Helper()
	testwait.Until(f, what, holds)
}

// queryInt reads a number from the database.
func (f *fleet) queryInt(text string, args ...any) (n int) {
	f.Helper()
	if err := f.db.QueryRowContext(f.Context(), text, args...).Scan(&n); err != nil {
		f.Fatalf("%s: %v", text, err)
	}
	return n
}

// holders returns the number of nodes with shards, once all shards are held.
func (f *fleet) holders() int {
	f.Helper()
	return f.queryInt(`SELECT CASE WHEN bool_and(node IS NOT NULL AND expires_at > now()) THEN count(DISTINCT node) ELSE 0 END FROM shard_lease`)
}

// startLoad publishes events until stop is called, and resolves each third at once. It returns the keys of the open and of
// the resolved ones.
func (f *fleet) startLoad() (stop func() (open, done []string)) {
	f.Helper()
	var open, done []string
	ctx, cancel := context.WithCancel(f.Context())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			key := fmt.Sprintf("k%05d", i)
			subjects := []string{"upgrade.begun"}
			if i%3 == 0 {
				subjects = append(subjects, "upgrade.done")
				done = append(done, key)
			} else {
				open = append(open, key)
			}
			for _, subject := range subjects {
				if _, err := f.js.Publish(context.WithoutCancel(ctx), subject, fmt.Appendf(nil, `{"id":%q}`, key)); err != nil {
					f.Errorf("publish: %v", err)
				}
			}
			<-tick.C
		}
	})
	return func() (_, _ []string) {
		cancel()
		running.Wait()
		return open, done
	}
}

// checkPromises checks the promises about the events of a load after all jobs have ended.
func (f *fleet) checkPromises(open, done []string) {
	f.Helper()
	const ofRule = ` JOIN rule r ON r.id = x.rule_id WHERE r.name = 'upgrade'`
	f.eventually("all events are read and all alerts are decided", func() bool {
		return f.queryInt(`SELECT count(*) FROM history x`+ofRule)+f.queryInt(`SELECT count(*) FROM future_job x`+ofRule) >= len(open)+len(done) &&
			f.queryInt(`SELECT count(*) FROM alert x`+ofRule) >= len(open) &&
			f.queryInt(`SELECT count(*) FROM future_job WHERE next_check_at <= now()`) == 0
	})
	f.eventually("all alerts are published", func() bool { return f.queryInt(`SELECT count(*) FROM alert_outbox`) == 0 })

	jobs := f.queryCounts(`SELECT x.key, count(*) FROM (SELECT key, rule_id FROM history UNION ALL SELECT key, rule_id FROM future_job) AS x` + ofRule + ` GROUP BY x.key`)
	decided := f.queryCounts(`SELECT x.key, count(*) FROM alert x` + ofRule + ` GROUP BY x.key`)
	published := f.publishedByKey()
	for _, key := range open {
		if jobs[key] != 1 || decided[key] != 1 || len(published[key]) != 1 {
			f.Errorf("P1, P7: %s has %d jobs, %d alerts decided, %d published; want 1 each", key, jobs[key], decided[key], len(published[key]))
		}
	}
	for _, key := range done {
		if jobs[key] != 1 || decided[key] != len(published[key]) {
			f.Errorf("P1, P7: %s, which was resolved, has %d jobs, %d alerts decided, %d published", key, jobs[key], decided[key], len(published[key]))
		}
	}
	if n := len(jobs) - len(open) - len(done); n != 0 {
		f.Errorf("P1: %d jobs of no event", n)
	}
	if created, kept := f.queryInt(`SELECT sum(created) FROM event_cursor`), f.queryInt(`SELECT (SELECT count(*) FROM future_job) + (SELECT count(*) FROM history) + (SELECT rows FROM pruned WHERE name = 'history')`); created != kept {
		f.Errorf("P2: %d jobs were created, and %d are pending, archived or pruned", created, kept)
	}
}

func (f *fleet) queryCounts(text string) map[string]int {
	f.Helper()
	rows, err := f.db.QueryContext(f.Context(), text)
	if err != nil {
		f.Fatal(err)
	}
	defer rows.Close()
	counts := map[string]int{}
	for rows.Next() {
		var key string
		var n int
		if err := rows.Scan(&key, &n); err != nil {
			f.Fatal(err)
		}
		counts[key] = n
	}
	if err := rows.Err(); err != nil {
		f.Fatal(err)
	}
	return counts
}

// published is an alert in the stream.
type published struct {
	id, status string
	at         time.Time
}

// publishedByKey returns the alerts of the rule in the stream, in order.
func (f *fleet) publishedByKey() map[string][]published {
	f.Helper()
	stream, err := f.js.Stream(f.Context(), bus.AlertsStream)
	if err != nil {
		f.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(f.Context(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{"deadman.alerts.upgrade.>"}})
	if err != nil {
		f.Fatal(err)
	}
	all := map[string][]published{}
	for n := -1; n != 0; {
		batch, err := consumer.FetchNoWait(500)
		if err != nil {
			f.Fatal(err)
		}
		n = 0
		for m := range batch.Messages() {
			n++
			var alert struct{ ID, Key, Status string }
			meta, err := m.Metadata()
			if err == nil {
				err = json.Unmarshal(m.Data(), &alert)
			}
			if err != nil {
				f.Fatal(err)
			}
			all[alert.Key] = append(all[alert.Key], published{alert.ID, alert.Status, meta.Timestamp})
		}
		if err := batch.Error(); err != nil {
			f.Fatal(err)
		}
	}
	return all
}

// runProgram runs a program of the fleet until it ends.
func (f *fleet) runProgram(program string, code int, wantText string, args ...string) {
	f.Helper()
	cmd := command(f.Context(), f.T, f.settings(), args...)
	cmd.Path, cmd.Args[0] = program, program
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), wantText) {
		f.Errorf("%v: exit code %d, want %d and %q:\n%s", args, got, code, wantText, out)
	}
}
