package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus/bustest"
	"deadman/internal/doctor"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	deadman "deadman/server"
)

// expect checks that the findings have one with a state and a text for a check.
func expect(t *testing.T, all []doctor.Finding, check string, state doctor.State, text string) {
	t.Helper()
	if !slices.ContainsFunc(all, func(f doctor.Finding) bool {
		return f.Check == check && f.State == state && strings.Contains(f.Detail, text) && (f.Remedy != "" || state == doctor.OK)
	}) {
		others := slices.DeleteFunc(slices.Clone(all), func(f doctor.Finding) bool { return f.Check != check && f.Check != "database" })
		t.Errorf("no finding that %s is %s with %q and a remedy: %+v", check, state, text, others)
	}
}

func exec(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// A pooler loses the statements that a URL makes a node prepare; without the parameter each check works behind it.
func TestPooler(t *testing.T) {
	t.Parallel()
	primary, err := storetest.StartCluster(storetest.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { checkEnd(t, primary.Stop()) }()
	pooler, err := storetest.StartPooler("127.0.0.1", primary.Port, "session")
	if errors.Is(err, storetest.ErrNoPooler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { checkEnd(t, pooler.Stop()) }()
	c := deadman.Config{DatabaseURL: pooler.DSN("postgres"), NATSURL: "nats://127.0.0.1:1"}
	all := doctor.Inspect(t.Context(), c)
	expect(t, all, "database pooler", doctor.OK, "prepares no statements")
	expect(t, all, "database server", doctor.OK, "primary")
	expect(t, all, "long transactions", doctor.OK, "none")
	c.DatabaseURL += "&default_query_exec_mode=cache_statement"
	expect(t, doctor.Inspect(t.Context(), c), "database pooler", doctor.Warning, "chooses cache statement")
}

// A server that was set up well and one that was set up badly, with standbys.
func TestServer(t *testing.T) {
	t.Parallel()
	primary, err := storetest.StartCluster(storetest.Settings{Durable: true, Options: []string{
		"wal_compression=on", "max_wal_size=8GB", "checkpoint_timeout=30min", "shared_buffers=512MB", "max_connections=30",
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { checkEnd(t, primary.Stop()) }()
	c := deadman.Config{DatabaseURL: primary.DSN, NATSURL: "nats://127.0.0.1:1"}

	all := doctor.Inspect(t.Context(), c)
	expect(t, all, "database schema", doctor.OK, "none yet")
	expect(t, all, "database server", doctor.OK, "primary")
	expect(t, all, "database pooler", doctor.OK, "none")
	expect(t, all, "database clock", doctor.OK, "from this machine's")
	expect(t, all, "database settings", doctor.OK, "durable")
	expect(t, all, "database replication", doctor.OK, "no standby")
	expect(t, all, "replication slots", doctor.OK, "none")
	expect(t, all, "database vacuum", doctor.OK, "keeps up")
	expect(t, all, "long transactions", doctor.OK, "none")
	expect(t, all, "database connections", doctor.OK, "a node opens up to 10")
	expect(t, all, "database user", doctor.Warning, "superuser")
	expect(t, all, "broker", doctor.Failed, "not reachable")
	if worst := doctor.Worst(all); worst != doctor.Failed {
		t.Errorf("the worst state is %s", worst)
	}

	exec(t, primary.DSN, `ALTER SYSTEM SET synchronous_commit = off`, `ALTER SYSTEM SET autovacuum = off`, `SELECT pg_reload_conf()`,
		`SELECT pg_create_physical_replication_slot('abandoned', true)`, `CREATE TABLE resting (id int) WITH (autovacuum_enabled = off)`)
	few := c
	few.DatabaseURL += "&pool_max_conns=40"
	all = doctor.Inspect(t.Context(), few)
	expect(t, all, "database settings", doctor.Failed, "synchronous_commit is off")
	expect(t, all, "replication slots", doctor.Warning, "abandoned")
	expect(t, all, "database vacuum", doctor.Failed, "autovacuum or track_counts is off")
	expect(t, all, "database vacuum", doctor.Failed, "resting")
	expect(t, all, "database connections", doctor.Warning, "up to 40")

	standby, err := primary.StartStandby("127.0.0.1", fmt.Sprint(primary.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { checkEnd(t, standby.Stop()) }()
	expect(t, doctor.Inspect(t.Context(), c), "database replication", doctor.Warning, "1 standbys, all asynchronous")
	on := c
	on.DatabaseURL = standby.DSN
	expect(t, doctor.Inspect(t.Context(), on), "database server", doctor.Failed, "is a standby")
	if err := primary.CommitSynchronously(); err != nil {
		t.Fatal(err)
	}
	until(t, c, "database replication", doctor.OK, "1 of them synchronous")
	if err := standby.Crash(); err != nil {
		t.Fatal(err)
	}
	until(t, c, "database replication", doctor.Failed, "none is connected")
}

// until waits until the inspection has a finding: a standby connects in its own time.
func until(t *testing.T, c deadman.Config, check string, state doctor.State, text string) {
	t.Helper()
	var all []doctor.Finding
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		all = doctor.Inspect(t.Context(), c)
		if slices.ContainsFunc(all, func(f doctor.Finding) bool { return f.Check == check && f.State == state }) {
			break
		}
	}
	expect(t, all, check, state, text)
}

func checkEnd(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// A user without permissions on the tables is reported, and one that has them is not.
func TestUser(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	user := "worker_" + strings.ReplaceAll(filepath.Base(t.TempDir()), "-", "") + fmt.Sprint(os.Getpid())
	exec(t, dsn, `CREATE USER `+user)
	defer exec(t, dsn, `DROP OWNED BY `+user, `DROP USER `+user)
	c := deadman.Config{DatabaseURL: strings.Replace(dsn, "postgres@", user+"@", 1), NATSURL: "nats://127.0.0.1:1"}
	all := doctor.Inspect(t.Context(), c)
	expect(t, all, "database", doctor.Failed, "permission denied")
	exec(t, dsn, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO `+user)
	all = doctor.Inspect(t.Context(), c)
	expect(t, all, "database schema", doctor.OK, "0 live nodes")
	expect(t, all, "database user", doctor.OK, "no superuser")
	exec(t, dsn, `REVOKE SELECT ON history FROM `+user)
	expect(t, doctor.Inspect(t.Context(), c), "database user", doctor.Failed, "may not read and change the tables history")
	exec(t, dsn, `GRANT SELECT ON history TO `+user, `REVOKE UPDATE ON alert FROM `+user)
	expect(t, doctor.Inspect(t.Context(), c), "database user", doctor.Failed, "may not read and change the tables alert")
}

// Streams that may lose events are reported, and those of deadman as they are.
func TestStreams(t *testing.T) {
	t.Parallel()
	s := bustest.Serve(t, bustest.Options(t))
	js := bustest.JetStream(t, s.ClientURL())
	for _, cfg := range []jetstream.StreamConfig{
		{Name: "GOOD", Subjects: []string{"good.>"}, MaxAge: 7 * 24 * time.Hour},
		{Name: "SHORT", Subjects: []string{"short.>"}, MaxAge: time.Hour},
		{Name: "LAST", Subjects: []string{"last.>"}, MaxMsgsPerSubject: 1},
		{Name: "FULL", Subjects: []string{"full.>"}, MaxBytes: 1 << 10, Discard: jetstream.DiscardNew},
	} {
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "full.x", make([]byte, 900)); err != nil {
		t.Fatal(err)
	}
	all := doctor.Inspect(t.Context(), deadman.Config{NATSURL: s.ClientURL(), DataDir: t.TempDir()})
	expect(t, all, "broker", doctor.OK, "one server")
	expect(t, all, "broker clock", doctor.OK, "from this machine's")
	expect(t, all, "JetStream", doctor.OK, "4 streams")
	expect(t, all, "stream GOOD", doctor.OK, "0 messages")
	expect(t, all, "stream SHORT", doctor.Warning, "keeps messages for 1h0m0s")
	expect(t, all, "stream LAST", doctor.Warning, "newest 1 messages of a subject")
	expect(t, all, "stream FULL", doctor.Warning, "refuses messages when it is full")
}

// TestStreamOfAnotherDatabase checks that doctor finds that a node would refuse the stream of alerts.
func TestStreamOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	s := bustest.Serve(t, bustest.Options(t))
	c := deadman.Config{NATSURL: s.ClientURL(), DatabaseURL: storetest.Postgres(t)}
	database, err := store.Open(t.Context(), store.Options{DatabaseURL: c.DatabaseURL, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	id, err := database.DatabaseID(t.Context(), "")
	checkEnd(t, errors.Join(err, database.Close()))
	cfg := jetstream.StreamConfig{Name: "DEADMAN_ALERTS", Subjects: []string{"deadman.alerts.>"}, Metadata: map[string]string{"deadman_database": id}}
	js := bustest.JetStream(t, s.ClientURL())
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	expect(t, doctor.Inspect(t.Context(), c), "stream DEADMAN_ALERTS", doctor.OK, "0 messages")
	cfg.Metadata["deadman_database"] = "another"
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	expect(t, doctor.Inspect(t.Context(), c), "stream DEADMAN_ALERTS", doctor.Failed, "belongs to the database with the id another")
}

// A stream with one copy in a cluster is reported.
func TestCluster(t *testing.T) {
	t.Parallel()
	ports := []int{bustest.Port(t), bustest.Port(t)}
	var servers []*server.Server
	for i, port := range ports {
		o := bustest.Options(t)
		o.ServerName = fmt.Sprintf("n%d", i)
		o.Cluster = server.ClusterOpts{Name: "pair", Host: "127.0.0.1", Port: port}
		o.Routes = server.RoutesFromStr(fmt.Sprintf("nats://127.0.0.1:%d,nats://127.0.0.1:%d", ports[0], ports[1]))
		servers = append(servers, bustest.Serve(t, o))
	}
	js := bustest.JetStream(t, servers[0].ClientURL())
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) { // the servers elect a leader
		if _, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ONCE", Subjects: []string{"once"}, Replicas: 1}); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	all := doctor.Inspect(t.Context(), deadman.Config{NATSURL: servers[0].ClientURL(), DataDir: t.TempDir()})
	expect(t, all, "broker", doctor.OK, "cluster pair")
	expect(t, all, "stream ONCE", doctor.Warning, "one copy in a cluster")
}

// Files, sources and settings.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := deadman.Config{
		DataDir: filepath.Join(dir, "data"), Calendars: write("calendars.yaml", "office: {days: [nosuchday]}"),
		Sources: write("sources.yaml", "sources: {gone: {postgres: {url_env: SHOP_URL}}}"), Rules: filepath.Join(dir, "none"),
		Env:       func(string) string { return "postgres://127.0.0.1:1/shop" },
		PublicURL: "http://deadman.example.org", HeartbeatURL: "https://hc.example.org/x",
	}
	all := doctor.Inspect(t.Context(), c)
	expect(t, all, "calendars file", doctor.Failed, "calendars.yaml:1")
	expect(t, all, "rules folder", doctor.Failed, "no such file")
	expect(t, all, "sources file", doctor.OK, "1 sources")
	expect(t, all, "source gone", doctor.Failed, "refused")
	expect(t, all, "public URL", doctor.Warning, "without encryption")
	expect(t, all, "heartbeat", doctor.OK, "every 1m0s")
	expect(t, all, "notifications", doctor.Warning, "no person")
	expect(t, all, "database schema", doctor.OK, "none yet")
	if _, err := os.Stat(c.DataDir); !os.IsNotExist(err) {
		t.Errorf("the inspection created the data folder: %v", err)
	}
	write("chat.url", "https://127.0.0.1:1/hooks/1")
	buttons := deadman.Config{DataDir: c.DataDir, Notify: write("notify.yaml", "channels: {team: {kind: mattermost, url_file: chat.url, ack_button: chat}}")}
	expect(t, doctor.Inspect(t.Context(), buttons), "channels file", doctor.Failed, "the file of --hooks has none of that name")
	buttons.Hooks = write("hooks.yaml", "hooks: [{name: chat, scheme: mattermost}]")
	expect(t, doctor.Inspect(t.Context(), buttons), "channels file", doctor.OK, "1 channels")
	expect(t, doctor.Inspect(t.Context(), buttons), "routes", doctor.Warning, "channel team gets no messages")
	expect(t, doctor.Inspect(t.Context(), deadman.Config{DatabaseURL: "postgres://127.0.0.1/x"}), "settings", doctor.Failed, "DEADMAN_NATS_URL is not")
}
