package bus_test

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
)

func TestDeletedStreamIsRecreated(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	logged := &bustest.Log{}
	b := connect(t, s, func(o *bus.Options) { o.Log = slog.New(slog.NewTextHandler(logged, nil)) })
	js := bustest.JetStream(t, s.ClientURL())
	for name, again := range map[string]func(){
		"by one alert":   func() { publishAlerts(t, b, someAlerts(1)) },
		"by many alerts": func() { publishAlerts(t, b, someAlerts(20)) },
		"by a check": func() {
			if err := b.AlertsStream.Inspect(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		publishAlerts(t, b, someAlerts(5))
		if err := js.DeleteStream(t.Context(), bus.AlertsStream); err != nil {
			t.Fatal(err)
		}
		before := strings.Count(logged.String(), "level=ERROR")
		again()
		if cfg := alertsInfo(t, js).Config; cfg.Discard != jetstream.DiscardNew || cfg.MaxBytes != 1<<30 {
			t.Errorf("%s: recreated as %+v", name, cfg)
		}
		if strings.Count(logged.String(), "level=ERROR") != before+1 {
			t.Errorf("%s: logged %s, want one more error", name, logged)
		}
		publishAlerts(t, b, someAlerts(20))
		if n := alertsInfo(t, js).State.Msgs; n != 20 {
			t.Errorf("%s: %d alerts, want 20", name, n)
		}
	}
}

// TestStreamOfEventsHasCap checks that a new stream of events has a limit and deletes its oldest events beyond
// it. An existing stream keeps its operator's limit, or none, so that an upgrade deletes no event.
func TestStreamOfEventsHasCap(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	logged := &bustest.Log{}
	b := connect(t, s, func(o *bus.Options) { o.EventsBytes, o.Log = 2<<20, slog.New(slog.NewTextHandler(logged, nil)) })
	js := bustest.JetStream(t, s.ClientURL())
	info := func() *jetstream.StreamInfo {
		t.Helper()
		s, err := js.Stream(t.Context(), bus.EventsStream)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo()
	}
	bind := func(subject string) {
		t.Helper()
		if _, err := b.Binder.Bind(t.Context(), []string{subject}); err != nil {
			t.Fatal(err)
		}
	}
	filled := func(want float64) {
		t.Helper()
		b.EventsStream.Inspect(t.Context())
		if share, ok := b.EventsStream.Usage(); !ok || math.Abs(share-want) > 0.06 {
			t.Errorf("%.2f is filled, known %v; want %.2f", share, ok, want)
		}
	}
	publish := func(n int) {
		t.Helper()
		for range n {
			if _, _, _, err := b.EventPublisher.PublishEvent(t.Context(), "orders.created", make([]byte, 100<<10), nil, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	filled(0)
	bind("orders.created")
	publish(16)
	filled(0.8)
	publish(24)
	filled(1)
	if got := info(); got.Config.MaxBytes != 2<<20 || got.Config.Discard != jetstream.DiscardOld || got.State.Bytes > 2<<20 || got.State.LastSeq != 40 || got.State.FirstSeq < 20 {
		t.Errorf("a full stream: %+v, %+v", got.Config, got.State)
	}
	for _, limit := range []int64{8 << 20, -1} {
		cfg := info().Config
		cfg.MaxBytes = limit
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		bind(fmt.Sprintf("orders.more%d", limit))
		before := info().State
		again := connect(t, s, func(o *bus.Options) { o.EventsBytes, o.Log = 1<<20, slog.New(slog.NewTextHandler(logged, nil)) })
		if _, err := again.Binder.Bind(t.Context(), []string{fmt.Sprintf("parcels.more%d", limit)}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			again.EventsStream.Inspect(t.Context())
		}
		if got := info(); got.Config.MaxBytes != limit || got.State.Msgs != before.Msgs {
			t.Errorf("the operator set %d, and it is %d; %d messages of %d are left", limit, got.Config.MaxBytes, got.State.Msgs, before.Msgs)
		}
	}
	if n := strings.Count(logged.String(), "has no max_bytes"); n != 1 {
		t.Errorf("%d times it is logged that nothing bounds the stream: %s", n, logged)
	}
}

// The streams get smaller limits if the broker lacks storage for the configured ones, which is logged, and rules are served.
func TestCapsFitBroker(t *testing.T) {
	for storage, want := range map[int64][2]int64{ // limits of the streams of alerts and events
		1<<30 + 512<<20: {1 << 30, 512 << 20},
		1<<30 + 200<<20: {512 << 20, 512 << 20},
		600 << 20:       {256 << 20, 256 << 20},
	} {
		o := bustest.Options(t)
		o.JetStreamMaxStore = storage
		s := bustest.Serve(t, o)
		logged := &bustest.Log{}
		b, err := bus.Connect(t.Context(), bus.Options{URL: s.ClientURL(), Log: slog.New(slog.NewTextHandler(logged, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		if _, err := b.Binder.Bind(t.Context(), []string{"orders.created"}); err != nil {
			t.Fatal(err)
		}
		js := bustest.JetStream(t, s.ClientURL())
		for i, name := range []string{bus.AlertsStream, bus.EventsStream} {
			stream, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			limit := stream.CachedInfo().Config.MaxBytes
			if limit != want[i] || limit < 1<<30 != strings.Contains(logged.String(), "stream="+name+" max_bytes="+fmt.Sprint(limit)) {
				t.Errorf("%d bytes of storage: the limit of %s is %d, want %d: %s", storage, name, limit, want[i], logged)
			}
		}
	}
}

func alertsInfo(t *testing.T, js jetstream.JetStream) *jetstream.StreamInfo {
	t.Helper()
	s, err := js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo()
}

func TestFillingStreamIsAlertedOnce(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	logged := &bustest.Log{}
	b := connect(t, s, func(o *bus.Options) {
		o.AlertsBytes, o.Log = 100_000, slog.New(slog.NewTextHandler(logged, nil))
	})
	js := bustest.JetStream(t, s.ClientURL())
	check := func(warnings int, least, limit float64) {
		t.Helper()
		for range 2 {
			if err := b.AlertsStream.Inspect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(logged.String(), "level=WARN"); n != warnings {
			t.Errorf("%d warnings, want %d:\n%s", n, warnings, logged)
		}
		if full, err := b.AlertsStream.Usage(); err != nil || full < least || full > limit {
			t.Errorf("full to %v, want from %v to %v: %v", full, least, limit, err)
		}
	}
	check(0, 0, 0)
	batch := someAlerts(500)
	sent, err := b.AlertPublisher.Publish(t.Context(), batch)
	if err == nil {
		t.Fatal("it never was full")
	}
	check(1, 0.95, 1)
	setAlerts(t, js, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 })
	check(1, 0.05, 0.1)
	publishAlerts(t, b, batch)
	if n := alertsInfo(t, js).State.Msgs; n != 500 || len(sent) == 0 {
		t.Errorf("%d alerts, of which %d went before it was full", n, len(sent))
	}
	setAlerts(t, js, func(c *jetstream.StreamConfig) { c.MaxMsgs = 501 })
	check(2, 0.99, 1)
}

func TestInspectWithoutBroker(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connectURL(t, s.ClientURL())
	s.Close()
	if err := b.AlertsStream.Inspect(t.Context()); err == nil {
		t.Fatal("Inspect returns no error without a broker")
	}
	if _, err := b.AlertsStream.Usage(); err == nil {
		t.Error("Usage returns no error without a broker")
	}
}
