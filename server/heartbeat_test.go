package server_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// heartbeatReceiver receives heartbeats over HTTP.
type heartbeatReceiver struct {
	*httptest.Server
	mu      sync.Mutex
	answer  func(w http.ResponseWriter, r *http.Request) // nil: 200
	methods []string
	beats   []server.Heartbeat
}

// secret is a path segment that appears only in a receiver's URL.
const secret = "s3cr3t-path"

func newHeartbeatReceiver(t *testing.T) *heartbeatReceiver {
	t.Helper()
	r := &heartbeatReceiver{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *heartbeatReceiver) url() string { return r.URL + "/" + secret }

func (r *heartbeatReceiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.methods = append(r.methods, q.Method)
	if r.answer != nil {
		r.answer(w, q)
		return
	}
	var beat server.Heartbeat
	if body, err := io.ReadAll(q.Body); err == nil && len(body) > 0 && json.Unmarshal(body, &beat) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.beats = append(r.beats, beat)
}

func (r *heartbeatReceiver) setAnswer(answer func(http.ResponseWriter, *http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *heartbeatReceiver) received() []server.Heartbeat {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.beats
}

// heartbeatDetail returns the heartbeat conditions of /readyz.
func (n *node) heartbeatDetail() (text string) {
	n.Helper()
	var ready struct {
		Conditions []struct {
			Name, Detail string
			OK           bool
		}
	}
	n.get("/readyz", &ready)
	for _, c := range ready.Conditions {
		if c.Name == "heartbeat" {
			text += c.Detail + "\n"
			if c.OK == strings.Contains(c.Detail, "fails and is retried") {
				n.Errorf("%q is in order: %v", c.Detail, c.OK)
			}
		}
	}
	return text
}

// metrics returns the text of /metrics.
func (n *node) metrics() string {
	n.Helper()
	answer, err := http.Get(n.HTTP + "/metrics")
	if err != nil {
		n.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		n.Fatal(err)
	}
	return string(text)
}

func TestHeartbeatsAreSent(t *testing.T) {
	t.Parallel()
	r, url := newHeartbeatReceiver(t), startNATS(t)
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	received, err := conn.SubscribeSync("beats.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	n := startReadyNode(t, server.Config{
		NATSURL: url, Version: "v1.2.3", HeartbeatURL: r.url(), HeartbeatSubject: "beats.deadman", HeartbeatEvery: time.Second,
	})
	n.eventually("three over HTTP", func() bool { return len(r.received()) >= 3 })
	for i, beat := range r.received() {
		if beat.Version != "v1.2.3" || !strings.Contains(beat.Node, "/") || beat.LagSeconds != 0 || beat.SweptThrough.After(beat.At) {
			t.Errorf("it is %+v", beat)
		}
		if i > 0 && !beat.SweptThrough.After(r.received()[i-1].At) {
			t.Errorf("nothing was swept between %+v and %+v", r.received()[i-1], beat)
		}
	}
	msg, err := received.NextMsg(within)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(msg.Data, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node", "version", "at", "swept_through", "lag_seconds"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("%s has no %s", msg.Data, name)
		}
	}
	for _, over := range []string{"http", "nats"} {
		if text := n.heartbeatDetail(); !strings.Contains(text, "last heartbeat to "+over+" at") {
			t.Errorf("/readyz answers %q", text)
		}
		if sent := `deadman_heartbeats_total{outcome="sent",target="` + over + `"} `; !strings.Contains(n.metrics(), sent) || strings.Contains(n.metrics(), sent+"0\n") {
			t.Errorf("/metrics does not count those over %s", over)
		}
	}
}

// Each failure of the receiver and its end are logged once, without the URL.
func TestRefusedHeartbeatIsLoggedOnce(t *testing.T) {
	t.Parallel()
	r, elsewhere := newHeartbeatReceiver(t), newHeartbeatReceiver(t)
	r.setAnswer(func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, elsewhere.url(), http.StatusTemporaryRedirect)
	})
	n := startReadyNode(t, server.Config{HeartbeatURL: r.url(), HeartbeatEvery: time.Second})
	failed := func(count string) func() bool {
		return func() bool {
			return strings.Contains(n.metrics(), `deadman_heartbeats_total{outcome="failed",target="http"} `+count)
		}
	}
	n.eventually("two failed", failed("2"))
	if text := n.heartbeatDetail(); !strings.Contains(text, "fails and is retried") {
		t.Errorf("/readyz answers %q", text)
	}
	r.setAnswer(func(w http.ResponseWriter, q *http.Request) { // accepts only GET
		if q.Method != http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
	n.eventually("it goes out again", func() bool { return strings.Contains(n.log.String(), "heartbeat recovered") })
	r.CloseClientConnections()
	r.Close()
	n.eventually("the refused connection is logged", func() bool { return strings.Contains(n.log.String(), "connection refused") })
	for _, cause := range []string{"the receiver answers with 307", "connection refused"} {
		if got := strings.Count(n.log.String(), cause); got != 1 {
			t.Errorf("%q is logged %d times, want once", cause, got)
		}
	}
	for _, hidden := range []string{secret, strings.TrimPrefix(r.URL, "http://")} {
		if strings.Contains(n.log.String()+n.heartbeatDetail(), hidden) {
			t.Errorf("%s is shown", hidden)
		}
	}
	if len(elsewhere.received()) != 0 {
		t.Error("a redirect was followed")
	}
}

// A hung sweep sends no heartbeat, although the process lives and keeps its leases.
func TestHungSweepSendsNoHeartbeat(t *testing.T) {
	t.Parallel()
	r, dsn := newHeartbeatReceiver(t), storetest.Postgres(t)
	n := startReadyNode(t, server.Config{DatabaseURL: dsn, NATSURL: startNATS(t), HeartbeatURL: r.url(), HeartbeatEvery: time.Second})
	n.eventually("a heartbeat", func() bool { return len(r.received()) > 0 })
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE future_job IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	before := len(r.received())
	// If the lock meets the heartbeat after its wait for the sweep, the first cause is a read that takes too long.
	n.eventually("it is withheld", func() bool { return strings.Contains(n.log.String(), `"err":"withheld: `) })
	n.eventually("the cause is shown", func() bool { return strings.Contains(n.heartbeatDetail(), ": the sweep does not come through\n") })
	if sent := len(r.received()) - before; sent > 1 { // one was in transit
		t.Errorf("%d heartbeats while no sweep came through", sent)
	}
	before = len(r.received())
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.eventually("it goes out again", func() bool { return len(r.received()) > before })
}

// holdLastShard makes a node hold the last shard and do nothing else.
func holdLastShard(t *testing.T, dsn, node string, d time.Duration) (*store.Store, futurejobs.Lease) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{DatabaseURL: dsn, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	leases, err := s.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held, ok, err := s.Take(t.Context(), node, leases[len(leases)-1].HeldShard, d)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return s, held
}

// One node reports for all shards, including those of others.
func TestShardUnsweptByAnotherNodeStopsHeartbeat(t *testing.T) {
	t.Parallel()
	r, dsn := newHeartbeatReceiver(t), storetest.Postgres(t)
	s, last := holdLastShard(t, dsn, "another", time.Hour)
	n := startReadyNode(t, server.Config{DatabaseURL: dsn, NATSURL: startNATS(t), HeartbeatURL: r.url(), HeartbeatEvery: time.Second})
	n.eventually("it is withheld", func() bool { return strings.Contains(n.log.String(), "withheld: other nodes do not sweep") })
	if sent := len(r.received()); sent > 0 {
		t.Errorf("%d heartbeats while a shard is not swept", sent)
	}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last.Swept = now
	if still, err := s.Renew(t.Context(), "another", []futurejobs.Lease{last}, time.Hour); err != nil || len(still) != 1 {
		t.Fatal(still, err)
	}
	n.eventually("one goes out that names the shard's time", func() bool { // the first may name an older one of the node's own shards
		return slices.ContainsFunc(r.received(), func(beat server.Heartbeat) bool { return beat.SweptThrough.Equal(last.Swept) })
	})
	for _, beat := range r.received() {
		if beat.SweptThrough.After(last.Swept) {
			t.Errorf("a heartbeat names %s as swept, but a shard was swept through %s only", beat.SweptThrough, last.Swept)
		}
	}
}

func TestInvalidHeartbeatSettings(t *testing.T) {
	for name, c := range map[string]server.Config{
		"DEADMAN_HEARTBEAT_EVERY":   {HeartbeatEvery: time.Second - 1},
		"DEADMAN_HEARTBEAT_SUBJECT": {HeartbeatSubject: "beats.*"},
	} {
		c.DataDir, c.Log = t.TempDir(), slog.New(slog.DiscardHandler)
		err := server.Run(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), name) || errors.Is(err, bus.ErrSubject) != (c.HeartbeatSubject != "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
