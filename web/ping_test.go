package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/pings"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/web"
)

// backupRule is a rule that receives pings.
const backupRule = `name: backup
entity: host
trigger: {heartbeat: {every: 24h, grace: 1h, keys: [nightly]}}
slot: 1h
`

// pingReceiver is a real resolver and a real receiver.
type pingReceiver struct {
	*pings.Resolver
	*pings.Receiver
	writer *pings.LogWriter
}

// Pinged implements pings.Observer.
func (*pingReceiver) Pinged(futurejobs.ApplyResult) {}

// failingLedger is a real ledger with a database that can fail.
type failingLedger struct {
	pings.EffectStore
	down atomic.Bool
}

func (l *failingLedger) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	if l.down.Load() {
		return futurejobs.ApplyResult{}, fmt.Errorf("apply: %w", store.ErrUnavailable)
	}
	return l.EffectStore.Apply(ctx, b)
}

// pingFixture is a fixture that receives pings, with the rule backup.
type pingFixture struct {
	*fixture
	*failingLedger
	*pingReceiver
	taker func() // stops the writer of pings
}

func newPingFixture(t *testing.T, changes ...func(*web.Options, *fixture)) *pingFixture {
	t.Helper()
	p := &pingFixture{}
	takes := func(o *web.Options, s *fixture) {
		catalog := o.Catalog.(*rules.Catalog)
		p.failingLedger = &failingLedger{EffectStore: s.store}
		p.pingReceiver = &pingReceiver{writer: &pings.LogWriter{Store: s.store, Log: discardLog}}
		p.Resolver = &pings.Resolver{Store: s.store, Catalog: catalog, Now: time.Now}
		p.Receiver = pings.NewReceiver(pings.Receiver{
			Catalog: catalog, Effects: p.failingLedger, Shards: s.store.Shards(), Now: time.Now, Observer: p.pingReceiver, Log: p.writer,
		})
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		p.taker = func() { stop(); failOn(t, <-ended); ended <- nil }
		t.Cleanup(p.taker)
		o.Pings = p.pingReceiver
		o.Faults = append(o.Faults, web.ErrorStatus{Is: store.ErrUnavailable, Status: 503, Remedy: "the database does not answer; try again"})
	}
	p.fixture = newFixture(t, append(changes, takes)...)
	p.fixture.saveRule(backupRule)
	return p
}

// createAddress makes an address and returns its path. key is empty for the ping key.
func (p *pingFixture) createAddress(key string, header ...string) string {
	p.t.Helper()
	a := requestPath(p.t, p.Server, "POST", "/api/v1/rules/backup/pings", fmt.Sprintf(`{"key": %q}`, key), header...)
	var made web.PingAddress
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.StatusCode != 201 {
		p.t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	return made.URL
}

// pingLog returns the log of a key, newest first.
func (p *pingFixture) pingLog(key string, header ...string) (texts []string) {
	p.t.Helper()
	p.writer.Write(p.t.Context())
	a := requestPath(p.t, p.Server, "GET", "/api/v1/rules/backup/pings/log?key="+key, "", header...)
	var page web.Page[web.PingEntry]
	failOn(p.t, json.Unmarshal([]byte(a.body), &page))
	for _, e := range page.Items {
		text := e.Kind
		if e.Exit != nil {
			text += fmt.Sprint(" ", *e.Exit)
		}
		texts = append(texts, strings.TrimSpace(text+" "+e.Body))
	}
	return texts
}

// TestPingAnswers checks that the answers are those of the documented ping API of healthchecks, as its clients expect.
func TestPingAnswers(t *testing.T) {
	p := newPingFixture(t, closedNode) // a ping needs no token
	admin := p.newToken("admin", "", access.Admin)
	own, all := p.createAddress("photos", admin...), p.createAddress("", admin...)
	const run = "684e2e73-017e-465f-8149-d70b7c5aaa49"
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", own, 200, "OK"},
		{"HEAD", own, 200, ""},
		{"POST", own, 200, "OK"},
		{"PUT", own, 200, "OK"}, // curl -T
		{"DELETE", own, 405, "a ping is a GET, a HEAD, a POST or a PUT"},
		{"PATCH", own + "/fail", 405, "a ping is a GET, a HEAD, a POST or a PUT"},
		{"TRACE", all + "/nightly", 405, "a ping is a GET, a HEAD, a POST or a PUT"},
		{"GET", own + "/", 200, "OK"},
		{"GET", own + "/start?rid=" + run, 200, "OK"},
		{"POST", own + "/fail", 200, "OK"},
		{"POST", own + "/log", 200, "OK"},
		{"GET", own + "/0", 200, "OK"},
		{"GET", own + "/255?rid=" + run, 200, "OK"},
		{"GET", own + "/256", 400, "invalid url format"},
		{"GET", own + "/nonsense", 404, "not found"},
		{"GET", own + "/start?rid=12345", 400, "invalid uuid format"},
		{"GET", own + "?rid=", 400, "invalid uuid format"},
		{"GET", "/ping/07c2f548-9850-4b27-af5d-6c9dc157ec02", 404, "not found"},
		{"GET", "/ping/not-uuid/", 404, "not found"},
		{"GET", "/ping/rrrrrrrrrrrrrrrrrrrrrr/nightly", 404, "not found"},
		{"GET", "/ping/", 404, "not found"},
		{"GET", all, 404, "not found"},
		{"GET", all + "/nightly", 200, "OK"},
		{"GET", all + "/db-1", 404, "not found"},
		{"GET", all + "/db-1/start?create=0", 404, "not found"},
		{"POST", all + "/db-1/start?create=1", 201, "Created"},
		{"GET", all + "/db-1/3?create=1", 200, "OK"},
		{"OPTIONS", own, 204, ""},
	} {
		a := requestPath(t, p.Server, c.method, c.path, "")
		if a.StatusCode != c.status || a.body != c.body {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, a.StatusCode, a.body, c.status, c.body)
		}
		if a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Ping-Body-Limit") != "10000" ||
			!strings.Contains(a.Header.Get("Cache-Control"), "no-cache") {
			t.Errorf("%s %s: %v", c.method, c.path, a.Header)
		}
		if a.StatusCode != 204 && a.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s %s is %s", c.method, c.path, a.Header.Get("Content-Type"))
		}
	}
	checkMetrics(t, requestPath(t, p.Server, "GET", "/metrics", "", admin...).body, `deadman_pings_total{outcome="accepted"} 13`, `deadman_pings_total{outcome="refused"} 14`)
	if got := strings.Join(p.pingLog("db-1", admin...), ", "); got != "fail 3, start" {
		t.Errorf("the ping of db-1 is %s", got)
	}
	if got := len(p.pingLog("photos", admin...)); got != 10 {
		t.Errorf("%d pings of photos are in the log, want 10: one for each 200", got)
	}
	for _, key := range []string{"photos", "nightly", "db-1"} {
		if _, err := p.fixture.store.Job(t.Context(), "backup", key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestPingsFromOtherSites checks that a page of another site may send pings if it knows the URL.
func TestPingsFromOtherSites(t *testing.T) {
	p := newPingFixture(t)
	own := p.createAddress("photos")
	if a := requestPath(t, p.Server, "POST", own, "", "Sec-Fetch-Site", "cross-site", "Origin", "https://shop.example.org"); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// TestPingBodies checks that the first 10 kB of a body are stored, regardless of its bytes, and 200 bytes of a
// User-Agent.
func TestPingBodies(t *testing.T) {
	p := newPingFixture(t)
	own := p.createAddress("photos")
	for _, c := range []struct {
		body, kept string
		size       int
	}{
		{"", "", 0},
		{"it went \xe9 well\x00", "it went \uFFFD well\uFFFD", 15},
		{strings.Repeat("x", 10_000), strings.Repeat("x", 10_000), 10_000},
		{strings.Repeat("é", 6000), strings.Repeat("é", 5000), 12_000},
		{"x" + strings.Repeat("é", 6000), "x" + strings.Repeat("é", 4999), 12_001},
		{strings.Repeat("x", 100_000), strings.Repeat("x", 10_000), 100_000},
		{strings.Repeat("x", 900_000), strings.Repeat("x", 10_000), 900_000},
	} {
		if a := requestPath(t, p.Server, "POST", own, c.body, "User-Agent", strings.Repeat("u", 300)); a.StatusCode != 200 {
			t.Fatalf("%d bytes: %d %s", c.size, a.StatusCode, a.body)
		}
		p.writer.Write(t.Context())
		e := get[web.Page[web.PingEntry]](t, p.Server, "/api/v1/rules/backup/pings/log?key=photos").Items[0]
		if e.Body != c.kept || e.BodySize != c.size || e.UserAgent != strings.Repeat("u", 200) {
			t.Errorf("of %d bytes %d are kept, the size is given as %d: %.40q", c.size, len(e.Body), e.BodySize, e.Body)
		}
	}
}

// TestTruncatedPingBodies checks that a body that is too slow or incomplete is no ping.
func TestTruncatedPingBodies(t *testing.T) {
	p := newPingFixture(t)
	own := p.createAddress("photos")
	conn, err := net.Dial("tcp", p.Listener.Addr().String())
	failOn(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf", own)
	failOn(t, conn.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(conn)
	failOn(t, err)
	if !bytes.Contains(answer, []byte("408 Request Timeout")) || len(p.pingLog("photos")) != 0 {
		t.Errorf("%s, and the log has %v", answer, p.pingLog("photos"))
	}
}

// TestPingsOfRuleWithoutHeartbeat checks that a ping of a rule without a heartbeat is refused, with a reason.
func TestPingsOfRuleWithoutHeartbeat(t *testing.T) {
	p := newPingFixture(t)
	own, all := p.createAddress("photos"), p.createAddress("")
	p.fixture.saveRule("name: backup\nentity: host\ntrigger: {event: backups.*, key: event.host}\nescalate: [{after: 1h, severity: warning}]\n")
	for _, path := range []string{own, all + "/db-1?create=1"} {
		if a := requestPath(t, p.Server, "GET", path, ""); a.StatusCode != 409 || !strings.Contains(a.body, "has no heartbeat") {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	p.checkAddressCount(2)
}

// TestImpossibleKeysAreNotCached checks that an invalid key is refused without side effects.
func TestImpossibleKeysAreNotCached(t *testing.T) {
	p := newPingFixture(t)
	all := p.createAddress("")
	for _, key := range []string{"a%00b", "%ff%fe", "%EF%BF%BD"} {
		if a := requestPath(t, p.Server, "GET", all+"/"+key+"?create=1", ""); a.StatusCode != 422 || !strings.Contains(a.body, "the key holds") {
			t.Errorf("%s: %d %s", key, a.StatusCode, a.body)
		}
	}
	p.checkAddressCount(1)
}

// checkAddressCount fails unless the rule has that many addresses.
func (p *pingFixture) checkAddressCount(want int) {
	p.t.Helper()
	saved, err := p.fixture.store.Named(p.t.Context(), "backup")
	failOn(p.t, err)
	if all, err := p.Addresses(p.t.Context(), saved[0].RuleID); err != nil || len(all) != want {
		p.t.Errorf("the addresses are %+v, %v, want %d", all, err, want)
	}
}

// TestPingsOfDisconnectedSenders checks that a ping is recorded and counted even if its client disconnects.
func TestPingsOfDisconnectedSenders(t *testing.T) {
	p := newPingFixture(t)
	own := p.createAddress("photos")
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	answer := httptest.NewRecorder()
	p.Config.Handler.ServeHTTP(answer, httptest.NewRequestWithContext(gone, "POST", own, strings.NewReader("42 files")))
	if answer.Code != 200 {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if got := strings.Join(p.pingLog("photos"), ", "); got != "success 42 files" {
		t.Errorf("the log has %q", got)
	}
	checkMetrics(t, requestPath(t, p.Server, "GET", "/metrics", "").body, `deadman_pings_total{outcome="accepted"} 1`)
}

// TestPingsWhileDatabaseIsAway checks that an uncommitted ping is not acknowledged, and can be sent again.
func TestPingsWhileDatabaseIsAway(t *testing.T) {
	p := newPingFixture(t)
	own := p.createAddress("photos")
	p.down.Store(true)
	if a := requestPath(t, p.Server, "GET", own, ""); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" || strings.Contains(a.body, "OK") {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	if _, err := p.fixture.store.Job(t.Context(), "backup", "photos"); err == nil {
		t.Error("there is a job")
	}
	p.down.Store(false)
	if a := requestPath(t, p.Server, "GET", own, ""); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	p.taker() // the node stops
	if a := requestPath(t, p.Server, "GET", own, ""); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
}

// TestAddressesOfPingsAreNotLogged checks that the URL of a ping is a secret, and is never logged.
func TestAddressesOfPingsAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	p := newPingFixture(t, func(o *web.Options, _ *fixture) {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	own := p.createAddress("photos")
	secret := strings.TrimPrefix(own, "/ping/")
	for _, miswritten := range []string{"//ping/", "/PING/", "/Ping//", "/api/../ping/", "/api/v1/ping/", "/%70ing%2F"} {
		a := requestPath(t, p.Server, "GET", miswritten+secret, "")
		if a.StatusCode != 404 && a.StatusCode != 200 {
			t.Errorf("%s: %d %s", miswritten, a.StatusCode, a.body)
		}
		if strings.Contains(a.body, secret) {
			t.Errorf("%s is answered with %s", miswritten, a.body)
		}
	}
	requestPath(t, p.Server, "GET", own, "")
	p.down.Store(true)
	requestPath(t, p.Server, "GET", own, "")
	p.Close()
	if strings.Contains(log.String(), secret) {
		t.Errorf("the log has %s:\n%s", secret, log.String())
	}
	if n := strings.Count(strings.ToLower(log.String()), "ping/ status="); n < 9 {
		t.Errorf("%d lines are about pings: nothing is tested\n%s", n, log.String())
	}
}
