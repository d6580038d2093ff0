package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
)

// TestFollowersSkipOtherMessages checks that followers skip messages of other publishers on the subjects of
// alerts. The first is logged, all are counted, and no alert is missed.
func TestFollowersSkipOtherMessages(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	log := &bustest.Log{}
	b, err := bus.Connect(t.Context(), bus.Options{URL: s.ClientURL(), Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	js := bustest.JetStream(t, s.ClientURL())
	want := someAlerts(4)
	elsewhere, err := json.Marshal(alert(9))
	if err != nil {
		t.Fatal(err)
	}
	foreign := map[string]string{
		"deadman.alerts.x": "{}", "deadman.alerts.a.b": "not JSON", "deadman.alerts.a.warning.1": `{"stream":"DEADMAN_EVENTS","seq":5}`,
		"deadman.alerts.a.warning.2": "", "deadman.alerts.a.warning.3": `{"id":7}`, "deadman.alerts.a.warning.4": string(elsewhere), "deadman.alerts.a.warning.5": "null",
	}
	for i, a := range want {
		if _, err := b.AlertPublisher.Publish(t.Context(), []alerts.Alert{a}); err != nil {
			t.Fatal(err)
		}
		if i != 1 {
			continue
		}
		for subject, body := range foreign {
			if _, err := js.Publish(t.Context(), subject, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(want, follow(t, b, 100, len(want))); diff != "" {
		t.Errorf("followed (-want +got):\n%s", diff)
	}
	if got := b.AlertReader.Foreign(); got != uint64(len(foreign)) {
		t.Errorf("%d were skipped, want %d", got, len(foreign))
	}
	if n := strings.Count(log.String(), "was skipped"); n != 1 || !strings.Contains(log.String(), "deadman.alerts.") {
		t.Errorf("it is logged %d times: %s", n, log)
	}
}

// TestAlertWhoseSubjectIsTakenIsPublished checks that a message of another publisher on an alert's subject does not
// suppress the alert.
func TestAlertWhoseSubjectIsTakenIsPublished(t *testing.T) {
	t.Parallel()
	for name, batch := range map[string]int{"alone": 1, "in a batch": 3} {
		s := serve(t, bustest.Dir(t))
		b, js := connect(t, s), bustest.JetStream(t, s.ClientURL())
		want := someAlerts(batch)
		for range 2 {
			if _, err := js.Publish(t.Context(), want[batch-1].Subject(), []byte(`{"stream":"DEADMAN_EVENTS","seq":5}`)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // the second time they exist already
			if sent, err := b.AlertPublisher.Publish(t.Context(), want); err != nil || len(sent) != batch {
				t.Fatalf("%s: %d sent, %v", name, len(sent), err)
			}
		}
		if diff := cmp.Diff(want, follow(t, b, 100, batch)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if n := storedMessage(t, js); n != uint64(batch+2) {
			t.Errorf("%s: the stream has %d messages, want %d", name, n, batch+2)
		}
	}
}

// TestStreamOfAnotherDatabase checks that the stream of alerts belongs to one database: the first one marks it, a database
// without an id gets the mark, and another one is refused, also while it runs.
func TestStreamOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	js := bustest.JetStream(t, s.ClientURL())
	connectAs := func(id string) (*bus.Bus, error) {
		b, err := bus.Connect(t.Context(), bus.Options{URL: s.ClientURL(), Log: discardLog(), Claim: func(_ context.Context, mark string) (string, error) {
			if id == "" {
				return mark, nil
			}
			return id, nil
		}})
		if err == nil {
			t.Cleanup(b.Close)
		}
		return b, err
	}
	mark := func() string {
		stream, err := js.Stream(t.Context(), bus.AlertsStream)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().Config.Metadata["deadman_database"]
	}
	connect(t, s) // of an earlier version: it marks nothing
	if got := mark(); got != "" {
		t.Fatalf("marked %q", got)
	}
	first, err := connectAs("first")
	if err != nil || mark() != "first" {
		t.Fatalf("the first database: %v, marked %q", err, mark())
	}
	if _, err := connectAs(""); err != nil || mark() != "first" {
		t.Errorf("a database without an id: %v, marked %q", err, mark())
	}
	if _, err := connectAs("second"); !errors.Is(err, bus.ErrForeignStream) || mark() != "first" {
		t.Errorf("the second database: %v, marked %q", err, mark())
	}

	stream, err := js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.Metadata["deadman_database"] = "second" // the command that the error names
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := first.AlertsStream.Inspect(t.Context()); !errors.Is(err, bus.ErrForeignStream) {
		t.Errorf("the first database does not notice that it lost the stream: %v", err)
	}
	if _, err := connectAs("second"); err != nil {
		t.Errorf("the second database: %v", err)
	}

	if err := js.DeleteStream(t.Context(), bus.AlertsStream); err != nil {
		t.Fatal(err)
	}
	if err := first.AlertsStream.Inspect(t.Context()); err != nil || mark() != "first" {
		t.Errorf("after a deletion: %v, marked %q", err, mark())
	}
}
