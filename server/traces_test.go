package server_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlptrace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// otlpReceiver is a collector of OTLP over HTTP.
type otlpReceiver struct {
	*httptest.Server
	mu       sync.Mutex
	spans    []*otlptrace.Span
	services []string
}

func newOTLPReceiver(t *testing.T) *otlpReceiver {
	r := &otlpReceiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		var batch collector.ExportTraceServiceRequest
		if err != nil || request.URL.Path != "/v1/traces" || proto.Unmarshal(body, &batch) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, of := range batch.ResourceSpans {
			for _, a := range of.Resource.Attributes {
				if a.Key == "service.name" {
					r.services = append(r.services, a.Value.GetStringValue())
				}
			}
			for _, scope := range of.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// named returns the received spans of a trace with a name, each once.
func (r *otlpReceiver) named(trace, name string) (found []*otlptrace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.Name == name && hex.EncodeToString(s.TraceId) == trace {
			found = append(found, s)
		}
	}
	return found
}

// tracedHook is a webhook that keeps the headers of its requests.
type tracedHook struct {
	*httptest.Server
	mu      sync.Mutex
	parents []string
	failing bool
}

func newTracedHook(t *testing.T) *tracedHook {
	h := &tracedHook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.parents = append(h.parents, r.Header.Get("Traceparent"))
		if h.failing {
			h.failing = false
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *tracedHook) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.parents)
}

// logLines returns the lines of the node's log with a text.
func (n *node) logLines(text string) (found []string) {
	for line := range strings.Lines(n.log.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

const (
	orderTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	orderParent = "00f067aa0ba902b7"
)

// TestTraceOfEventReachesDelivery checks that the spans of an event with a traceparent, from its receipt to the delivery of its
// alert, are in the trace of the event, each below its cause, and that a resolved alert is in the trace, too.
func TestTraceOfEventReachesDelivery(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			otlp, hook := newOTLPReceiver(t), newTracedHook(t)
			hook.failing = true
			c := server.Config{
				DataDir: bustest.Dir(t), Sources: sourceFile(t, "sources: {bus: {nats: {}}}\n"), OTLPEndpoint: otlp.URL,
				Notify: channelFile(t, "channels: {hook: {kind: webhook, url: "+hook.URL+"}}\nroutes: [{to: hook, group_wait: 0s}]\n"),
			}
			if database == "postgres" {
				c.DatabaseURL, c.NATSURL = storetest.Postgres(t), startNATS(t)
			}
			n := startReadyNode(t, c)
			conn := n.traceConn(t, c.NATSURL)
			if _, err := conn.Subscribe("shop.orders.*", func(m *nats.Msg) { _ = m.Respond([]byte(`{"status":"UNSHIPPED"}`)) }); err != nil {
				t.Fatal(err)
			}
			n.saveRule(http.StatusCreated, "", "name: live\n"+natsLookups+"resolve: {event: orders.shipped, key: event.id}\n"+`lookup: {nats: {source: bus, subject: "shop.orders.{{key}}"}}`+"\n")
			created := &nats.Msg{Subject: "orders.created", Data: []byte(`{"id":"17"}`), Header: nats.Header{"traceparent": {"00-" + orderTrace + "-" + orderParent + "-01"}}}
			if _, err := conn.RequestMsg(created, time.Minute); err != nil {
				t.Fatal(err)
			}
			one := func(name string) *otlptrace.Span {
				t.Helper()
				n.eventually("the span "+name, func() bool { return len(otlp.named(orderTrace, name)) > 0 })
				return otlp.named(orderTrace, name)[0]
			}
			receive := one("receive event")
			if parent := hex.EncodeToString(receive.ParentSpanId); parent != orderParent {
				t.Errorf("the receipt has the parent %s, want that of the event, %s", parent, orderParent)
			}
			for _, pair := range [][2]string{
				{"start job", "receive event"},
				{"check job", "receive event"},
				{"look up", "check job"},
				{"raise alert", "check job"},
				{"publish alert", "raise alert"},
				{"send notification", "raise alert"},
			} {
				child, parent := one(pair[0]), one(pair[1])
				if !bytes.Equal(child.ParentSpanId, parent.SpanId) {
					t.Errorf("%s is below %x, want %s, %x", pair[0], child.ParentSpanId, pair[1], parent.SpanId)
				}
				if child.EndTimeUnixNano < child.StartTimeUnixNano {
					t.Errorf("%s ends before it begins", pair[0])
				}
			}
			n.eventually("two attempts to send", func() bool { return len(otlp.named(orderTrace, "send notification")) == 2 })
			var sent []string
			for _, s := range otlp.named(orderTrace, "send notification") {
				sent = append(sent, fmt.Sprintf("00-%s-%x-01", orderTrace, s.SpanId))
			}
			if got := hook.list(); !slices.Equal(got, sent) {
				t.Errorf("the webhook got %v, want the contexts of its spans, %v", got, sent)
			}
			if failed := otlp.named(orderTrace, "send notification")[0]; failed.Status.GetCode() != otlptrace.Status_STATUS_CODE_ERROR {
				t.Errorf("the refused message has the status %v", failed.Status)
			}
			if lines := n.logLines("a channel did not take a message"); len(lines) != 1 || !strings.Contains(lines[0], `"trace_id":"`+orderTrace+`","span_id":"`) {
				t.Errorf("the refused message is logged without its trace: %v", lines)
			}
			if !slices.Contains(otlp.services, "deadman") {
				t.Errorf("the services are %v", otlp.services)
			}
			n.checkExemplar(t)

			n.call(http.MethodPost, "/api/v1/events/orders.shipped", `{"id":"17"}`, nil)
			n.eventually("the resolved alert is in the trace", func() bool { return len(otlp.named(orderTrace, "send notification")) == 3 })
		})
	}
}

// TestTraceOfStructuredCloudEvent checks that an event over HTTP in CloudEvents' structured mode is in the trace of its attribute
// traceparent, and in that of the header if it has both, as in binary mode.
func TestTraceOfStructuredCloudEvent(t *testing.T) {
	t.Parallel()
	otlp := newOTLPReceiver(t)
	n := startReadyNode(t, server.Config{Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule}), OTLPEndpoint: otlp.URL})
	const otherTrace = "0af7651916cd43dd8448eb211c80319c"
	for key, header := range map[string]string{"in-body": "", "in-both": "00-" + otherTrace + "-" + orderParent + "-01"} {
		body := fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/shop","type":"started","traceparent":"00-%s-%s-01","datacontenttype":"application/json","data":{"id":%q}}`, key, orderTrace, orderParent, key)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.HTTP+"/api/v1/events/payments.started", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
		if header != "" {
			request.Header.Set("Traceparent", header)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusAccepted {
			t.Fatalf("%s: %d, %v", key, answer.StatusCode, err)
		}
		trace := orderTrace
		if header != "" {
			trace = otherTrace
		}
		n.eventually(key+" is received in its trace", func() bool { return len(otlp.named(trace, "receive event")) == 1 })
		if got := otlp.named(trace, "receive event")[0]; hex.EncodeToString(got.ParentSpanId) != orderParent {
			t.Errorf("%s: the receipt is below %x, want %s", key, got.ParentSpanId, orderParent)
		}
		n.eventually(key+" starts its job in its trace", func() bool { return len(otlp.named(trace, "start job")) == 1 })
	}
}

// traceConn connects to the broker of a node.
func (n *node) traceConn(t *testing.T, url string) *nats.Conn {
	t.Helper()
	if url == "" {
		return n.natsConn(bus.UserAdmin)
	}
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// checkExemplar checks that the delay of the traced decision has its trace as an exemplar.
func (n *node) checkExemplar(t *testing.T) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.HTTP+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "deadman_decision_delay_seconds_bucket") && strings.Contains(line, `# {trace_id="`+orderTrace+`"}`) {
			return
		}
	}
	t.Error("no bucket of deadman_decision_delay_seconds has the trace as an exemplar")
}

// TestUnreachableCollectorDelaysNothing checks that a collector that never answers, or refuses connections, costs spans only, and
// is logged once.
func TestUnreachableCollectorDelaysNothing(t *testing.T) {
	t.Parallel()
	hanging := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hanging:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(hanging) })
	for name, endpoint := range map[string]string{"silent": silent.URL, "refusing": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startReadyNode(t, server.Config{
				Rules: ruleFolder(t, map[string]string{"payment.yaml": paymentRule}), OTLPEndpoint: endpoint,
			})
			for key := range 20 {
				n.call(http.MethodPost, "/api/v1/events/payments.started", fmt.Sprintf(`{"id":"p%d"}`, key), nil)
			}
			var raised list
			n.eventually("all alerts", func() bool {
				n.get("/api/v1/alerts", &raised)
				return len(raised.Items) >= 20
			})
			n.eventually("the failure is logged", func() bool { return len(n.logLines("export of traces failed")) == 1 })
			n.eventually("lost spans are counted", func() bool {
				for line := range strings.Lines(n.metrics()) {
					if count, ok := strings.CutPrefix(line, `deadman_trace_spans_total{outcome="failed"} `); ok {
						return count != "0\n"
					}
				}
				return false
			})
			if lines := n.logLines("export of traces"); len(lines) != 1 {
				t.Errorf("the log has %v", lines)
			}
			began := time.Now()
			n.shutDown()
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("the node takes %s to stop", took)
			}
		})
	}
}
