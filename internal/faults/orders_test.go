package faults_test

import (
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	_ "modernc.org/sqlite"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/faults"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// realOrders has orders of a real marketplace. The file is outside the repository.
const realOrders = "../../../shared/data/orders-2016-2017.csv"

// order is one line of the file.
type order struct {
	id     string
	handed bool // to a carrier, ever
}

func readOrders(t *testing.T) []order {
	t.Helper()
	file, err := os.Open(realOrders)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the real orders are not here: %s", realOrders)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	orders := make([]order, 0, len(lines)-1)
	for _, line := range lines[1:] {
		orders = append(orders, order{line[column["order_id"]], line[column["handed_to_carrier_at"]] != ""})
	}
	return orders
}

func TestRealOrders(t *testing.T) {
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Run("served throughout", func(t *testing.T) { playRealOrders(t, database, false) })
			t.Run("stopped between events and slots", func(t *testing.T) { playRealOrders(t, database, true) })
		})
	}
}

// playRealOrders plays the file as events and compares the alerts with it, one by one. With pause, the node is stopped
// after the last event until all slots are past.
func playRealOrders(t *testing.T, database string, pause bool) {
	orders := readOrders(t)
	config := server.Config{
		DataDir: bustest.Dir(t), HTTPAddr: "127.0.0.1:0", NATSAddr: "127.0.0.1:0", Rules: "testdata",
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if database == "postgres" {
		config.DatabaseURL, config.NATSURL = storetest.Postgres(t), broker(t)
	}

	at, stop := serve(t, config)
	lastSlot := publishOrders(t, bustest.LogIn(t, config.DataDir, at.NATS, bus.UserEvents), orders)
	if pause {
		stop()
		for time.Now().Before(lastSlot) { // the slots have to pass while no node runs
			time.Sleep(50 * time.Millisecond)
		}
		at, stop = serve(t, config)
	}
	defer stop()

	want := map[string]bool{}
	for _, o := range orders {
		if !o.handed {
			want[o.id] = true
		}
	}
	checker := checkerOf(t, config, at)
	eventually(t, 90*time.Second, "every order that was never handed over is escalated, and nothing else is left", func() bool {
		if escalated(t, checker) < len(want) {
			return false
		}
		n := count(t, checker) // read last: the last alert may not be published yet
		return n.Created == len(orders) && n.Pending == len(want) && n.Unpublished == 0
	})
	if err := checker.CheckPromises(t.Context()); err != nil {
		t.Error(err)
	}
	published, err := checker.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := compare(t, published, want)
	if pause && late == 0 {
		t.Error("no order was found late; the node was not stopped between events and slots")
	}
	t.Logf("%d orders never handed over, %d alerts, %d found late", len(want), len(published), late)
}

// serve runs a node in this process until stop is called.
func serve(t *testing.T, config server.Config) (at server.Endpoints, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan server.Endpoints, 1)
	ended := make(chan error, 1)
	config.Ready = func(e server.Endpoints) { ready <- e }
	go func() { ended <- server.Run(ctx, config) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	select {
	case at = <-ready:
	case err := <-ended:
		t.Fatalf("serve: %v", err)
	}
	return at, stop
}

// publishOrders plays the orders in batches: some hundred are created, then those of them that were handed over are
// shipped. It returns the time after the last step of the last order.
func publishOrders(t *testing.T, url string, orders []order) (lastSlot time.Time) {
	t.Helper()
	conn, err := nats.Connect(url, nats.CustomInboxPrefix("_INBOX."+bus.UserEvents))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(512))
	if err != nil {
		t.Fatal(err)
	}
	const run = 256
	for begin := 0; begin < len(orders); begin += run {
		some := orders[begin:min(begin+run, len(orders))]
		var acks []jetstream.PubAckFuture
		for _, subject := range []string{"orders.created", "orders.shipped"} {
			for _, o := range some {
				if subject == "orders.shipped" && !o.handed {
					continue
				}
				ack, err := js.PublishAsync(subject, fmt.Appendf(nil, `{"id":%q}`, o.id))
				if err != nil {
					t.Fatal(err)
				}
				acks = append(acks, ack)
			}
		}
		for _, ack := range acks {
			select {
			case <-ack.Ok():
			case err := <-ack.Err():
				t.Fatal(err)
			}
		}
	}
	return time.Now().Add(8 * time.Second) // the rule's last step is after 6 s, on a grid of 1 s
}

func checkerOf(t *testing.T, config server.Config, at server.Endpoints) *faults.Checker {
	t.Helper()
	driver, dsn := "pgx", config.DatabaseURL
	if dsn == "" {
		driver, dsn = "sqlite", "file:"+filepath.Join(config.DataDir, "deadman.db")+"?mode=ro&_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := nats.Connect(bustest.LogIn(t, config.DataDir, at.NATS, bus.UserAdmin))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return &faults.Checker{DB: db, NATS: conn}
}

// escalated counts the orders with an alert of the last step.
func escalated(t *testing.T, c *faults.Checker) (n int) {
	t.Helper()
	if err := c.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM future_job WHERE step = 2`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
