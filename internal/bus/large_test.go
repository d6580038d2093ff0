package bus_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
)

// TestOversizedAlertIsPublishedWithoutItsBody checks an event body that the broker accepts, but that is too large
// as part of an alert.
func TestOversizedAlertIsPublishedWithoutItsBody(t *testing.T) {
	b := connect(t, serve(t, bustest.Dir(t)))
	large := alert(0)
	large.Event = append(append([]byte{'"'}, bytes.Repeat([]byte("<"), 250<<10)...), '"')
	sent, err := b.AlertPublisher.Publish(t.Context(), []alerts.Alert{large, alert(1)})
	if err != nil || len(sent) != 2 {
		t.Fatalf("%d of 2 alerts sent, %v", len(sent), err)
	}
	got := follow(t, b, 2, 2)[0]
	if got.ID != large.ID || got.Text != large.Text || got.Event != nil {
		t.Errorf("alert %s %q with a body of %d bytes", got.ID, got.Text, len(got.Event))
	}
}

func TestOversizedAlertIsShortened(t *testing.T) {
	for name, limit := range map[string]func(*jetstream.StreamConfig){
		"for the broker": func(*jetstream.StreamConfig) {},
		"for the stream": func(c *jetstream.StreamConfig) { c.MaxMsgSize = 3000 },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, bustest.Dir(t))
			logged := &bustest.Log{}
			b := connect(t, s, func(o *bus.Options) { o.Log = slog.New(slog.NewTextHandler(logged, nil)) })
			setAlerts(t, bustest.JetStream(t, s.ClientURL()), limit)
			if err := b.AlertsStream.Inspect(t.Context()); err != nil {
				t.Fatal(err)
			}
			large := alert(0)
			large.Text = strings.Repeat("ä", 1<<20)
			large.Labels = map[string]string{"team": strings.Repeat("x", 4000)}
			sent, err := b.AlertPublisher.Publish(t.Context(), []alerts.Alert{large, alert(1)})
			if err != nil || len(sent) != 2 {
				t.Fatalf("%d of 2 alerts sent, %v", len(sent), err)
			}
			got := follow(t, b, 2, 2)
			if got[0].ID != large.ID || !strings.HasPrefix(got[0].Text, "äää") || !strings.Contains(got[0].Text, "shortened") || strings.Contains(got[0].Text, "\uFFFD") {
				t.Errorf("alert %s %q", got[0].ID, got[0].Text)
			}
			if got[1].Text != alert(1).Text || strings.Count(logged.String(), large.ID.String()) != 1 {
				t.Errorf("the one behind the text is %q; logged was %s", got[1].Text, logged)
			}
		})
	}
}

// TestOversizedAlertDoesNotBlockOthers checks that an alert too large even when shortened is reported and waits,
// while the others are published.
func TestOversizedAlertDoesNotBlockOthers(t *testing.T) {
	o := bustest.Options(t)
	o.MaxPayload = 2000
	srv := bustest.Serve(t, o)
	b := connectURL(t, srv.ClientURL())
	batch := someAlerts(10)
	batch[4].Key = strings.Repeat("ä", 250)
	sent, err := b.AlertPublisher.Publish(t.Context(), batch)
	if !errors.Is(err, nats.ErrMaxPayload) || !strings.Contains(err.Error(), "max_payload") || len(sent) != 9 {
		t.Errorf("%d of 9 sent beside one that is too large: %v", len(sent), err)
	}
}
