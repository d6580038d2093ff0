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

// respond runs several responders on a subject, one of them silent.
func respond(t *testing.T, s *bus.Server, subject string, answers ...string) {
	t.Helper()
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	for _, answer := range answers {
		if _, err := conn.Subscribe(subject, func(m *nats.Msg) {
			if answer != "" {
				_ = m.Respond([]byte(answer))
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

func requestMany(t *testing.T, b *bus.Bus, subject string, limit int, within, quiet time.Duration) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	all, err := b.Messages.RequestMany(ctx, subject, limit, quiet)
	var texts []string
	for _, m := range all {
		texts = append(texts, string(m.Data))
	}
	return strings.Join(texts, " "), err
}

func TestGather(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	respond(t, s, "many", "one", "one", "one")
	respond(t, s, "silent", "")
	respond(t, s, "some", "one", "", "one")
	for _, c := range []struct {
		subject       string
		most          int
		within, quiet time.Duration
		want          string
	}{
		{"many", 10, time.Hour, 200 * time.Millisecond, "one one one"},    // ends after quiet
		{"many", 2, time.Hour, time.Hour, "one one"},                      // ends at the limit
		{"some", 10, 200 * time.Millisecond, time.Hour, "one one"},        // ends at the deadline
		{"silent", 10, 100 * time.Millisecond, 10 * time.Millisecond, ""}, // without an error
		{"absent.there", 10, time.Hour, time.Hour, ""},                    // the broker reports it
	} {
		if got, err := requestMany(t, b, c.subject, c.most, c.within, c.quiet); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.subject, got, err, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := b.Messages.RequestMany(ctx, "silent", 1, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled request: %v", err)
	}
}

// TestGatherWithoutBroker checks that a silent or missing broker is not taken for a lack of responders.
func TestGatherWithoutBroker(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	proxy, url := newProxy(t, s)
	b := connectURL(t, url)
	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(`{"type": "timeout", "stream": "upstream", "attributes": {"timeout": 0}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := requestMany(t, b, "absent.there", 1, 300*time.Millisecond, time.Hour); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("silent: %v", err)
	}
	proxy.Stop()
	testwait.Until(t, "the connection is lost", func() bool { return !b.Conn.Connected() })
	if _, err := requestMany(t, b, "absent.there", 1, time.Hour, time.Hour); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("away: %v", err)
	}
}
