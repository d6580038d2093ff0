package bench_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"deadman/internal/bench"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
)

// BenchmarkSlowSource makes DEADMAN_BENCH_JOBS jobs of a rule due each second, for ten seconds, while the source of
// another rule hangs, and while its handler hangs. It prints the delays of the alerts of the good rule;
// DEADMAN_BENCH_ROUNDS is the number of rounds. It fails if the 99th percentile is more than two seconds.
func BenchmarkSlowSource(b *testing.B) {
	dsn := durable(b)
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(b), Addr: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	options := bench.HangingOptions{
		DatabaseURL: dsn, NATSURL: server.ClientURL(), Out: os.Stdout,
		Jobs: setting(b, "DEADMAN_BENCH_JOBS", 2000), Slots: 10, Rounds: setting(b, "DEADMAN_BENCH_ROUNDS", 3),
	}
	shop := newShop(b, dsn, options.Jobs*options.Slots)
	startNode(b, dsn, server.ClientURL(), bench.HangingDocuments, "--sources", writeSources(b, shop))
	for b.Loop() {
		delays, err := bench.Hanging(b.Context(), options)
		if err != nil {
			b.Fatal(err)
		}
		for way, d := range delays {
			b.ReportMetric(float64(d.P99.Milliseconds()), way+"-p99-ms")
			if d.P99 > 2*time.Second {
				b.Errorf("%s: p99 %s", way, d.P99)
			}
		}
	}
}

// newShop creates a database beside a node's, with the looked-up table. A rule can be saved only if the table
// exists.
func newShop(b *testing.B, dsn string, orders int) (shop string) {
	b.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		b.Fatal(err)
	}
	u.Path = "/shop"
	run(b, dsn, func(p *pgxpool.Pool) error { _, err := p.Exec(b.Context(), `CREATE DATABASE shop`); return err })
	run(b, u.String(), func(p *pgxpool.Pool) error { return bench.FillOrders(b.Context(), p, orders) })
	return u.String()
}

// run calls a function with a connection pool of a database.
func run(b *testing.B, dsn string, do func(*pgxpool.Pool) error) {
	b.Helper()
	pool, err := pgxpool.New(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	if err := do(pool); err != nil {
		b.Fatal(err)
	}
}

// writeSources writes a file of two sources: a database, and a listener that never answers.
func writeSources(b *testing.B, shop string) (path string) {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			b.Cleanup(func() { _ = conn.Close() })
		}
	}()
	dir := b.TempDir()
	path = filepath.Join(dir, "sources.yaml")
	for name, text := range map[string]string{
		path:                              bench.HangingSources,
		filepath.Join(dir, "shop.url"):    shop,
		filepath.Join(dir, "hanging.url"): "postgres://unknown@" + listener.Addr().String() + "/none?sslmode=disable",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return path
}
