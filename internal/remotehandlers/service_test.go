package remotehandlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"deadman/alerts"
	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/remotehandlers"
)

var _ remotehandlers.Requester = (*bus.Messages)(nil)

// fixture is a broker with the connections of a node and of a service.
type fixture struct {
	server   *bus.Server
	bus      *bus.Bus
	services *remotehandlers.Services
	conn     *nats.Conn
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: "127.0.0.1:0", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	b, err := bus.Connect(t.Context(), bus.Options{InProcess: server, Name: "test", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	conn, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return fixture{server, b, remotehandlers.NewServices(b.Messages, ""), conn}
}

// serve starts a service with micro that answers under a name until the test ends.
func (s fixture) serve(t *testing.T, name string, answer micro.HandlerFunc) {
	t.Helper()
	service, err := micro.AddService(s.conn, micro.Config{Name: name, Version: "1.0.0", Endpoint: &micro.EndpointConfig{
		Subject: remotehandlers.Subject(name), Handler: answer,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := service.Stop(); err != nil && !s.conn.IsClosed() {
			t.Error(err)
		}
	})
	if err := s.conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// within returns a context for a check that succeeds.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// check is a check with all fields set.
var check = checks.Check{
	JobID: 7, Rule: "late", RuleVersion: 3, Entity: "order", Key: "1042", Event: []byte(`{"id":"1042"}`), State: []byte(`{"id":"1042","n":1}`),
	Since: noon.Add(-time.Hour), Slot: noon, At: noon.Add(time.Second), Count: 2, Step: 1, AlertCount: 1,
	Pauses: []checks.Pause{{From: noon.Add(-time.Minute), To: noon.Add(-time.Second)}, {From: noon}}, AckedUntil: noon.Add(time.Hour), Manual: true,
}

func TestCheckCallsService(t *testing.T) {
	s := newFixture(t)
	got := make(chan micro.Request, 1)
	s.serve(t, "shipping", func(r micro.Request) {
		got <- r
		_ = r.Respond([]byte(`{"next": "2026-03-02T14:00:00+01:00", "nominal": true, "step": 2, "state": {"carrier": "none"}, "alerts": [
			{"severity": "critical", "status": "resolved", "step": "second", "text": "late", "labels": {"team": "a"}}, {}]}`))
	})
	ctx := within(t)
	answer, err := s.services.Named("shipping").Check(ctx, check)
	if err != nil {
		t.Fatal(err)
	}
	want := checks.Answer{
		Next: noon.Add(time.Hour), Nominal: true, Step: 2, State: []byte(`{"carrier": "none"}`), Alerts: []alerts.Draft{
			{Severity: alerts.Critical, Status: alerts.Resolved, Step: "second", StepIndex: 1, Text: "late", Labels: map[string]string{"team": "a"}},
			{StepIndex: 1},
		},
	}
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
	request := <-got
	until, _ := ctx.Deadline()
	if at, err := time.Parse(time.RFC3339Nano, request.Headers().Get("Deadman-Deadline")); err != nil || !at.Equal(until) {
		t.Errorf("the header is %s, the deadline is %s: %v", at, until, err)
	}
	deadline, err := json.Marshal(until.UTC())
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"rule":"late","rule_version":3,"entity":"order","key":"1042","job_id":7,"event":{"id":"1042"},"state":{"id":"1042","n":1},` +
		`"since":"2026-03-02T11:00:00Z","slot":"2026-03-02T12:00:00Z","at":"2026-03-02T12:00:01Z","count":2,"step":1,"alert_count":1,` +
		`"pauses":[{"from":"2026-03-02T11:59:00Z","to":"2026-03-02T11:59:59Z"},{"from":"2026-03-02T12:00:00Z"}],"acknowledged_until":"2026-03-02T13:00:00Z","manual":true,"deadline":` + string(deadline) + `}`; string(request.Data()) != want {
		t.Errorf("the request is\n%s\nwant\n%s", request.Data(), want)
	}
	requestSchema(t, request.Data())
}

func TestServiceErrorIsErrorOfCheck(t *testing.T) {
	s := newFixture(t)
	s.serve(t, "shipping", func(r micro.Request) { _ = r.Error("500", "no database", []byte(`{"next": null}`)) })
	_, err := s.services.Named("shipping").Check(within(t), check)
	var outage *checks.Outage
	if err == nil || errors.As(err, &outage) || !strings.Contains(err.Error(), "invalid answer on deadman.handlers.shipping: the service responded with error 500: no database") {
		t.Error(err)
	}
}

// outageOf returns the outage of a check.
func outageOf(t *testing.T, h checks.Handler) *checks.Outage {
	t.Helper()
	_, err := h.Check(within(t), check)
	var outage *checks.Outage
	if !errors.As(err, &outage) || outage.Source != "handler/shipping" {
		t.Fatalf("no outage of the handler: %v", err)
	}
	return outage
}

func TestUnreachableServiceIsOutage(t *testing.T) {
	s := newFixture(t)
	h := s.services.Named("shipping")
	if o := outageOf(t, h); !strings.Contains(o.Error(), "no service answers on deadman.handlers.shipping; start one, or correct the name") {
		t.Error(o)
	}
	s.server.Close()
	for deadline := time.Now().Add(2 * time.Minute); s.bus.Conn.Connected(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection stays")
		}
	}
	if o := outageOf(t, h); !errors.Is(o, bus.ErrUnreachable) {
		t.Error(o)
	}
}

// A service that hangs is not called for a while: its jobs get an outage at once. A slow answer or an error is not
// enough.
func TestUnresponsiveServiceIsNotCalled(t *testing.T) {
	s := newFixture(t)
	var requests atomic.Int32
	hangs := atomic.Bool{}
	s.serve(t, "shipping", func(r micro.Request) {
		if requests.Add(1); !hangs.Load() {
			_ = r.Respond([]byte(`{}`))
		}
	})
	hurried := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := s.services.Named("shipping").Check(ctx, check)
		return err
	}
	for range 20 {
		if _, err := s.services.Named("shipping").Check(within(t), check); err == nil || !strings.Contains(err.Error(), `neither "next" nor "outcome"`) {
			t.Fatal(err)
		}
	}
	hangs.Store(true)
	for range 5 {
		if err := hurried(); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if o := outageOf(t, s.services.Named("shipping")); !strings.Contains(o.Error(), "not called for 10s") || errors.Is(o, context.DeadlineExceeded) {
		t.Error(o)
	}
	if state := s.services.State("shipping"); state.Health != lookup.Down || !strings.Contains(state.Error, "did not answer in time") {
		t.Errorf("%+v", state)
	}
	if n := requests.Load(); n != 25 {
		t.Errorf("it was queried %d times", n)
	}
	if o := s.services.Named("other"); o == s.services.Named("shipping") {
		t.Error("two names are one service")
	}
}

// requestFunc answers as the test defines.
type requestFunc func(ctx context.Context, m *nats.Msg) (*nats.Msg, error)

func (w requestFunc) Request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) { return w(ctx, m) }

func (w requestFunc) RequestMany(context.Context, string, int, time.Duration) ([]*nats.Msg, error) {
	return nil, nil
}

func TestServiceIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, requests := true, 0
		services := remotehandlers.NewServices(requestFunc(func(ctx context.Context, _ *nats.Msg) (*nats.Msg, error) {
			if requests++; hangs {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &nats.Msg{Data: []byte(`{"next": null}`)}, nil
		}), "")
		send := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := services.Named("shipping").Check(ctx, check)
			return err
		}
		var outage *checks.Outage
		for range 6 {
			if err := send(); err == nil {
				t.Fatal("it does not hang")
			}
		}
		for _, c := range []struct {
			wait   time.Duration
			calls  int
			outage bool
			hangs  bool
		}{
			{wait: 9 * time.Second, calls: 5, outage: true, hangs: true},
			{wait: 2 * time.Second, calls: 6, hangs: true}, // one retries
			{calls: 6, outage: true, hangs: true},
			{wait: 11 * time.Second, calls: 7},
			{calls: 8},
		} {
			hangs = c.hangs
			time.Sleep(c.wait)
			err := send()
			if requests != c.calls || errors.As(err, &outage) != c.outage || (err == nil) == c.hangs {
				t.Fatalf("%+v: queried %d times, %v", c, requests, err)
			}
		}
	})
}
