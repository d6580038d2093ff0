package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/testwait"
)

// TestBindingWithoutAnswer checks that a missing or silent broker gives ErrUnreachable when a subject is bound, so
// that a node applying its rules retries.
func TestBindingWithoutAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	proxy, url := newProxy(t, s)
	b := connectURL(t, url)
	requests := func(what string, send func(context.Context, []string) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := send(ctx, []string{"orders.created"}); !errors.Is(err, bus.ErrUnreachable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	bind := func(ctx context.Context, subjects []string) error { _, err := b.Binder.Bind(ctx, subjects); return err }
	find := func(ctx context.Context, subjects []string) error { _, err := b.Binder.Find(ctx, subjects); return err }

	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(`{"type": "timeout", "stream": "upstream", "attributes": {"timeout": 0}}`)); err != nil {
		t.Fatal(err)
	}
	requests("silent, bind", bind)
	requests("silent, find", find)
	proxy.Stop()
	testwait.Until(t, "the connection is lost", func() bool { return !b.Conn.Connected() })
	requests("away, bind", bind)
	requests("away, find", find)
}

// TestEventWithoutAnswer checks that an event does not wait for an answer after its connection is lost.
func TestEventWithoutAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	proxy, url := newProxy(t, s)
	b := connectURL(t, url)
	bind(t, b, "orders.created")
	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(`{"type": "timeout", "stream": "downstream", "attributes": {"timeout": 0}}`)); err != nil {
		t.Fatal(err)
	}
	patient, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		_, _, _, err := b.EventPublisher.PublishEvent(patient, "orders.created", nil, nil, "id")
		answer <- err
	}()
	stored := connect(t, s)
	testwait.Until(t, "the event is stored", func() bool {
		info, err := stored.Streams.Info(t.Context(), bus.EventsStream)
		return err == nil && info.LastSeq == 1
	})
	proxy.Stop()
	select {
	case err := <-answer:
		if !errors.Is(err, bus.ErrUnreachable) || !strings.Contains(err.Error(), "with the same id") {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("no answer")
	}
}

// TestStreamUnknownToServer checks that a node retries if another node created the stream of alerts and
// the asked server does not know it yet. A client of a server without JetStream simulates such a server's answers.
func TestStreamUnknownToServer(t *testing.T) {
	t.Parallel()
	o := bustest.Options(t)
	o.JetStream = false
	s := bustest.Serve(t, o)
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	for subject, answer := range map[string]string{
		"$JS.API.STREAM.INFO.DEADMAN_ALERTS":   `{"type":"io.nats.jetstream.api.v1.stream_info_response","error":{"code":404,"err_code":10059,"description":"stream not found"}}`,
		"$JS.API.STREAM.CREATE.DEADMAN_ALERTS": `{"type":"io.nats.jetstream.api.v1.stream_create_response","error":{"code":400,"err_code":10058,"description":"stream name already in use with a different configuration"}}`,
	} {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte(answer)) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Connect(t.Context(), bus.Options{URL: s.ClientURL(), Log: discardLog()}); !errors.Is(err, bus.ErrUnreachable) || !strings.Contains(err.Error(), bus.AlertsStream) {
		t.Errorf("connect: %v, want ErrUnreachable with the name of the stream", err)
	}
}
