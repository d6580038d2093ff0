package faults_test

import (
	"context"
	"database/sql"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"deadman/internal/bus"
	"deadman/internal/longtest"
	"deadman/internal/store/storetest"
)

var (
	soakFor  = flag.Duration("soak", 2*time.Minute, "for how long TestSoak runs")
	soakRate = flag.Int("soak-rate", 100, "orders a second of TestSoak")
	soakFile = flag.String("soak-samples", "", "CSV file for the samples of TestSoak; empty: none")
)

// The load and the judgement of TestSoak.
const (
	soakTicks      = 10               // publications a second
	soakLate       = 10               // one order of so many is never shipped
	soakShipped    = 3 * time.Second  // after the order
	soakStreamKeep = 10 * time.Minute // max_age of the streams of orders and alerts
	soakPages      = 20               // live pages that are open meanwhile
	soakWarmUp     = 75 * time.Minute // until rows of keep_history are deleted, its least being an hour
	soakGrowth     = 1.15             // largest ratio of the last half of the samples to the half before
	soakSlack      = 8 << 20          // bytes that do not count as growth
)

const soakRule = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 5s, step: late, severity: error, text: "order {{key}} is not shipped"}]
hold: 30s
slot: 1s
`

// soakSeries are the sampled values, by their names in the CSV file. Those that may not grow are judged.
var soakSeries = []struct {
	name   string
	judged bool
	read   func(s *soak) float64
}{
	{"resident_bytes", true, ofNode("process_resident_memory_bytes")},
	{"heap_bytes", true, ofNode("go_memstats_heap_inuse_bytes")},
	{"open_files", true, ofNode("process_open_fds")},
	{"goroutines", true, ofNode("go_goroutines")},
	{"pending_jobs", true, ofDatabase(`SELECT count(*) FROM future_job`)},
	{"job_table_bytes", true, ofDatabase(`SELECT pg_total_relation_size('future_job')`)},
	{"outbox_table_bytes", true, ofDatabase(`SELECT pg_total_relation_size('alert_outbox')`)},
	{"database_bytes", true, ofDatabase(`SELECT pg_database_size(current_database())`)},
	{"streams_bytes", true, func(s *soak) float64 { return float64(s.stream("ORDERS").Bytes + s.stream(bus.AlertsStream).Bytes) }},
	{"orders", false, func(s *soak) float64 { return float64(s.orders) }},
	{"alerts", false, func(s *soak) float64 { return float64(s.stream(bus.AlertsStream).LastSeq) }},
}

// ofNode reads a metric of the node, which is over 0.
func ofNode(metric string) func(s *soak) float64 {
	return func(s *soak) float64 {
		value := s.metrics[metric]
		if value <= 0 {
			s.Fatalf("the node has no metric %s", metric)
		}
		return value
	}
}

// ofDatabase reads a number.
func ofDatabase(query string) func(s *soak) float64 {
	return func(s *soak) (n float64) {
		if err := s.db.QueryRowContext(s.Context(), query).Scan(&n); err != nil {
			s.Fatalf("%s: %v", query, err)
		}
		return n
	}
}

// TestSoak runs a node on Postgres and a NATS server beside a steady load and open pages. No alert is lost or doubled, and, in
// a run of hours, neither memory nor files, goroutines, tables or streams grow once retention deletes rows.
func TestSoak(t *testing.T) {
	longtest.Only(t, "it takes minutes; make test/soak runs it for hours")
	s := newSoak(t)
	samples := s.run()
	s.settle()
	for i, series := range soakSeries {
		var steady []float64
		for _, one := range samples {
			if one.at >= soakWarmUp {
				steady = append(steady, one.values[i])
			}
		}
		if len(steady) < 8 { // a short run judges the alerts only
			t.Logf("%-20s last %.0f", series.name, samples[len(samples)-1].values[i])
			continue
		}
		before, after := median(steady[:len(steady)/2]), median(steady[len(steady)/2:])
		t.Logf("%-20s %.0f, then %.0f", series.name, before, after)
		slack := 10.0
		if strings.HasSuffix(series.name, "_bytes") {
			slack = soakSlack
		}
		if series.judged && after > before*soakGrowth+slack {
			t.Errorf("%s grows from %.0f to %.0f", series.name, before, after)
		}
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// soakSample are the values of soakSeries after a time.
type soakSample struct {
	at     time.Duration
	values []float64
}

// soak is a node with its load.
type soak struct {
	*testing.T
	node   *process
	db     *sql.DB
	js     jetstream.JetStream
	orders int // published

	metrics map[string]float64 // of the node, at the last sample
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	rules := t.TempDir()
	if err := os.WriteFile(filepath.Join(rules, "order.yaml"), []byte(soakRule), 0o600); err != nil {
		t.Fatal(err)
	}
	dsn, url := storetest.Postgres(t), newServers(t, 1)[0].url()
	s := &soak{T: t}
	if s.db, err = sql.Open("pgx", dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if s.js, err = jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(10_000)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, MaxAge: soakStreamKeep, MaxBytes: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	s.node = startProcess(t, path, "node", nil, func(line string) {
		if strings.Contains(line, `"level":"ERROR"`) {
			t.Error(line)
		}
	}, "--insecure", "--database-url", dsn, "--nats-url", url, "--rules", rules, "--keep-history", "1h", "--keep-alerts", "1h", "--keep-dead-letters", "1h", "--token-rate", "1000000")
	s.node.awaitServing(time.Minute)
	stream, err := s.js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.MaxAge = soakStreamKeep
	if _, err := s.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// run publishes orders for the time of the test, and samples.
func (s *soak) run() (samples []soakSample) {
	s.Helper()
	var out *csv.Writer
	if *soakFile != "" {
		file, err := os.Create(*soakFile)
		if err != nil {
			s.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		out = csv.NewWriter(file)
		header := []string{"seconds"}
		for _, series := range soakSeries {
			header = append(header, series.name)
		}
		_ = out.Write(header) // Flush reports the error
	}
	for range soakPages {
		s.openPage()
	}
	begun, every := time.Now(), max(5*time.Second, *soakFor/480)
	tick := time.NewTicker(time.Second / soakTicks)
	defer tick.Stop()
	for next := begun; time.Since(begun) < *soakFor; <-tick.C {
		s.publish(time.Since(begun))
		if time.Now().Before(next) {
			continue
		}
		next = next.Add(every)
		one := s.sample(time.Since(begun))
		samples = append(samples, one)
		if out != nil {
			row := []string{strconv.Itoa(int(one.at.Seconds()))}
			for _, v := range one.values {
				row = append(row, strconv.FormatFloat(v, 'f', 0, 64))
			}
			_ = out.Write(row)
			if out.Flush(); out.Error() != nil {
				s.Fatal(out.Error())
			}
		}
	}
	return samples
}

// publish publishes the orders that are due after a time, and ships most of the orders that are old enough.
func (s *soak) publish(after time.Duration) {
	s.Helper()
	rate := float64(*soakRate)
	send := func(subject string, i int) {
		msg := &nats.Msg{Subject: subject, Data: fmt.Appendf(nil, `{"id": "%d", "customer": "c%d", "total": %d}`, i, i%1000, i%500)}
		if _, err := s.js.PublishMsgAsync(msg, jetstream.WithStallWait(time.Minute)); err != nil {
			s.Fatalf("publish: %v", err)
		}
	}
	shippedBefore := max(0, s.orders-int(rate*soakShipped.Seconds()))
	for ; s.orders < int(rate*after.Seconds()); s.orders++ {
		send("orders.created", s.orders)
	}
	for i := shippedBefore; i < s.orders-int(rate*soakShipped.Seconds()); i++ {
		if i%soakLate > 0 {
			send("orders.shipped", i)
		}
	}
}

// settle ships the last orders and waits until no job is pending. Each late order has exactly one alert, and none else is
// published.
func (s *soak) settle() {
	s.Helper()
	for i := max(0, s.orders-int(float64(*soakRate)*soakShipped.Seconds())); i < s.orders; i++ {
		if i%soakLate > 0 {
			if _, err := s.js.Publish(s.Context(), "orders.shipped", fmt.Appendf(nil, `{"id": "%d"}`, i)); err != nil {
				s.Fatal(err)
			}
		}
	}
	want := uint64((s.orders + soakLate - 1) / soakLate) //nolint:gosec // a count
	var pending int
	var published uint64
	eventually(s.T, 2*time.Minute, "all jobs end", func() bool {
		if err := s.db.QueryRowContext(s.Context(), `SELECT count(*) FROM future_job`).Scan(&pending); err != nil {
			s.Fatal(err)
		}
		published = s.stream(bus.AlertsStream).LastSeq
		return pending == 0 && published >= want
	})
	if published != want {
		s.Errorf("%d alerts are published of %d late orders", published, want)
	}
	s.Logf("%d orders in %s, %d alerts", s.orders, *soakFor, published)
}

// stream returns the state of a stream.
func (s *soak) stream(name string) jetstream.StreamState {
	s.Helper()
	stream, err := s.js.Stream(s.Context(), name)
	if err != nil {
		s.Fatal(err)
	}
	return stream.CachedInfo().State
}

// openPage keeps a live page open until the test ends.
func (s *soak) openPage() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil { // a node ends streams from time to time
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.node.at.HTTP+"/api/v1/alerts", nil)
			if err != nil {
				s.Error(err)
				return
			}
			request.Header.Set("Accept", "text/event-stream")
			if answer, err := http.DefaultClient.Do(request); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}()
	s.Cleanup(func() { cancel(); <-ended })
}

// sample reads the values of soakSeries.
func (s *soak) sample(at time.Duration) soakSample {
	s.Helper()
	s.metrics = s.readMetrics()
	one := soakSample{at: at}
	for _, series := range soakSeries {
		one.values = append(one.values, series.read(s))
	}
	return one
}

// readMetrics returns the metrics of the node without labels, by name.
func (s *soak) readMetrics() map[string]float64 {
	s.Helper()
	answer, err := http.Get(s.node.at.HTTP + "/metrics")
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		s.Fatal(err)
	}
	values := map[string]float64{}
	for name, family := range families {
		if m := family.GetMetric()[0]; len(m.GetLabel()) == 0 {
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
		}
	}
	return values
}
