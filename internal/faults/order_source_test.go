package faults_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"deadman/internal/faults"
	"deadman/internal/store/storetest"
)

// shop has the true state of the orders of a run, as a database and as a bank's HTTP service that rules query. Each is
// behind a link.
type shop struct {
	*testbed
	db             *sql.DB
	name           string // of the database, and of the role of its client
	database, bank *link
	way            atomic.Pointer[faultyAnswer] // the bank's wrong answers; nil: answers correctly

	mu      sync.Mutex
	shipped map[string]faults.ShipmentTime
	crashes bool
}

// openShop makes the rules of the testbed query a shop.
func openShop(a *testbed, crashes bool) *shop {
	a.Helper()
	s := &shop{testbed: a, shipped: map[string]faults.ShipmentTime{}, crashes: crashes}
	dsn, err := url.Parse(storetest.EmptyPostgres(a.T))
	if err != nil {
		a.Fatal(err)
	}
	s.name = strings.TrimPrefix(dsn.Path, "/")
	if s.db, err = sql.Open("pgx", dsn.String()); err != nil {
		a.Fatal(err)
	}
	s.keepConnections()
	a.Cleanup(func() {
		s.must("DROP OWNED BY " + s.name)
		s.must("DROP ROLE " + s.name)
		_ = s.db.Close()
	})
	s.must(`CREATE TABLE truth (id text PRIMARY KEY, shipped boolean NOT NULL DEFAULT false)`)
	s.must(`CREATE VIEW shipments AS SELECT id, CASE WHEN shipped THEN 'SHIPPED' ELSE 'UNSHIPPED' END AS status FROM truth`)
	s.must(`CREATE VIEW carts AS SELECT id FROM truth WHERE NOT shipped`)
	s.must(`CREATE ROLE ` + s.name + ` LOGIN PASSWORD 'open'`)
	s.must(`GRANT SELECT ON shipments, carts TO ` + s.name)
	s.database = between(a.T, dsn.Host)
	dsn.Host, dsn.User = s.database.addr(), url.UserPassword(s.name, "open")
	bank := httptest.NewServer(http.HandlerFunc(s.serve))
	a.Cleanup(bank.Close)
	s.bank = between(a.T, bank.Listener.Addr().String())
	s.define(dsn.String())
	a.rules = "lookups"
	a.play, a.after = func() { s.playOrders(60, 20*time.Millisecond) }, func() { s.more(60, 12) }
	a.Cleanup(s.report)
	a.model = func(ctx context.Context) error {
		return a.CheckLookups(ctx, a.acked, s.shipped, s.crashes)
	}
	return s
}

// define writes the sources file.
func (s *shop) define(dsn string) {
	s.Helper()
	dir := s.TempDir()
	s.lookups = filepath.Join(dir, "sources.yaml")
	file := fmt.Sprintf(`
sources:
  shop: {postgres: {url_file: shop.url, statement_timeout: 200ms}, concurrency: 2, open_for: 1s}
  bank: {http: {url: "http://%s", allow: [127.0.0.1]}, concurrency: 2, open_for: 1s}
`, s.bank.addr())
	for path, text := range map[string]string{s.lookups: file, filepath.Join(dir, "shop.url"): dsn} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			s.Fatal(err)
		}
	}
}

// keepConnections opens all connections in advance: one holds a lock, the other ships orders, even while the database
// refuses connections.
func (s *shop) keepConnections() {
	s.Helper()
	s.db.SetMaxOpenConns(2)
	s.db.SetMaxIdleConns(2)
	var both [2]*sql.Conn
	for i := range both {
		var err error
		if both[i], err = s.db.Conn(s.Context()); err != nil {
			s.Fatal(err)
		}
	}
	for _, conn := range both {
		_ = conn.Close() // returns to the pool
	}
}

func (s *shop) must(statement string, args ...any) {
	s.Helper()
	if _, err := s.db.ExecContext(context.Background(), statement, args...); err != nil {
		s.Errorf("%s: %v", statement, err)
	}
}

// shipOrder ships an order.
func (s *shop) shipOrder(key string) {
	from := time.Now()
	s.mu.Lock()
	s.shipped[key] = faults.ShipmentTime{From: from, Until: from}
	s.mu.Unlock()
	s.must(`INSERT INTO truth VALUES ($1, true) ON CONFLICT (id) DO UPDATE SET shipped = true`, key)
	s.mu.Lock()
	s.shipped[key] = faults.ShipmentTime{From: from, Until: time.Now()}
	s.mu.Unlock()
}

// isShipped reports whether an order was shipped.
func (s *shop) isShipped(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.shipped[key].From.IsZero()
}

// report logs the number of failures of a run.
func (s *shop) report() {
	outages, err := s.Outages(context.Background())
	if err != nil {
		s.Error(err)
	}
	unknown, err := s.Unknown(context.Background())
	if err != nil {
		s.Error(err)
	}
	var lines []string
	for _, l := range faults.Lookups {
		lines = append(lines, fmt.Sprintf("%s %d", l.Rule, len(unknown[l.Rule])))
	}
	s.Logf("undetermined checks: %s; outages: %s", strings.Join(lines, ", "), outages)
}

// The delays of shipments, counted in created orders.
const (
	soon = 50
	late = 110
)

// playOrders places orders at a pace. One of four is never shipped, one is shipped before its event, one soon, and one
// late. The status in the events is correct for half of each group.
func (s *shop) playOrders(n int, pace time.Duration) {
	s.Helper()
	s.wait()
	for i := range n + late {
		if i < n {
			s.placeOrder(i)
		}
		if past := i - soon; past >= 0 && past < n && past%4 == 2 {
			s.shipOrder(orderKey(past))
		}
		if past := i - late; past >= 0 && past%4 == 3 {
			s.shipOrder(orderKey(past))
		}
		pause(pace)
	}
	s.record("played")
}

// more places some orders after all faults have ended. Their lookups close the outages.
func (s *shop) more(from, n int) {
	s.Helper()
	for i := range n {
		s.placeOrder(from + i)
	}
}

func orderKey(i int) string { return fmt.Sprintf("%04d", i) }

func (s *shop) placeOrder(i int) {
	key, wantText := orderKey(i), "UNSHIPPED"
	if i/4%2 == 0 {
		wantText = "SHIPPED"
	}
	if i%4 == 1 {
		s.shipOrder(key)
	} else {
		s.must(`INSERT INTO truth VALUES ($1)`, key)
	}
	body, err := json.Marshal(map[string]string{"id": key, "status": wantText})
	if err != nil {
		s.Fatal(err)
	}
	s.send("orders.created", "orders.created/"+key, body)
	s.acked = append(s.acked, key)
}

// serve is the bank: /shipments/1234 returns the status of an order, and /carts/1234 exists until it is shipped.
func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	if way := s.way.Load(); way != nil {
		way.answer(w, r)
		return
	}
	what, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	shipped := s.isShipped(key)
	switch {
	case what == "carts" && shipped:
		http.NotFound(w, r)
	case what == "carts":
		fmt.Fprintf(w, `{"id": %q}`, key)
	case shipped:
		fmt.Fprint(w, `{"status": "SHIPPED"}`)
	default:
		fmt.Fprint(w, `{"status": "UNSHIPPED"}`)
	}
}
