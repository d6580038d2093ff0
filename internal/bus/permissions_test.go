package bus_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
)

// serveUser starts a server whose user "deadman" has permissions. It returns its address, and that of a user with all
// permissions.
func serveUser(t *testing.T, may *natsserver.Permissions) (url, all string) {
	t.Helper()
	o := bustest.Options(t)
	o.Users = []*natsserver.User{{Username: "deadman", Password: "secret", Permissions: may}, {Username: "all", Password: "secret"}}
	srv := bustest.Serve(t, o)
	return bustest.As(srv, "deadman"), bustest.As(srv, "all")
}

func deny(subjects ...string) *natsserver.Permissions {
	return &natsserver.Permissions{
		Publish:   &natsserver.SubjectPermission{Allow: []string{">"}, Deny: subjects},
		Subscribe: &natsserver.SubjectPermission{Allow: []string{">"}},
	}
}

func TestMissingPermissionIsNamedAtStart(t *testing.T) {
	noAnswers := deny()
	noAnswers.Subscribe.Deny = []string{"_INBOX.>"}
	for want, may := range map[string]*natsserver.Permissions{
		"publish on $JS.API.STREAM.INFO.DEADMAN_ALERTS":   deny("$JS.API.STREAM.INFO.>"),
		"publish on $JS.API.STREAM.CREATE.DEADMAN_ALERTS": deny("$JS.API.STREAM.CREATE.>"),
		"subscribe to _INBOX.deadman.>":                   noAnswers,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			url, _ := serveUser(t, may)
			_, err := bus.Connect(t.Context(), bus.Options{URL: url, Log: discardLog()})
			if !errors.Is(err, bus.ErrDenied) || errors.Is(err, bus.ErrUnreachable) || !strings.Contains(err.Error(), want) {
				t.Errorf("without the permission: %v", err)
			}
		})
	}
}

func TestMissingPermissionToPublishAlerts(t *testing.T) {
	t.Parallel()
	url, _ := serveUser(t, deny("deadman.alerts.>"))
	logged := &bustest.Log{}
	b, err := bus.Connect(t.Context(), bus.Options{URL: url, Log: slog.New(slog.NewTextHandler(logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	sent, err := b.AlertPublisher.Publish(t.Context(), someAlerts(100))
	if !errors.Is(err, bus.ErrDenied) || !strings.Contains(err.Error(), "publish on deadman.alerts.>") || len(sent) != 0 {
		t.Errorf("%d sent, %v", len(sent), err)
	}
	if n := strings.Count(logged.String(), "level=ERROR"); n != 1 {
		t.Errorf("one missing permission is logged %d times", n)
	}
}

// TestDelayedAlert checks that a rejected alert holds up only the later alerts with its rule and key.
func TestDelayedAlert(t *testing.T) {
	t.Parallel()
	url, all := serveUser(t, deny("deadman.alerts.*.critical.>"))
	b := connectURL(t, url)
	batch := someAlerts(6)
	for i := range batch {
		batch[i].Key = []string{"a", "b"}[i%2]
	}
	batch[2].Severity = alerts.Critical // of a
	sent, err := b.AlertPublisher.Publish(t.Context(), batch)
	if !errors.Is(err, bus.ErrDenied) {
		t.Error(err)
	}
	var got []string
	for _, m := range storedMessages(t, bustest.JetStream(t, all)) {
		got = append(got, m.Header.Get("ce-id"))
	}
	want := []string{batch[0].ID.String(), batch[1].ID.String(), batch[3].ID.String(), batch[5].ID.String()}
	if strings.Join(got, " ") != strings.Join(want, " ") || len(sent) != 4 {
		t.Errorf("in the stream are %v, want %v; %d sent", got, want, len(sent))
	}
}

// TestStreamWithoutUpdatePermission checks publishing without the permission to change the stream.
func TestStreamWithoutUpdatePermission(t *testing.T) {
	t.Parallel()
	url, all := serveUser(t, deny("$JS.API.STREAM.UPDATE.>"))
	js := bustest.JetStream(t, all)
	makeStream(t, js, jetstream.StreamConfig{Name: bus.AlertsStream, Subjects: []string{"deadman.alerts.>"}})
	b := connectURL(t, url)
	publishAlerts(t, b, someAlerts(20))
	if sizes, alone := batchesOf(storedMessages(t, js)); len(sizes) != 0 || alone != 20 {
		t.Errorf("in batches of %v, and %d alone", sizes, alone)
	}
}

// TestMissingPermissionToPublish checks that a denied publication fails at once, regardless of the timeout.
func TestMissingPermissionToPublish(t *testing.T) {
	t.Parallel()
	url, all := serveUser(t, deny("orders.>", "beats.>"))
	makeStream(t, bustest.JetStream(t, all), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	b := connectURL(t, url)
	patient, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for subject, publish := range map[string]func() error{
		"orders.created": func() error {
			_, _, _, err := b.EventPublisher.PublishEvent(patient, "orders.created", nil, nil, "")
			return err
		},
		"beats.deadman": func() error { return b.Messages.Publish(patient, "beats.deadman", nil) },
	} {
		for range 10 {
			answer := make(chan error, 1)
			go func() { answer <- publish() }()
			select {
			case err := <-answer:
				if !errors.Is(err, bus.ErrDenied) || !strings.Contains(err.Error(), "publish on "+subject) {
					t.Errorf("%s: %v", subject, err)
				}
			case <-time.After(2 * time.Minute):
				t.Fatalf("%s: no answer", subject)
			}
		}
	}
	if err := b.Messages.Publish(patient, "others", nil); err != nil {
		t.Errorf("what is permitted, after a denial: %v", err)
	}
}

// TestMissingPermissionToBind checks that a denied request about streams fails at once with the missing permission,
// because a user saving a rule waits for it.
func TestMissingPermissionToBind(t *testing.T) {
	t.Parallel()
	for permission, may := range map[string]*natsserver.Permissions{
		"publish on $JS.API.STREAM.INFO.ORDERS": deny("$JS.API.STREAM.INFO.ORDERS"),
		"publish on $JS.API.STREAM.LIST":        deny("$JS.API.STREAM.LIST"),
	} {
		t.Run(permission, func(t *testing.T) {
			t.Parallel()
			url, all := serveUser(t, may)
			makeStream(t, bustest.JetStream(t, all), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
			b := connectURL(t, url)
			patient, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			for range 3 {
				answer := make(chan error, 1)
				go func() { _, err := b.Binder.Bind(patient, []string{"orders.created"}); answer <- err }()
				select {
				case err := <-answer:
					if !errors.Is(err, bus.ErrDenied) || !strings.Contains(err.Error(), permission) {
						t.Error(err)
					}
				case <-time.After(2 * time.Minute):
					t.Fatal("no answer")
				}
			}
		})
	}
}
