package faults_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/longtest"
	"deadman/internal/store/storetest"
)

var (
	limitsOf   = flag.String("limits", "rules,streams,tenants,keys,pages", "what TestLimitsOfANode measures, comma-separated")
	limitsIdle = flag.Duration("limits-idle", 2*time.Second, "for how long TestLimitsOfANode measures an idle node")
	limitsSize = flag.Int("limits-size", 20, "the size of a measurement of TestLimitsOfANode: rules, streams, tenants, or hundreds of keys")
)

// limitsProbes are the single events from whose publication to their job is measured.
const limitsProbes = 50

// bearing is a node on Postgres and NATS, with many objects of one kind.
type bearing struct {
	*testing.T
	program string
	args    []string
	rules   string // folder
	node    *process
	db      *sql.DB
	nc      *nats.Conn
	js      jetstream.JetStream
	probed  int
}

// TestLimitsOfANode measures a node with many rules, streams, tenants, keys or open pages, for docs/limits.md. It fails if an
// event starts no job.
func TestLimitsOfANode(t *testing.T) {
	longtest.Only(t, "it measures for minutes")
	measures := map[string]func(b *bearing){
		"rules": (*bearing).withRules, "streams": (*bearing).withStreams, "tenants": (*bearing).withTenants, "keys": (*bearing).withKeys, "pages": (*bearing).withPages,
	}
	for _, name := range strings.Split(*limitsOf, ",") {
		measure, ok := measures[name]
		if !ok {
			t.Fatalf("-limits: %q is none of %v", name, slices.Sorted(maps.Keys(measures)))
		}
		t.Run(name, func(t *testing.T) { measure(newBearing(t)) })
	}
}

func newBearing(t *testing.T) *bearing {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dsn, url := storetest.Postgres(t), newServers(t, 1)[0].url()
	b := &bearing{T: t, program: path, rules: t.TempDir()}
	b.args = []string{"--database-url", dsn, "--nats-url", url, "--rules", b.rules, "--token-rate", "1000000"}
	if b.db, err = sql.Open("pgx", dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.db.Close() })
	if b.nc, err = nats.Connect(url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.nc.Close)
	if b.js, err = jetstream.New(b.nc); err != nil {
		t.Fatal(err)
	}
	return b
}

// stream creates a stream for subjects below a word.
func (b *bearing) stream(name, word string) {
	b.Helper()
	if _, err := b.js.CreateStream(b.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{word + ".>"}, Storage: jetstream.FileStorage}); err != nil {
		b.Fatal(err)
	}
}

// rule returns a rule on the subject WORD.created.
func (b *bearing) rule(name, word string) string {
	return fmt.Sprintf("name: %s\nentity: order\ntrigger: {event: %s.created, key: event.id}\nresolve: {event: %s.shipped, key: event.id}\nwhile: event.total > 0\nescalate: [{after: 1h, step: late, text: \"order {{key}} over {{event.total}} is late\"}]\n", name, word, word)
}

// write writes a rule to the folder of the node.
func (b *bearing) write(name, text string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(b.rules, name+".yaml"), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

// start starts the node, and returns the time until it serves.
func (b *bearing) start(args ...string) time.Duration {
	b.Helper()
	if b.node != nil {
		b.node.stop()
	}
	begun := time.Now()
	b.node = startProcess(b.T, b.program, "node", nil, func(line string) {
		if !strings.Contains(line, `"level":"INFO"`) {
			b.Log(line)
		}
	}, append(args, b.args...)...)
	b.node.awaitServing(8 * time.Minute)
	return time.Since(begun)
}

// report logs the memory, the idle CPU and the time from an event to its job; word returns the subject of the i-th probe.
func (b *bearing) report(what string, words ...string) {
	b.Helper()
	b.probe(words[0]) // all is up
	before, begun := b.metric("process_cpu_seconds_total"), time.Now()
	pause(*limitsIdle)
	idle := (b.metric("process_cpu_seconds_total") - before) / time.Since(begun).Seconds()
	var times []time.Duration
	for i := range limitsProbes {
		times = append(times, b.probe(words[i*len(words)/limitsProbes]))
	}
	slices.Sort(times)
	b.Logf("LIMIT %s: resident %.0f MB, idle CPU %.1f %% of a core, event to job half %s, slowest %s", what,
		b.metric("process_resident_memory_bytes")/1e6, idle*100, times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
}

// probe publishes an event, and returns the time until its job is in the database.
func (b *bearing) probe(word string) time.Duration {
	b.Helper()
	b.probed++
	key := fmt.Sprintf("probe-%d", b.probed)
	begun := time.Now()
	if _, err := b.js.Publish(b.Context(), word+".created", fmt.Appendf(nil, `{"id": %q, "total": 5}`, key)); err != nil {
		b.Fatal(err)
	}
	for {
		var n int
		if err := b.db.QueryRowContext(b.Context(), `SELECT count(*) FROM future_job WHERE key = $1`, key).Scan(&n); err != nil {
			b.Fatal(err)
		}
		if took := time.Since(begun); n > 0 {
			return took
		} else if took > 2*time.Minute {
			b.Fatalf("the event of %s on %s starts no job", key, word)
		}
		pause(2 * time.Millisecond)
	}
}

// metric returns a metric of the node without labels.
func (b *bearing) metric(name string) float64 {
	b.Helper()
	s := soak{T: b.T, node: b.node}
	return s.readMetrics()[name]
}

// withRules measures rules of a folder, each with a subject of its own in one stream.
func (b *bearing) withRules() {
	b.Helper()
	b.stream("ORDERS", "orders")
	var words []string
	for i := range *limitsSize {
		words = append(words, fmt.Sprintf("orders.r%d", i))
		b.write(fmt.Sprintf("order-%d", i), b.rule(fmt.Sprintf("order-%d", i), words[i]))
	}
	first := b.start()
	again := b.start()
	list := b.node.request(http.MethodGet, "/api/v1/rules?limit=100", "", "", nil)
	b.report(fmt.Sprintf("%d rules, first start %s, next %s, a list page %s", len(words), first.Round(10*time.Millisecond), again.Round(10*time.Millisecond), list.Round(time.Millisecond)), words...)
}

// withStreams measures streams with a rule each.
func (b *bearing) withStreams() {
	b.Helper()
	var words []string
	for i := range *limitsSize {
		words = append(words, fmt.Sprintf("s%d", i))
		b.stream(fmt.Sprintf("S%d", i), words[i])
		b.write(fmt.Sprintf("order-%d", i), b.rule(fmt.Sprintf("order-%d", i), words[i]))
	}
	first := b.start()
	again := b.start()
	b.report(fmt.Sprintf("%d streams, first start %s, next %s", len(words), first.Round(10*time.Millisecond), again.Round(10*time.Millisecond)), words...)
}

// withTenants measures tokens with a prefix and a quota, each with a rule.
func (b *bearing) withTenants() {
	b.Helper()
	b.stream("ORDERS", "orders")
	last := max(1, *limitsSize/10)
	b.start()
	var admin struct{ Secret string }
	b.node.request(http.MethodPost, "/api/v1/tokens", "", `{"name": "admin", "scopes": ["admin"]}`, &admin)
	var words []string
	var token, quota, rule time.Duration // of the last tenth
	begun := time.Now()
	for i := range *limitsSize {
		if i == *limitsSize-last {
			token, quota, rule = 0, 0, 0
		}
		words = append(words, fmt.Sprintf("orders.t%d", i))
		var tenant struct{ Secret string }
		token += b.node.request(http.MethodPost, "/api/v1/tokens", admin.Secret, fmt.Sprintf(`{"name": "tenant-%d-x", "scopes": ["rules"], "prefix": "t%d-", "subjects": [%q]}`, i, i, words[i]+".>"), &tenant)
		quota += b.node.request(http.MethodPut, fmt.Sprintf("/api/v1/quotas/t%d-", i), admin.Secret, `{"rules": 50, "jobs": 10000}`, nil)
		name := fmt.Sprintf("t%d-order", i)
		rule += b.node.request(http.MethodPut, "/api/v1/rules/"+name, tenant.Secret, b.rule(name, words[i]), nil)
	}
	created := time.Since(begun)
	b.start("--insecure")
	each := func(sum time.Duration) time.Duration {
		return (sum / time.Duration(last)).Round(100 * time.Microsecond)
	}
	b.report(fmt.Sprintf("%d tenants, created in %s; of the last tenth a token took %s, a quota %s, a rule %s", len(words), created.Round(10*time.Millisecond), each(token), each(quota), each(rule)), words...)
}

// withKeys measures keys of one heartbeat rule: hundreds of them.
func (b *bearing) withKeys() {
	b.Helper()
	b.stream("BEATS", "beats")
	b.stream("ORDERS", "orders")
	b.write("device", "name: device\nentity: device\ntrigger: {heartbeat: {event: beats.*.beat, key: wildcard(1), every: 1h, grace: 5m}}\nescalate: [{after: 0s, step: silent}]\nslot: 1m\n")
	b.write("order", b.rule("order", "orders.x"))
	b.start()
	keys := *limitsSize * 100
	round := func() time.Duration {
		begun := time.Now()
		for i := range keys {
			if _, err := b.js.PublishAsync(fmt.Sprintf("beats.d%d.beat", i), []byte(`{}`), jetstream.WithStallWait(time.Minute)); err != nil {
				b.Fatal(err)
			}
		}
		<-b.js.PublishAsyncComplete()
		b.awaitBeats()
		return time.Since(begun)
	}
	first, next := round(), round()
	var n int
	if err := b.db.QueryRowContext(b.Context(), `SELECT count(*) FROM future_job WHERE key LIKE 'd%'`).Scan(&n); err != nil {
		b.Fatal(err)
	}
	list := b.node.request(http.MethodGet, "/api/v1/heartbeats?limit=100", "", "", nil)
	b.report(fmt.Sprintf("%d of %d heartbeat keys of one rule, the first heartbeats in %s, the next in %s, a list page %s", n, keys, first.Round(100*time.Millisecond), next.Round(100*time.Millisecond), list.Round(time.Millisecond)), "orders.x")
}

// awaitBeats waits until all heartbeats are read.
func (b *bearing) awaitBeats() {
	b.Helper()
	eventually(b.T, 8*time.Minute, "all heartbeats are read", func() bool {
		var streams struct {
			Items []struct {
				Name        string
				LagMessages *uint64 `json:"lag_messages"`
			}
		}
		b.node.request(http.MethodGet, "/api/v1/streams", "", "", &streams)
		for _, s := range streams.Items {
			if s.Name == "BEATS" && s.LagMessages != nil && *s.LagMessages == 0 {
				return true
			}
		}
		return false
	})
}

// withPages measures open pages and streams of alerts, up to the limits of a node.
func (b *bearing) withPages() {
	b.Helper()
	b.stream("ORDERS", "orders")
	b.write("order", strings.Replace(b.rule("order", "orders.x"), "after: 1h", "after: 1s", 1)+"slot: 1s\nhold: 1m\n")
	b.start("--connections", "8192")
	b.report("no pages", "orders.x")
	for _, one := range []struct {
		path, what string
		count      int
	}{{"/?live=1", "live pages", 64}, {"/?live=1", "live pages", 100}, {"/api/v1/alerts", "streams of alerts", 512}, {"/api/v1/alerts", "streams of alerts", 600}} {
		open, refused, closeAll := b.open(one.path, one.count)
		b.report(fmt.Sprintf("%d %s, %d refused", open, one.what, refused), "orders.x")
		closeAll()
	}
}

// open opens streams, and returns the numbers of those that are open and that were refused.
func (b *bearing) open(path string, count int) (open, refused int, closeAll func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var ended sync.WaitGroup
	var answers, streams atomic.Int64
	for range count {
		ended.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.node.at.HTTP+path, nil)
			if err != nil {
				b.Error(err)
				return
			}
			request.Header.Set("Accept", "text/event-stream")
			answer, err := http.DefaultClient.Do(request)
			answers.Add(1)
			if err != nil {
				return
			}
			defer func() { _ = answer.Body.Close() }()
			if answer.StatusCode == http.StatusOK {
				streams.Add(1)
				_, _ = io.Copy(io.Discard, answer.Body)
			}
		})
	}
	eventually(b.T, time.Minute, "all streams have an answer", func() bool { return answers.Load() == int64(count) })
	open = int(streams.Load())
	return open, count - open, func() { cancel(); ended.Wait() }
}
