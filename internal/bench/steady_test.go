package bench_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"deadman/internal/bench"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
)

// BenchmarkSteady publishes DEADMAN_BENCH_RATE events to a node within a minute, and measures the CPU time of the node
// and the number of events that are not jobs yet when the last one is published. The database is another process; the
// broker and the publisher are in this one.
func BenchmarkSteady(b *testing.B) {
	dsn := durable(b)
	rate := setting(b, "DEADMAN_BENCH_RATE", 5000)
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(b), Addr: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	nc := connect(b, server.ClientURL())
	node := startNode(b, dsn, server.ClientURL(), bench.EventsDocument)
	pool, err := pgxpool.New(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	for b.Loop() {
		before, begun := cpu(b, node), time.Now()
		publishSteadily(b, nc, rate)
		behind := rate - jobs(b, pool)
		took := time.Since(begun)
		b.ReportMetric(float64(behind), "behind")
		b.ReportMetric(float64(rate)/took.Seconds(), "events/s")
		b.ReportMetric(100*(cpu(b, node)-before).Seconds()/took.Seconds(), "%core")
		for end := time.Now().Add(time.Minute); jobs(b, pool) < rate; {
			if time.Now().After(end) {
				b.Fatalf("%d of %d events are jobs after another minute", jobs(b, pool), rate)
			}
			time.Sleep(10 * time.Millisecond)
		}
		b.StopTimer()
		if _, err := pool.Exec(b.Context(), `TRUNCATE future_job`); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// connect connects to a broker and creates the stream of the events.
func connect(b *testing.B, url string) *nats.Conn {
	b.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	if err := bench.CreateStream(b.Context(), nc); err != nil {
		b.Fatal(err)
	}
	return nc
}

// publishSteadily publishes n events within a minute, a few every 10 ms.
func publishSteadily(b *testing.B, nc *nats.Conn, n int) {
	b.Helper()
	const every = 10 * time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for begun, sent := time.Now(), 0; sent < n; {
		<-ticker.C
		due := min(n, int(float64(n)*time.Since(begun).Minutes()))
		if err := bench.PublishEvents(b.Context(), nc, sent, due); err != nil {
			b.Fatal(err)
		}
		sent = due
	}
}

func jobs(b *testing.B, pool *pgxpool.Pool) (n int) {
	b.Helper()
	if err := pool.QueryRow(b.Context(), `SELECT count(*) FROM future_job`).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}
