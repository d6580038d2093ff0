package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"deadman/bus"
	"deadman/bus/bustest"
)

// A broker that is away, or silent, when it is asked who carries a subject is not reachable: a
// node that applies its rules tries again.
func TestBindingWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	proxy, url := between(t, s)
	b := connectURL(t, url)
	asked := func(what string, ask func(context.Context, []string) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := ask(ctx, []string{"orders.created"}); !errors.Is(err, bus.ErrUnreachable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	bind := func(ctx context.Context, subjects []string) error { _, err := b.Bind(ctx, subjects); return err }
	find := func(ctx context.Context, subjects []string) error { _, err := b.Find(ctx, subjects); return err }

	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(`{"type": "timeout", "stream": "upstream", "attributes": {"timeout": 0}}`)); err != nil {
		t.Fatal(err)
	}
	asked("silent, bind", bind)
	asked("silent, find", find)
	proxy.Stop()
	eventually(t, "the connection is lost", func() bool { return !b.Connected() })
	asked("away, bind", bind)
	asked("away, find", find)
}

// An event whose connection is lost before its answer came is not waited for.
func TestAnEventWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	proxy, url := between(t, s)
	b := connectURL(t, url)
	bind(t, b, "orders.created")
	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(`{"type": "timeout", "stream": "downstream", "attributes": {"timeout": 0}}`)); err != nil {
		t.Fatal(err)
	}
	patient, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	answer := make(chan error, 1)
	go func() { _, _, err := b.PublishEvent(patient, "orders.created", nil, nil, "id"); answer <- err }()
	stored := connect(t, s)
	eventually(t, "the event is stored", func() bool {
		info, err := stored.Info(t.Context(), bus.EventsStream)
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
