package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // reads the database beside the nodes
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/faults"
	"deadman/internal/store/storetest"
)

// upgradeRule raises an alert for each event that is not resolved within 2 s.
const upgradeRule = `
name: upgrade
entity: order
trigger: {event: upgrade.begun, key: event.id}
resolve: {event: upgrade.done, key: event.id}
escalate: [{after: 2s, step: late, severity: error}]
slot: 1s
`

// fleet is a set of nodes of several versions on one Postgres and one broker.
type fleet struct {
	*testing.T
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
	f := &fleet{T: t, dsn: postgres(t), nats: server.ClientURL()}
	f.rules = filepath.Dir(write(t, t.TempDir(), "rules/upgrade.yaml", upgradeRule))
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
func postgres(t *testing.T) (dsn string) {
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
	return cluster.DSN
}

// settings returns the environment of all programs of the fleet.
func (f *fleet) settings() []string {
	return []string{"DEADMAN_DATABASE_URL=" + f.dsn, "DEADMAN_NATS_URL=" + f.nats}
}

// member is a node of the fleet.
type member struct {
	f       *fleet
	cmd     *exec.Cmd
	log     *bustest.Log
	stopped bool
}

// begin starts a node without waiting until it is ready.
func (f *fleet) begin(program string) *member {
	f.Helper()
	m := &member{f: f, log: &bustest.Log{}}
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

// serve starts a node and waits until it is ready.
func (f *fleet) serve(program string) *member {
	f.Helper()
	m := f.begin(program)
	m.eventually("the node is ready", func() bool { return m.ready() == http.StatusOK })
	return m
}

// stop stops the node as an operator would.
func (m *member) stop() {
	m.f.Helper()
	if m.stopped {
		return
	}
	m.stopped = true
	send(m.f.T, m.cmd, syscall.SIGTERM)
	if err := m.cmd.Wait(); err != nil {
		m.f.Errorf("the node does not stop well: %v\n%s", err, m.log)
	}
}

// served matches the log line with the node's address.
var served = regexp.MustCompile(`"msg":"serving","http":"([^"]+)"`)

// ready returns the status of /readyz, or 0 if the node does not answer.
func (m *member) ready() int {
	m.f.Helper()
	at := served.FindStringSubmatch(m.log.String())
	if at == nil {
		return 0
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	r, err := client.Get(at[1] + "/readyz")
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

func (m *member) eventually(what string, holds func() bool) {
	m.f.Helper()
	m.f.eventually(what, holds)
}

func (f *fleet) eventually(what string, holds func() bool) {
	f.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("not within three minutes: %s", what)
		}
	}
}

// number reads a number from the database.
func (f *fleet) number(text string, args ...any) (n int) {
	f.Helper()
	if err := f.db.QueryRowContext(f.Context(), text, args...).Scan(&n); err != nil {
		f.Fatalf("%s: %v", text, err)
	}
	return n
}

// holders returns the number of nodes with shards, once all shards are held.
func (f *fleet) holders() int {
	f.Helper()
	return f.number(`SELECT CASE WHEN bool_and(node IS NOT NULL AND expires_at > now()) THEN count(DISTINCT node) ELSE 0 END FROM shard_lease`)
}

// load publishes events until stop is called, and resolves each third at once. It returns the keys of the open and of
// the resolved ones.
func (f *fleet) load() (stop func() (open, done []string)) {
	f.Helper()
	var open, done []string
	ctx, cancel := context.WithCancel(f.Context())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
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

// check checks the promises about the events of a load after all jobs have ended.
func (f *fleet) check(open, done []string) {
	f.Helper()
	const ofRule = ` JOIN rule r ON r.id = x.rule_id WHERE r.name = 'upgrade'`
	f.eventually("all events are read and all alerts are decided", func() bool {
		return f.number(`SELECT count(*) FROM history x`+ofRule)+f.number(`SELECT count(*) FROM future_job x`+ofRule) >= len(open)+len(done) &&
			f.number(`SELECT count(*) FROM alert x`+ofRule) >= len(open) &&
			f.number(`SELECT count(*) FROM future_job WHERE next_check_at <= now()`) == 0
	})
	f.eventually("all alerts are published", func() bool { return f.number(`SELECT count(*) FROM alert_outbox`) == 0 })

	jobs := f.counts(`SELECT x.key, count(*) FROM (SELECT key, rule_id FROM history UNION ALL SELECT key, rule_id FROM future_job) AS x` + ofRule + ` GROUP BY x.key`)
	decided := f.counts(`SELECT x.key, count(*) FROM alert x` + ofRule + ` GROUP BY x.key`)
	published := f.published()
	for _, key := range open {
		if jobs[key] != 1 || decided[key] != 1 || published[key] != 1 {
			f.Errorf("P1, P7: %s has %d jobs, %d alerts decided, %d published; want 1 each", key, jobs[key], decided[key], published[key])
		}
	}
	for _, key := range done {
		if jobs[key] != 1 || decided[key] != published[key] {
			f.Errorf("P1, P7: %s, which was resolved, has %d jobs, %d alerts decided, %d published", key, jobs[key], decided[key], published[key])
		}
	}
	if n := len(jobs) - len(open) - len(done); n != 0 {
		f.Errorf("P1: %d jobs of no event", n)
	}
	if created, kept := f.number(`SELECT sum(created) FROM event_cursor`), f.number(`SELECT (SELECT count(*) FROM future_job) + (SELECT count(*) FROM history) + (SELECT rows FROM pruned WHERE name = 'history')`); created != kept {
		f.Errorf("P2: %d jobs were created, and %d are pending, archived or pruned", created, kept)
	}
}

func (f *fleet) counts(text string) map[string]int {
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

// published counts the messages of the stream of alerts, by key.
func (f *fleet) published() map[string]int {
	f.Helper()
	stream, err := f.js.Stream(f.Context(), bus.AlertsStream)
	if err != nil {
		f.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(f.Context(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{"deadman.alerts.upgrade.>"}})
	if err != nil {
		f.Fatal(err)
	}
	counts := map[string]int{}
	for {
		batch, err := consumer.FetchNoWait(500)
		if err != nil {
			f.Fatal(err)
		}
		n := 0
		for m := range batch.Messages() {
			var alert struct{ Key string }
			if err := json.Unmarshal(m.Data(), &alert); err != nil {
				f.Fatal(err)
			}
			counts[alert.Key]++
			n++
		}
		if batch.Error() != nil {
			f.Fatal(batch.Error())
		}
		if n == 0 {
			return counts
		}
	}
}

// source returns the folder of the repository.
func source(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// buildOlder builds the last commit with a schema one version older.
func buildOlder(t *testing.T) string {
	t.Helper()
	program, err := faults.Older(t.Context(), source(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// buildNewer builds the current sources with two more migrations.
func buildNewer(t *testing.T) string {
	t.Helper()
	newest, err := faults.NewestMigration(source(t))
	if err != nil {
		t.Fatal(err)
	}
	var version int
	if _, err := fmt.Sscanf(newest, "%d_", &version); err != nil {
		t.Fatal(err)
	}
	dir, overlay := t.TempDir(), map[string]string{}
	for _, database := range []string{"postgres", "sqlite"} {
		for i := 1; i <= 2; i++ {
			name := fmt.Sprintf("%05d_later.sql", version+i)
			file := write(t, dir, database+name, fmt.Sprintf("-- +goose Up\nCREATE TABLE later_%d (id int PRIMARY KEY);\n", i))
			overlay[filepath.Join(source(t), "migrations", database, name)] = file
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	program, err := faults.Build(t.Context(), source(t), filepath.Join(dir, "deadman"), "-overlay", write(t, dir, "overlay.json", string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// TestUpgrade replaces nodes one after the other under load: an older version serves, the current one joins and
// migrates the schema, and the older one leaves, returns for a while, and leaves for good.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("nodes are stopped by a signal")
	}
	older := buildOlder(t)
	f := newFleet(t)
	first := f.serve(older)
	before := f.number(`SELECT max(version_id) FROM schema_version`)
	stop := f.load()
	done := func(n int) func() bool { // n more ended jobs than now
		n += f.number(`SELECT count(*) FROM history`)
		return func() bool { return f.number(`SELECT count(*) FROM history`) >= n }
	}
	f.eventually("the older node decides", done(100))

	f.serve(os.Args[0])
	f.eventually("both hold shards", func() bool { return f.holders() == 2 })
	if after := f.number(`SELECT max(version_id) FROM schema_version`); after != before+1 {
		t.Errorf("the schema went from version %d to %d", before, after)
	}
	f.eventually("both decide", done(200))
	first.stop()
	f.eventually("the current node decides alone", done(200))
	again := f.serve(older) // as in a rollback
	f.eventually("both hold shards again", func() bool { return f.holders() == 2 })
	f.eventually("both decide again", done(200))
	again.stop()
	f.check(stop())
}

// TestANodeThatTheSchemaLeftBehindHandsOver checks that a program two schema versions ahead waits for the nodes that
// could not follow. With --force it leaves them behind: they hand over their shards and report it.
func TestANodeThatTheSchemaLeftBehindHandsOver(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("nodes are stopped by a signal")
	}
	newer := buildNewer(t)
	f := newFleet(t)
	left := f.serve(os.Args[0])
	stop := f.load()

	ahead := f.begin(newer)
	f.eventually("the newer node waits", func() bool { return strings.Contains(ahead.log.String(), "schema cannot be migrated yet") })
	if log := ahead.log.String(); !strings.Contains(log, fmt.Sprintf("/%d ", left.cmd.Process.Pid)) {
		t.Errorf("the log does not name the node that is in the way:\n%s", log)
	}
	f.runs(newer, exitCondition, "schema not supported; stop or replace the node", "migrate", "--check")
	f.runs(newer, exitFailure, "first stop or replace node", "migrate")
	if left.ready() != http.StatusOK {
		t.Error("the node that is in the way is not ready any more")
	}
	f.runs(newer, exitOK, "applied: ", "migrate", "--force")

	f.eventually("the node that was left behind is not ready", func() bool { return left.ready() == http.StatusServiceUnavailable })
	f.eventually("the newer node serves", func() bool { return ahead.ready() == http.StatusOK })
	f.eventually("the node that was left behind holds no shard", func() bool {
		return f.holders() == 1 && f.number(`SELECT count(*) FROM shard_lease l JOIN node n ON n.id = l.node WHERE n.name LIKE '%/' || $1`, fmt.Sprint(left.cmd.Process.Pid)) == 0
	})
	f.eventually("it is alerted", func() bool { return f.number(`SELECT count(*) FROM alert WHERE key = 'schema'`) == 1 })
	if !strings.Contains(left.log.String(), "schema too new for this node") {
		t.Error("the node that was left behind does not log it")
	}
	left.stop()
	f.eventually("the alert is resolved", func() bool { return f.number(`SELECT count(*) FROM alert WHERE key = 'schema'`) == 2 })
	f.check(stop())
}

// runs runs a program of the fleet until it ends.
func (f *fleet) runs(program string, code int, says string, args ...string) {
	f.Helper()
	cmd := command(f.Context(), f.T, f.settings(), args...)
	cmd.Path, cmd.Args[0] = program, program
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), says) {
		f.Errorf("%v: exit code %d, want %d and %q:\n%s", args, got, code, says, out)
	}
}
