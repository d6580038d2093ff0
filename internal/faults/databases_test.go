package faults_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strconv"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
)

// onEmbedded has one node keep everything in its folder. Its events are in the stream that takes in what no
// other does.
func onEmbedded(a *testbed) {
	a.Helper()
	a.port, a.sources = bustest.Port(a.T), []string{"DEADMAN_EVENTS"}
	a.reach = func(string) []string {
		return []string{"--data-dir", a.dir, "--nats-addr", fmt.Sprintf("127.0.0.1:%d", a.port)}
	}
	a.serving = func() {
		a.wait()
		a.connect(bustest.LogIn(a.T, a.dir, a.urls(), bus.UserAdmin))
		a.openSQLite()
	}
}

// onSQLite has one node keep its database in its folder. The broker is another process.
func onSQLite(a *testbed) {
	a.reach = func(string) []string { return []string{"--data-dir", a.dir} }
	a.serving = func() {
		a.wait()
		a.openSQLite()
	}
}

// onPostgres gives the nodes a database of the Postgres that all runs share, over a link.
func onPostgres(a *testbed) {
	a.Helper()
	dsn := storetest.EmptyPostgres(a.T) // -program may break a program with another schema
	a.prepare(dsn)
	u, err := url.Parse(dsn)
	if err != nil {
		a.Fatal(err)
	}
	a.database = between(a.T, u.Host)
	u.Host = a.database.addr()
	a.use(u)
}

// onCluster gives the nodes a Postgres that writes to disk as in production.
func onCluster(a *testbed) *storetest.Cluster {
	a.Helper()
	cluster, err := storetest.StartCluster(storetest.Settings{Durable: true})
	if err != nil {
		a.Fatal(err)
	}
	a.stopAfterTest(cluster)
	a.prepare(cluster.DSN)
	u, err := url.Parse(cluster.DSN)
	if err != nil {
		a.Fatal(err)
	}
	a.use(u)
	return cluster
}

// replicated is a Postgres with a standby.
type replicated struct {
	primary, standby *storetest.Cluster
	link             *link // over which the standby replicates
}

// onReplicated gives the nodes a Postgres with a standby, and has them find the one that is the primary.
func onReplicated(a *testbed) *replicated {
	a.Helper()
	r := &replicated{primary: onCluster(a)}
	r.link = between(a.T, net.JoinHostPort("127.0.0.1", strconv.Itoa(r.primary.Port)))
	host, port, err := net.SplitHostPort(r.link.addr())
	if err != nil {
		a.Fatal(err)
	}
	if r.standby, err = r.primary.StartStandby(host, port); err != nil {
		a.Fatal(err)
	}
	a.stopAfterTest(r.standby)
	u, err := url.Parse(r.primary.DSN)
	if err != nil {
		a.Fatal(err)
	}
	u.Host += fmt.Sprintf(",127.0.0.1:%d", r.standby.Port)
	u.RawQuery += "&target_session_attrs=read-write"
	a.use(u)
	a.openDB("pgx", u.String())
	return r
}

// stopAfterTest ends a Postgres with the run.
func (a *testbed) stopAfterTest(cluster *storetest.Cluster) {
	a.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			a.Error(err)
		}
	})
}

// prepare makes the schema of a Postgres, and has it note who decides.
func (a *testbed) prepare(dsn string) {
	a.Helper()
	if err := migrate(a.Context(), dsn); err != nil {
		a.Fatal(err)
	}
	a.openDB("pgx", dsn)
	if err := a.InstallTriggers(a.Context()); err != nil {
		a.Fatal(err)
	}
	a.fenceLogged = true
}

func migrate(ctx context.Context, dsn string) error {
	s, err := store.Open(ctx, store.Options{DatabaseURL: dsn, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return s.Close()
}

// use has the nodes use a Postgres, each under its name.
func (a *testbed) use(dsn *url.URL) {
	a.reach = func(name string) []string {
		return []string{"--database-url", dsn.String() + "&application_name=" + name}
	}
}

func (a *testbed) openDB(driver, dsn string) {
	a.Helper()
	var err error
	if a.DB, err = sql.Open(driver, dsn); err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = a.DB.Close() })
}

// openSQLite opens the database in the folder.
func (a *testbed) openSQLite() {
	a.Helper()
	a.openDB("sqlite", "file:"+filepath.Join(a.dir, "deadman.db")+"?mode=ro&_pragma=busy_timeout(5000)")
}
