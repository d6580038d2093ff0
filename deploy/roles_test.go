package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/doctor"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// roles is a Postgres with the users of postgres-roles.sql.
type roles struct {
	*storetest.Cluster
	t *testing.T
}

func withRoles(t *testing.T) roles {
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
	r := roles{cluster, t}
	// \connect switches to another database, as in psql. Statements are sent by paragraph, because some must be sent
	// alone.
	before, after, found := strings.Cut(read(t, "postgres-roles.sql"), "\\connect deadman\n")
	if !found {
		t.Fatal("postgres-roles.sql does not connect to the database that it makes")
	}
	r.run(cluster.DSN, before)
	r.run(r.as("postgres", "deadman"), after)
	return r
}

// run sends the paragraphs of a text one after the other.
func (r roles) run(dsn, text string) {
	r.t.Helper()
	c := r.connect(dsn)
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if _, err := c.PgConn().Exec(r.t.Context(), paragraph).ReadAll(); err != nil {
			r.t.Fatalf("%s\n%v", paragraph, err)
		}
	}
}

func (r roles) connect(dsn string) *pgx.Conn {
	r.t.Helper()
	c, err := pgx.Connect(r.t.Context(), dsn)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// as returns the DSN of a user in a database.
func (r roles) as(user, database string) string {
	return strings.Replace(r.Database(database), "postgres://postgres@", "postgres://"+user+"@", 1)
}

// TestDoctorRefusesFirstStartOfWorker checks that deadman doctor fails for an empty database that the user of the nodes
// may not migrate, and passes once the owner has migrated.
func TestDoctorRefusesFirstStartOfWorker(t *testing.T) {
	r := withRoles(t)
	expect := func(user, check string, state doctor.State, text string) {
		t.Helper()
		all := doctor.Inspect(t.Context(), server.Config{DatabaseURL: r.as(user, "deadman"), NATSURL: "nats://127.0.0.1:1"})
		i := slices.IndexFunc(all, func(f doctor.Finding) bool { return f.Check == check })
		if i < 0 || all[i].State != state || !strings.Contains(all[i].Detail+"; "+all[i].Remedy, text) {
			t.Errorf("%s, %s: %+v, want %v: %s", user, check, all, state, text)
		}
	}
	expect("deadman", "database schema", doctor.Failed, "deadman may not create tables in the schema public: a node of this version does not start; run deadman migrate")
	expect("deadman", "database user", doctor.OK, "no tables yet")
	expect("deadman_owner", "database schema", doctor.OK, "none yet; the first start of a node creates it")
	if _, _, err := store.Migrate(t.Context(), store.Options{DatabaseURL: r.as("deadman_owner", "deadman"), Log: slog.New(slog.DiscardHandler)}, false); err != nil {
		t.Fatal(err)
	}
	expect("deadman", "database schema", doctor.OK, "version")
	expect("deadman", "database user", doctor.OK, "reads and changes all tables")
	r.run(r.as("postgres", "deadman"), `DELETE FROM schema_version WHERE version_id = (SELECT max(version_id) FROM schema_version)`)
	expect("deadman", "database schema", doctor.Failed, "1 migrations are pending, and deadman may not create tables")
	expect("deadman_owner", "database schema", doctor.Warning, "1 migrations are pending")
}

// A node runs as a user that can only change rows; another user owns the schema.
func TestWorkAndMigrationAreUsersOfTheirOwn(t *testing.T) {
	r := withRoles(t)
	owner, worker := r.as("deadman_owner", "deadman"), r.as("deadman", "deadman")
	quiet := slog.New(slog.DiscardHandler)
	if s, err := store.Open(t.Context(), store.Options{DatabaseURL: worker, Log: quiet}); err == nil || !strings.Contains(err.Error(), "deadman migrate") {
		if err == nil {
			err = s.Close()
		}
		t.Fatalf("the worker migrates: %v", err)
	}
	if _, _, err := store.Migrate(t.Context(), store.Options{DatabaseURL: owner, Log: quiet}, false); err != nil {
		t.Fatalf("the owner migrates: %v", err)
	}
	// The node must create the partitions of coming days and drop one that is over.
	own := r.connect(owner)
	days := func() (names []string) {
		t.Helper()
		rows, err := own.Query(t.Context(), `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'history'::regclass AND c.relname <> 'history_default' ORDER BY 1`)
		if err == nil {
			names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	for _, day := range days() {
		if _, err := own.Exec(t.Context(), `DROP TABLE `+day); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := own.Exec(t.Context(), `CREATE TABLE history_20200101 PARTITION OF history FOR VALUES FROM ('2020-01-01 00:00:00+00') TO ('2020-01-02 00:00:00+00')`); err != nil {
		t.Fatal(err)
	}

	url := runNode(t, worker)
	waitsAndAlerts(t, url)
	until(t, "partitions exist for the next eight days, and not for 2020-01-01", func() bool {
		have := days()
		return len(have) == 8 && have[0] != "history_20200101"
	})
	noDDL(t, r.connect(worker))
}

// noDDL tries statements that the worker must not execute.
func noDDL(t *testing.T, c *pgx.Conn) {
	t.Helper()
	for _, text := range []string{
		`CREATE TABLE x (a int)`, `CREATE SCHEMA x`, `CREATE TEMPORARY TABLE x (a int)`, `CREATE FUNCTION x() RETURNS int LANGUAGE sql AS 'SELECT 1'`, `CREATE EXTENSION dblink`,
		`ALTER TABLE future_job ADD COLUMN x int`, `ALTER TABLE history ADD COLUMN x int`, `DROP TABLE rule`, `DROP TABLE history_default`, `TRUNCATE audit`, `CREATE INDEX x ON rule (name)`,
		`SET ROLE deadman_owner`, `ALTER ROLE deadman SUPERUSER`, `CREATE ROLE x`, `COPY rule TO PROGRAM 'cat'`, `SELECT pg_read_file('/etc/passwd')`,
		`CREATE OR REPLACE FUNCTION deadman_make_day(day date) RETURNS void LANGUAGE sql AS ''`,
	} {
		var pg *pgconn.PgError
		if _, err := c.Exec(t.Context(), text); !errors.As(err, &pg) || pg.Code != "42501" {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		`SELECT deadman_make_day('2100-01-01')`, `SELECT deadman_drop_day(current_date + 1)`, `SELECT deadman_drop_day('infinity')`,
	} {
		if _, err := c.Exec(t.Context(), text); err == nil {
			t.Errorf("%s is done", text)
		}
	}
}

// runNode runs a node on a database and returns its URL.
func runNode(t *testing.T, dsn string) (url string) {
	t.Helper()
	broker, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	ctx, stop := context.WithCancel(context.Background())
	ready, ended, log := make(chan server.Endpoints, 1), make(chan error, 1), &bustest.Log{}
	go func() {
		ended <- server.Run(ctx, server.Config{
			DataDir: bustest.Dir(t), DatabaseURL: dsn, NATSURL: broker.ClientURL(), HTTPAddr: "127.0.0.1:0",
			Ready: func(e server.Endpoints) { ready <- e }, Log: slog.New(slog.NewTextHandler(log, nil)),
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the node ended with: %v", err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	select {
	case e := <-ready:
		return e.HTTP
	case err := <-ended:
		ended <- nil
		t.Fatalf("the node does not run: %v", err)
	case <-time.After(within):
		t.Fatal("the node does not serve")
	}
	return ""
}

// waitsAndAlerts checks that a node creates a job, an alert and history from a rule and an event.
func waitsAndAlerts(t *testing.T, url string) {
	t.Helper()
	call := func(method, path, kind, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		a, err := (&http.Client{Timeout: within}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = a.Body.Close() }()
		text, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode >= http.StatusMultipleChoices {
			t.Fatalf("%s %s: %d %s %v", method, path, a.StatusCode, text, err)
		}
		return string(text)
	}
	call(http.MethodPost, "/api/v1/rules", "application/yaml", `name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 1s, step: a, severity: warning, text: "order {{key}}"}, {after: 1h, step: b, severity: critical}]
slot: 1s
`)
	call(http.MethodPost, "/api/v1/events/orders.created", "application/json", `{"id": "1"}`)
	until(t, "there is an alert", func() bool { return strings.Contains(call(http.MethodGet, "/api/v1/alerts", "", ""), `"order 1"`) })
	call(http.MethodPost, "/api/v1/events/orders.shipped", "application/json", `{"id": "1"}`)
	until(t, "the job is history", func() bool { return strings.Contains(call(http.MethodGet, "/api/v1/history", "", ""), `"resolved"`) })
	if ready := call(http.MethodGet, "/readyz", "", ""); !strings.Contains(ready, `"ready":true`) {
		t.Error(ready)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(4 * within); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}

// The script creates each secret once, the same for all its users, and readable only through the containers.
func TestComposeSecrets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	var before string
	for range 2 {
		runScript(t, "./compose-secrets.sh", dir)
		text := ""
		for _, name := range []string{"postgres.password", "owner.pgpass", "worker.pgpass", "nats.token", "nats.env"} {
			text += name + ": " + read(t, filepath.Join(dir, name))
		}
		if before != "" && text != before {
			t.Errorf("a second call makes other secrets:\n%s\n%s", before, text)
		}
		before = text
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info, err)
	}
	token := strings.TrimSpace(read(t, filepath.Join(dir, "nats.token")))
	if env := read(t, filepath.Join(dir, "nats.env")); len(token) < 32 || env != fmt.Sprintf("DEADMAN_NATS_TOKEN=%s\n", token) {
		t.Errorf("the token is %q, and the server has %q", token, env)
	}
	for name, user := range map[string]string{"owner.pgpass": "deadman_owner", "worker.pgpass": "deadman"} {
		fields := strings.Split(strings.TrimSpace(read(t, filepath.Join(dir, name))), ":")
		if len(fields) != 5 || fields[3] != user || len(fields[4]) < 32 {
			t.Errorf("%s: %q", name, fields)
		}
	}
}
