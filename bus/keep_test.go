package bus_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/bus"
	"deadman/bus/bustest"
)

func TestAStreamThatWasDeletedIsMadeAgain(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	said := &bustest.Log{}
	b := connect(t, s, func(o *bus.Options) { o.Log = slog.New(slog.NewTextHandler(said, nil)) })
	js := bustest.JetStream(t, s.ClientURL())
	for name, again := range map[string]func(){
		"by one alert":   func() { publishAlerts(t, b, some(1)) },
		"by many alerts": func() { publishAlerts(t, b, some(20)) },
		"by a look": func() {
			if err := b.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		publishAlerts(t, b, some(5))
		if err := js.DeleteStream(t.Context(), bus.AlertsStream); err != nil {
			t.Fatal(err)
		}
		before := strings.Count(said.String(), "level=ERROR")
		again()
		if cfg := alertsInfo(t, js).Config; cfg.Discard != jetstream.DiscardNew || cfg.MaxBytes != 1<<30 {
			t.Errorf("%s: made again as %+v", name, cfg)
		}
		if strings.Count(said.String(), "level=ERROR") != before+1 {
			t.Errorf("%s: said %s", name, said)
		}
		publishAlerts(t, b, some(20))
		if n := alertsInfo(t, js).State.Msgs; n != 20 {
			t.Errorf("%s: %d alerts, want 20", name, n)
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

func TestItIsSaidOnceThatTheStreamFillsUp(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	said := &bustest.Log{}
	b := connect(t, s, func(o *bus.Options) {
		o.AlertsBytes, o.Log = 100_000, slog.New(slog.NewTextHandler(said, nil))
	})
	js := bustest.JetStream(t, s.ClientURL())
	look := func(warnings int, least, most float64) {
		t.Helper()
		for range 2 {
			if err := b.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(said.String(), "level=WARN"); n != warnings {
			t.Errorf("%d warnings, want %d:\n%s", n, warnings, said)
		}
		if full, err := b.Filled(); err != nil || full < least || full > most {
			t.Errorf("full to %v, want from %v to %v: %v", full, least, most, err)
		}
	}
	look(0, 0, 0)
	batch := some(500)
	sent, err := b.Publish(t.Context(), batch)
	if err == nil {
		t.Fatal("it never was full")
	}
	look(1, 0.95, 1)
	setAlerts(t, js, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 })
	look(1, 0.05, 0.1)
	publishAlerts(t, b, batch)
	if n := alertsInfo(t, js).State.Msgs; n != 500 || len(sent) == 0 {
		t.Errorf("%d alerts, of which %d went before it was full", n, len(sent))
	}
	setAlerts(t, js, func(c *jetstream.StreamConfig) { c.MaxMsgs = 501 })
	look(2, 0.99, 1)
}

func TestALookWithoutABroker(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connectURL(t, s.ClientURL())
	s.Close()
	if err := b.Look(t.Context()); err == nil {
		t.Fatal("nobody was asked, and it is well")
	}
	if _, err := b.Filled(); err == nil {
		t.Error("how full it is is not known, and it is not said")
	}
}
