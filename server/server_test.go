package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/internal/testwait"
	"deadman/server"
)

// within bounds every real wait of these tests.
const within = 2 * time.Minute

// node is a node in this process.
type node struct {
	*testing.T
	server.Endpoints
	dir   string // of data
	log   *bustest.Log
	stop  func()
	ended chan error
}

// natsURL returns the URL of the embedded NATS server for a user.
func (n *node) natsURL(user string) string {
	n.Helper()
	return bustest.LogIn(n, n.dir, n.NATS, user)
}

// natsConn connects to the embedded NATS server as a user, until the test ends.
func (n *node) natsConn(user string, options ...nats.Option) *nats.Conn {
	n.Helper()
	conn, err := nats.Connect(n.natsURL(user), append(options, nats.CustomInboxPrefix("_INBOX."+user))...)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(conn.Close)
	return conn
}

// byDefault stands for an unset address.
const byDefault = "default"

// newDataDir returns a data folder with a SQLite database that has the present schema.
func newDataDir(t *testing.T) string {
	t.Helper()
	dir := bustest.Dir(t)
	storetest.SQLite(t, dir)
	return dir
}

// startNode starts a node without waiting.
func startNode(t *testing.T, c server.Config) (n *node, ready <-chan server.Endpoints) {
	t.Helper()
	return startNodeLogging(t, c, func(h slog.Handler) slog.Handler { return h })
}

// startNodeLogging is startNode with a wrapper around the log handler.
func startNodeLogging(t *testing.T, c server.Config, log func(slog.Handler) slog.Handler) (n *node, ready <-chan server.Endpoints) {
	t.Helper()
	if c.DataDir == "" {
		c.DataDir = newDataDir(t)
	}
	for _, addr := range []*string{&c.HTTPAddr, &c.NATSAddr} {
		switch *addr {
		case "":
			*addr = "127.0.0.1:0"
		case byDefault:
			*addr = ""
		}
	}
	serves := make(chan server.Endpoints, 1)
	ended := make(chan error, 1)
	n = &node{T: t, dir: c.DataDir, log: &bustest.Log{}, ended: ended}
	c.Ready = func(e server.Endpoints) { serves <- e }
	c.Log = slog.New(log(slog.NewJSONHandler(n.log, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	go func() { ended <- server.Run(ctx, c); close(ended) }()
	t.Cleanup(func() {
		cancel()
		for err := range ended {
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		}
		if t.Failed() {
			t.Log(n.log.String())
		}
	})
	return n, serves
}

// startReadyNode starts a node and waits until it serves.
func startReadyNode(t *testing.T, c server.Config) *node {
	t.Helper()
	n, ready := startNode(t, c)
	select {
	case n.Endpoints = <-ready:
	case err := <-n.ended:
		t.Fatalf("serve: %v", err)
	case <-time.After(within):
		t.Fatal("it does not serve")
	}
	return n
}

// startNATS starts a NATS server for several nodes.
func startNATS(t *testing.T) (url string) {
	t.Helper()
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.ClientURL()
}

// get decodes the response for a path of the API into out and returns the status.
func (n *node) get(path string, out any) int {
	n.Helper()
	return n.call(http.MethodGet, path, "", out)
}

func (n *node) call(method, path, body string, out any) int {
	n.Helper()
	got := n.callRaw(method, path, body)
	if out != nil {
		got.decode(n.T, out)
	}
	return got.status
}

func (n *node) eventually(what string, ok func() bool) {
	n.Helper()
	testwait.Until(n, what, ok)
}

// list is the part of an API list that these tests check.
type list struct {
	Items []struct {
		Rule, Key, Outcome, Subject, Reason, Status, Severity string

		Step   any // the name of an alert's step, or the number of a job's steps
		Closes []string
	}
}

func ruleFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const paymentRule = `
name: payment-unconfirmed
entity: payment
trigger: {event: payments.started, key: event.id}
resolve: {event: payments.confirmed, key: event.id}
escalate: [{after: 1s, step: primary, severity: error}, {after: 1h, step: late, severity: critical}]
slot: 1s
`

func TestFromEventToAlertToResolved(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			c := server.Config{Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule})}
			if database == "postgres" {
				c.DatabaseURL, c.NATSURL = storetest.Postgres(t), startNATS(t)
			}
			n := startReadyNode(t, c)
			if status := n.call(http.MethodPost, "/api/v1/events/payments.started", `{"id":"p1"}`, nil); status != http.StatusAccepted {
				t.Fatalf("an event is answered with %d", status)
			}
			var raised list
			n.eventually("an alert", func() bool { n.get("/api/v1/alerts", &raised); return len(raised.Items) == 1 })
			if a := raised.Items[0]; a.Key != "p1" || a.Status != "firing" || a.Step != "primary" {
				t.Errorf("alerts %+v", a)
			}
			n.call(http.MethodPost, "/api/v1/events/payments.confirmed", `{"id":"p1"}`, nil)
			n.eventually("a resolved alert", func() bool { n.get("/api/v1/alerts", &raised); return len(raised.Items) == 2 })
			if a := raised.Items[0]; a.Status != "resolved" || len(a.Closes) != 1 {
				t.Errorf("alerts %+v", a)
			}
			var history list
			n.get("/api/v1/history", &history)
			if len(history.Items) != 1 || history.Items[0].Outcome != "resolved" {
				t.Errorf("history has %+v", history.Items)
			}
			if log := n.log.String(); !strings.Contains(log, `"component":"nats"`) || strings.Contains(log, `"msg":"alert"`) { // with customers' data
				t.Errorf("the log of the level info:\n%s", log)
			}
		})
	}
}

func TestManualCancel(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule})})
	n.call(http.MethodPost, "/api/v1/events/payments.started", `{"id":"a/b c"}`, nil)
	var raised list
	n.eventually("an alert", func() bool { n.get("/api/v1/alerts", &raised); return len(raised.Items) == 1 })
	job := "/api/v1/jobs/payment-unconfirmed?key=a%2Fb%20c"
	if status := n.call(http.MethodDelete, job, "", nil); status != http.StatusNoContent {
		t.Fatalf("cancelling is answered with %d", status)
	}
	if status := n.call(http.MethodDelete, job, "", nil); status != http.StatusNotFound {
		t.Errorf("cancelling again is answered with %d", status)
	}
	var history list
	n.get("/api/v1/history", &history)
	if len(history.Items) != 1 || history.Items[0].Outcome != "cancelled" {
		t.Errorf("history has %+v", history.Items)
	}
	n.get("/api/v1/alerts", &raised)
	if len(raised.Items) != 2 || raised.Items[0].Status != "resolved" || len(raised.Items[0].Closes) != 1 {
		t.Errorf("the alert is not resolved: %+v", raised.Items)
	}
	if a := raised.Items[0]; a.Severity != "error" || a.Step != "primary" {
		t.Errorf("it is resolved by an alert that is %s, step %v, on channels without the first alert", a.Severity, a.Step)
	}
}

func TestInvalidRuleFileDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{Rules: ruleFolder(t, map[string]string{
		"bad.yaml":     "name: bad\nentity: order\ntrigger: {event: orders.created, key: event.id}\nescalate:\n  - {afer: 3h}\n",
		"payment.yaml": paymentRule,
	})})
	log := n.log.String()
	for _, part := range []string{"bad.yaml", ":5:", "afer", "after"} {
		if !strings.Contains(log, part) {
			t.Errorf("the log does not name %q", part)
		}
	}
	n.call(http.MethodPost, "/api/v1/events/payments.started", `{"id":"p1"}`, nil)
	var jobs list
	n.eventually("a job of the good rule", func() bool { n.get("/api/v1/jobs", &jobs); return len(jobs.Items) == 1 })
}

func TestInvalidEventBecomesDeadLetter(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule})})
	for _, body := range []string{`{"id":`, `{"amount":3}`, `{"id":["x"]}`, `{"id":"good"}`} {
		n.call(http.MethodPost, "/api/v1/events/payments.started", body, nil)
	}
	var jobs, letters list
	n.eventually("the good event's job", func() bool { n.get("/api/v1/jobs", &jobs); return len(jobs.Items) == 1 })
	n.get("/api/v1/dead-letters", &letters)
	if len(letters.Items) != 3 {
		t.Fatalf("%d dead letters: %+v", len(letters.Items), letters.Items)
	}
	for _, l := range letters.Items {
		if l.Rule != "payment-unconfirmed" || l.Subject != "payments.started" || l.Reason == "" {
			t.Errorf("the dead letter is %+v", l)
		}
	}
}

func TestStartWaitsForMissingDatabase(t *testing.T) {
	t.Parallel()
	port := bustest.Port(t)
	n, ready := startNode(t, server.Config{NATSURL: startNATS(t), DatabaseURL: fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)})
	n.eventually("the log names what the node waits for", func() bool { return strings.Contains(n.log.String(), "not there yet") })

	cluster, err := storetest.StartCluster(storetest.Settings{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.stop()
		if err := <-n.ended; err != nil { // the node closes the database first
			t.Errorf("serve: %v", err)
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-n.ended:
		t.Fatalf("serve: %v", err)
	case <-time.After(within):
		t.Fatal("it does not serve although the database is there")
	}
}

func TestSharedDatabaseNeedsSharedBroker(t *testing.T) {
	t.Parallel()
	err := server.Run(t.Context(), server.Config{DatabaseURL: storetest.Postgres(t), DataDir: t.TempDir()})
	if !errors.Is(err, server.ErrHalfConfigured) || !strings.Contains(err.Error(), "DEADMAN_NATS_URL") {
		t.Errorf("a database without a broker: %v", err)
	}
}

func TestSecondProcessOnDataFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	startReadyNode(t, server.Config{DataDir: dir})
	err := server.Run(t.Context(), server.Config{
		DataDir: dir, HTTPAddr: "127.0.0.1:0", NATSAddr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
	})
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second process: %v", err)
	}
}

func TestTakenDefaultPortsAreReplaced(t *testing.T) { // not parallel: it needs a default port for itself
	for _, addr := range []string{server.DefaultHTTPAddr, server.DefaultNATSAddr} {
		if taken, err := net.Listen("tcp", addr); err == nil {
			t.Cleanup(func() { _ = taken.Close() })
		}
	}
	n := startReadyNode(t, server.Config{HTTPAddr: byDefault, NATSAddr: byDefault})
	if strings.HasSuffix(n.HTTP, server.DefaultHTTPAddr) || strings.HasSuffix(n.NATS, server.DefaultNATSAddr) {
		t.Errorf("it serves at %+v, which is taken", n.Endpoints)
	}
	if status := n.get("/healthz", nil); status != http.StatusOK {
		t.Errorf("/healthz is %d where it moved to", status)
	}
	for _, addr := range []string{server.DefaultHTTPAddr, server.DefaultNATSAddr} {
		if !strings.Contains(n.log.String(), addr) {
			t.Errorf("the log does not name the taken address %s", addr)
		}
	}
}

func TestConfiguredPortIsKept(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]server.Config{
		"HTTP": {HTTPAddr: taken.Addr().String(), NATSAddr: "127.0.0.1:0"},
		"NATS": {HTTPAddr: "127.0.0.1:0", NATSAddr: taken.Addr().String()},
	} {
		c.DataDir, c.Log = t.TempDir(), slog.New(slog.DiscardHandler)
		if err := server.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
			t.Errorf("%s on a port that is in use: %v", name, err)
		}
	}
}

// Without NATS a node continues as far as possible: HTTP requests work, and /readyz reports the failure.
func TestReadyWithoutNTS(t *testing.T) {
	t.Parallel()
	broker, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	n := startReadyNode(t, server.Config{NATSURL: broker.ClientURL()})
	n.eventually("it is fine", func() bool { return n.get("/readyz?all", nil) == http.StatusOK })
	broker.Close()
	n.eventually("it is not fine", func() bool { return n.get("/readyz?all", nil) == http.StatusServiceUnavailable })
	var ready struct{ Ready, Fine bool }
	if status := n.get("/readyz", &ready); status != http.StatusOK || !ready.Ready || ready.Fine {
		t.Errorf("%d %+v", status, ready)
	}
	if status := n.get("/api/v1/jobs", nil); status != http.StatusOK {
		t.Errorf("jobs: %d", status)
	}
}

func TestReadyzReportsFailures(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{})
	var ready struct{ Ready, Healthy bool }
	n.eventually("it is healthy", func() bool { return n.get("/readyz?all", &ready) == http.StatusOK && ready.Ready && ready.Healthy })
}
