package sources_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/internal/bus/bustest"
	"deadman/internal/sources"
)

// natsServer starts a real server with JetStream. The services of the tests use separate connections.
func natsServer(t *testing.T, change ...func(*natsserver.Options)) *natsserver.Server {
	t.Helper()
	o := bustest.Options(t)
	for _, c := range change {
		c(o)
	}
	return bustest.Serve(t, o)
}

func natsConn(t *testing.T, server *natsserver.Server) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// natsSource returns a source on the node's own connection.
func natsSource(t *testing.T, conn *nats.Conn) lookup.Client {
	t.Helper()
	return openNATS(t, sources.NATS{}, conn)
}

func openNATS(t *testing.T, spec sources.NATS, conn *nats.Conn) lookup.Client {
	t.Helper()
	client, err := sources.Open(sources.Spec{Name: "shop", NATS: &spec}, func() *nats.Conn { return conn })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// shortContext returns a context for queries that are expected to succeed.
func shortContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// service replies on a subject until the test ends.
func service(t *testing.T, conn *nats.Conn, subject string, answer nats.MsgHandler) {
	t.Helper()
	if _, err := conn.Subscribe(subject, answer); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// respond sends the reply of a service.
func respond(t *testing.T, to *nats.Msg, body string, header ...string) {
	t.Helper()
	m := nats.NewMsg(to.Reply)
	m.Data = []byte(body)
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	if err := to.RespondMsg(m); err != nil {
		t.Error(err)
	}
}

// checkLinesOf compares findings with expected ones: a value, "absent", or a part of an error.
func checkLinesOf(t *testing.T, found []checks.Finding, want ...string) {
	t.Helper()
	if len(found) != len(want) {
		t.Fatalf("%d findings, want %d", len(found), len(want))
	}
	for i, f := range found {
		got := "absent"
		switch {
		case f.Err != nil:
			got = f.Err.Error()
		case f.Value != nil:
			got = string(f.Value)
		}
		if f.Err == nil && got != want[i] || f.Err != nil && (!strings.Contains(got, want[i]) || want[i] == "absent") {
			t.Errorf("finding %d is %.300q, want %q", i, got, want[i])
		}
	}
}

func TestRequestsToServices(t *testing.T) {
	server := natsServer(t)
	conn := natsConn(t, server)
	until := make(chan string, 20)
	deep := strings.Repeat(`{"a":`, lookup.MaxDepth) + "1" + strings.Repeat("}", lookup.MaxDepth)
	quoted := `{"a":"\"` + strings.Repeat("{", 2*lookup.MaxDepth) + `"}`
	answers := map[string]func(m *nats.Msg){
		"quoted": func(m *nats.Msg) { respond(t, m, quoted) },
		"plain":  func(m *nats.Msg) { respond(t, m, ` {"status": "OPEN"} `) },
		"null":   func(m *nats.Msg) { respond(t, m, "null") },
		"absent": func(m *nats.Msg) { respond(t, m, "", "Deadman-Absent", "true") },
		"there":  func(m *nats.Msg) { respond(t, m, "{}", "Deadman-Absent", "false") },
		"maybe":  func(m *nats.Msg) { respond(t, m, "{}", "Deadman-Absent", "yes") },
		"empty":  func(m *nats.Msg) { respond(t, m, "") },
		"html":   func(m *nats.Msg) { respond(t, m, "<html>") },
		"list":   func(m *nats.Msg) { respond(t, m, "[1]") },
		"two":    func(m *nats.Msg) { respond(t, m, "{} {}") },
		"full":   func(m *nats.Msg) { respond(t, m, `{"a":"`+strings.Repeat("x", lookup.MaxValue-8)+`"}`) },
		"large":  func(m *nats.Msg) { respond(t, m, `{"a":"`+strings.Repeat("x", lookup.MaxValue-7)+`"}`) },
		"deep":   func(m *nats.Msg) { respond(t, m, deep) },
		"deeper": func(m *nats.Msg) { respond(t, m, `{"{":`+deep+`}`) },
		"refuse": func(m *nats.Msg) {
			respond(t, m, `{"status": "OPEN"}`, micro.ErrorCodeHeader, "500", micro.ErrorHeader, "no database")
		},
	}
	service(t, natsConn(t, server), "shop.orders.*", func(m *nats.Msg) {
		until <- m.Header.Get("Deadman-Deadline")
		answers[strings.TrimPrefix(m.Subject, "shop.orders.")](m)
	})
	want := []struct{ key, result string }{
		{"plain", `{"status": "OPEN"}`},
		{"null", "absent"},
		{"absent", "absent"},
		{"there", "{}"},
		{"maybe", `on shop.orders.maybe: the header Deadman-Absent is "yes"`},
		{"empty", "on shop.orders.empty: the answer is empty; answer null if the entity does not exist"},
		{"html", "on shop.orders.html: the answer is not JSON"},
		{"list", "is JSON but not an object"},
		{"two", "the answer has data after the object"},
		{"full", `{"a":"` + strings.Repeat("x", lookup.MaxValue-8) + `"}`},
		{"large", "the answer is larger than 64 KiB"},
		{"quoted", quoted},
		{"deep", deep},
		{"deeper", "more than 64 levels"},
		{"refuse", "on shop.orders.refuse: the service responded with error 500: no database"},
		{"missing.there", "no service answers on shop.orders.missing.there"},
	}
	var queries []lookup.KeyQuery
	var all []string
	for _, w := range want {
		queries, all = append(queries, lookup.KeyQuery{Subject: "shop.orders." + w.key}), append(all, w.result)
	}
	ctx := shortContext(t)
	found, err := natsSource(t, conn).Query(ctx, lookup.Question{NATS: true}, queries)
	if err != nil {
		t.Fatal(err)
	}
	checkLinesOf(t, found, all...)
	deadline, _ := ctx.Deadline()
	if got, err := time.Parse(time.RFC3339Nano, <-until); err != nil || !got.Equal(deadline) {
		t.Errorf("the service receives the deadline %s, not %s: %v", got, deadline, err)
	}
}

// A batch is sent concurrently, so that a slow service delays it once and not per entity.
func TestConcurrentRequests(t *testing.T) {
	const batch = 300
	server := natsServer(t)
	var mu sync.Mutex
	var held []*nats.Msg
	service(t, natsConn(t, server), "slow.*", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if held = append(held, m); len(held) == batch { // replies only after all requests were received
			for _, one := range held {
				respond(t, one, fmt.Sprintf(`{"subject":%q}`, one.Subject))
			}
		}
	})
	var queries []lookup.KeyQuery
	var want []string
	for i := range batch {
		queries = append(queries, lookup.KeyQuery{Subject: fmt.Sprint("slow.", i)})
		want = append(want, fmt.Sprintf(`{"subject":"slow.%d"}`, i))
	}
	found, err := natsSource(t, natsConn(t, server)).Query(shortContext(t), lookup.Question{NATS: true}, queries)
	if err != nil {
		t.Fatal(err)
	}
	checkLinesOf(t, found, want...)
}

// Without any reply the service is missing, not the entities.
func TestMissingServiceIsErrorOfQuestion(t *testing.T) {
	server := natsServer(t)
	client := natsSource(t, natsConn(t, server))
	queries := []lookup.KeyQuery{{Subject: "shop.a"}, {Subject: "shop.b"}}
	if _, err := client.Query(shortContext(t), lookup.Question{NATS: true}, queries); !errors.Is(err, nats.ErrNoResponders) || !errors.Is(err, lookup.ErrQuestion) || !strings.Contains(err.Error(), "no service answers on shop.a") {
		t.Errorf("without a service: %v", err)
	}
	var requests atomic.Int32
	service(t, natsConn(t, server), "shop.*", func(*nats.Msg) { requests.Add(1) })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := client.Query(ctx, lookup.Question{NATS: true}, queries); !errors.Is(err, context.DeadlineExceeded) || requests.Load() != 2 {
		t.Errorf("with one that hangs: %v, it was queried %d times", err, requests.Load())
	}
	if found, err := client.Query(shortContext(t), lookup.Question{NATS: true}, nil); err != nil || len(found) != 0 {
		t.Errorf("an absent key: %v, %v", found, err)
	}
}

func TestLostServerIsErrorOfSource(t *testing.T) {
	server := natsServer(t)
	conn := natsConn(t, server)
	client := natsSource(t, conn)
	if err := client.Reach(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Shutdown()
	server.WaitForShutdown()
	for deadline := time.Now().Add(2 * time.Minute); conn.IsConnected(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection stays")
		}
	}
	for name, q := range map[string]lookup.Question{"nats": {NATS: true}, "kv": {KV: "orders"}} {
		if _, err := client.Query(shortContext(t), q, []lookup.KeyQuery{{Subject: "shop.a", Key: "a"}}); err == nil || errors.Is(err, lookup.ErrQuestion) || !strings.Contains(err.Error(), "not connected to NATS") {
			t.Errorf("ask %s: %v", name, err)
		}
		if _, err := client.Verify(shortContext(t), q, 0); err == nil || errors.Is(err, lookup.ErrQuestion) {
			t.Errorf("verify %s: %v", name, err)
		}
	}
	if err := client.Reach(t.Context()); err == nil {
		t.Error("it can be reached")
	}
}

func TestNATSRejectsOtherKinds(t *testing.T) {
	client := natsSource(t, natsConn(t, natsServer(t)))
	for _, q := range []lookup.Question{{}, {SQL: "select 1"}, {HTTP: &lookup.HTTP{}}} {
		if _, err := client.Query(shortContext(t), q, make([]lookup.KeyQuery, 1)); !errors.Is(err, lookup.ErrQuestion) {
			t.Errorf("ask %+v: %v", q, err)
		}
		if _, err := client.Verify(shortContext(t), q, 0); !errors.Is(err, lookup.ErrQuestion) {
			t.Errorf("verify %+v: %v", q, err)
		}
	}
}

// A source with its own URL connects on first use, retries, and never reveals the password.
func TestSourceConnectsByItself(t *testing.T) {
	server := natsServer(t, func(o *natsserver.Options) { o.Username, o.Password = "shop", "s3cret" })
	at := strings.Replace(server.ClientURL(), "nats://", "nats://shop:s3cret@", 1)
	client := openNATS(t, sources.NATS{URL: at}, nil)
	for _, attempt := range []string{"first", "again"} {
		if err := client.Reach(t.Context()); err != nil {
			t.Errorf("%s: %v", attempt, err)
		}
	}
	for name, bad := range map[string]string{
		"refused":     strings.Replace(at, "s3cret", "s3creT", 1),
		"not one":     "nats://shop:s3cret@[::1",
		"unreachable": "nats://shop:s3cret@127.0.0.1:1",
		"no words":    "nats://shop:s3cret/or@127.0.0.1",
	} {
		err := openNATS(t, sources.NATS{URL: bad}, nil).Reach(t.Context())
		if err == nil || strings.Contains(strings.ToLower(err.Error()), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	client.Close()
	if err := client.Reach(t.Context()); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := sources.Open(sources.Spec{Name: "shop", NATS: &sources.NATS{Creds: "shop.creds"}}, nil); err == nil || !strings.Contains(err.Error(), "creds without a url; write both") {
		t.Errorf("creds without a url: %v", err)
	}
}
