package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/testwait"
)

func alert(n int) alerts.Alert {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(n) * time.Second)
	return alerts.Alert{
		ID:   alerts.Decision{JobID: int64(n), CreatedAt: at, Check: 1, Status: alerts.Firing, At: at}.ID(),
		Rule: "order-unshipped", RuleVersion: 1, Entity: "order", Key: fmt.Sprint(n), DecidedAt: at,
		Detail: alerts.Detail{
			Draft: alerts.Draft{Status: alerts.Firing, Severity: alerts.Warning, Text: "order waits", Labels: map[string]string{"team": "x"}},
			Since: at, Slot: at, CheckCount: 1, Event: json.RawMessage(`{"id":1}`),
		},
	}
}

func someAlerts(n int) []alerts.Alert {
	batch := make([]alerts.Alert, n)
	for i := range batch {
		batch[i] = alert(i)
	}
	return batch
}

// follow returns n alerts as a consumer receives them.
func follow(t *testing.T, b *bus.Bus, backlog, n int) []alerts.Alert {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var got []alerts.Alert
	for a, err := range b.AlertReader.Follow(ctx, backlog) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, a); len(got) == n {
			return got
		}
	}
	t.Fatalf("%d alerts, want %d", len(got), n)
	return nil
}

func storedMessage(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestAlertsArriveAsTheyWere(t *testing.T) {
	b := connect(t, serve(t, bustest.Dir(t)))
	batch := someAlerts(2500) // more than fit in flight at once
	sent, err := b.AlertPublisher.Publish(t.Context(), batch)
	if err != nil || len(sent) != len(batch) {
		t.Fatalf("%d of %d, %v", len(sent), len(batch), err)
	}
	if diff := cmp.Diff(batch, follow(t, b, len(batch)+10, len(batch))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(batch[2490:], follow(t, b, 10, 10)); diff != "" {
		t.Errorf("a backlog of ten: %s", diff)
	}
}

func TestAlertIsCloudEvent(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s, func(o *bus.Options) { o.PublicURL = "https://deadman.example" })
	a := alert(1)
	a.Key = "größe 1\n%"
	if _, err := b.AlertPublisher.Publish(t.Context(), []alerts.Alert{a}); err != nil {
		t.Fatal(err)
	}
	stream, err := bustest.JetStream(t, s.ClientURL()).Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(t.Context(), "deadman.alerts.order-unshipped.warning."+a.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"ce-specversion": "1.0", "ce-id": a.ID.String(), "ce-type": "dev.deadman.alert.v1",
		"ce-source": "https://deadman.example", "ce-subject": "order-unshipped/gr%C3%B6%C3%9Fe%201%0A%25",
		"ce-time": "2026-01-02T03:04:06Z", "content-type": "application/json",
		"Nats-Msg-Id": a.ID.String(), "Nats-Expected-Last-Subject-Sequence": "0",
	} {
		if got := msg.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	var body map[string]any
	if err := json.Unmarshal(msg.Data, &body); err != nil {
		t.Fatal(err)
	}
	if body["key"] != a.Key || body["url"] != "https://deadman.example/alerts/"+a.ID.String() || body["schema_version"] != 1.0 {
		t.Errorf("%s", msg.Data)
	}
}

func TestRepeatsAreRefusedAsLongAsAlertIsKept(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	const window = 100 * time.Millisecond
	b := connect(t, s, func(o *bus.Options) { o.Window = window })
	js := bustest.JetStream(t, s.ClientURL())
	batch := someAlerts(20)
	publishAll := func() {
		t.Helper()
		if sent, err := b.AlertPublisher.Publish(t.Context(), batch); err != nil || len(sent) != len(batch) {
			t.Fatalf("%d of %d, %v", len(sent), len(batch), err)
		}
	}
	publishAll()
	publishAll() // the broker remembers the ids
	// The window is over once the broker takes another alert with the same id. Its subject differs in the severity,
	// so only the window would refuse it.
	other := batch[0]
	other.Severity = alerts.Info
	testwait.Until(t, "the duplicate window is over", func() bool {
		var refusal *alerts.RejectedError
		if _, err := b.AlertPublisher.Publish(t.Context(), []alerts.Alert{other}); err != nil && !errors.As(err, &refusal) {
			t.Fatal(err)
		}
		return storedMessage(t, js) == uint64(len(batch)+1)
	})
	publishAll() // the subjects are taken
	if n := storedMessage(t, js); n != uint64(len(batch)+1) {
		t.Errorf("%d alerts in the stream, want %d", n, len(batch)+1)
	}
}

// TestPurgedAlertIsPublishedAgain checks that a purged alert counts as unpublished while the stream remembers its id
// for the duplicate window.
func TestPurgedAlertIsPublishedAgain(t *testing.T) {
	server := serve(t, bustest.Dir(t))
	b := connect(t, server, func(o *bus.Options) { o.Window = 2 * time.Second })
	js := bustest.JetStream(t, server.ClientURL())
	batch := someAlerts(3)
	if sent, err := b.AlertPublisher.Publish(t.Context(), batch[:2]); err != nil || len(sent) != 2 {
		t.Fatalf("%d of 2, %v", len(sent), err)
	}
	stream, err := js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent, err := b.AlertPublisher.Publish(t.Context(), batch)
	var refusal *alerts.RejectedError
	if !errors.As(err, &refusal) || len(refusal.Alerts) != 2 || len(sent) != 1 {
		t.Errorf("%d of 3 are reported as published: %v", len(sent), err)
	}
	for begun := time.Now(); err != nil && time.Since(begun) < 20*time.Second; time.Sleep(100 * time.Millisecond) {
		_, err = b.AlertPublisher.Publish(t.Context(), batch)
	}
	if n := storedMessage(t, js); n != 3 || err != nil {
		t.Errorf("%d of 3 alerts are in the stream: %v", n, err)
	}
}

func TestTwoRelaysAtOnce(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	batch := someAlerts(500)
	var both sync.WaitGroup
	for range 2 {
		b := connect(t, s)
		both.Go(func() {
			if sent, err := b.AlertPublisher.Publish(t.Context(), batch); err != nil || len(sent) != len(batch) {
				t.Errorf("%d of %d, %v", len(sent), len(batch), err)
			}
		})
	}
	both.Wait()
	if n := storedMessage(t, bustest.JetStream(t, s.ClientURL())); n != 500 {
		t.Errorf("%d alerts in the stream", n)
	}
}

func TestFullStreamRefusesAlerts(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s, func(o *bus.Options) { o.AlertsBytes = 20_000 })
	batch := someAlerts(100)
	sent, err := b.AlertPublisher.Publish(t.Context(), batch)
	if err == nil || len(sent) == 0 || len(sent) == len(batch) || !strings.Contains(err.Error(), "max_bytes") {
		t.Fatalf("%d of %d, %v", len(sent), len(batch), err)
	}
	if diff := cmp.Diff(batch[:len(sent)], sent); diff != "" {
		t.Errorf("the order was not kept: %s", diff)
	}
	if n := storedMessage(t, bustest.JetStream(t, s.ClientURL())); n != uint64(len(sent)) {
		t.Errorf("%d reported in the stream, %d are there", len(sent), n)
	}
}

func TestOperatorsLimitsStay(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	connect(t, s).Close()
	js := bustest.JetStream(t, s.ClientURL())
	stream, err := js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	if cfg.MaxBytes != 1<<30 || cfg.MaxAge != 30*24*time.Hour || cfg.Discard != jetstream.DiscardNew || !cfg.AllowAtomicPublish || !cfg.AllowDirect || cfg.Replicas != 1 {
		t.Errorf("a new stream of alerts: %+v", cfg)
	}
	cfg.MaxAge, cfg.MaxBytes = time.Hour, 1<<20
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	connect(t, s)
	stream, err = js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo().Config; got.MaxAge != time.Hour || got.MaxBytes != 1<<20 {
		t.Errorf("what an operator set was undone: %+v", got)
	}
}

func TestFollowIsLive(t *testing.T) {
	b := connect(t, serve(t, bustest.Dir(t)))
	want := someAlerts(5)
	if _, err := b.AlertPublisher.Publish(t.Context(), want[:2]); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var got []alerts.Alert
	for a, err := range b.AlertReader.Follow(ctx, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, a); len(got) == 4 {
			cancel()
		} else if _, err := b.AlertPublisher.Publish(ctx, want[len(got)+1:len(got)+2]); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want[1:], got); diff != "" {
		t.Error(diff)
	}
}

// TestFollowersHoldFew checks that a slow consumer holds a few alerts in memory and not its whole backlog.
func TestFollowersHoldFew(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	many := someAlerts(100)
	for i := range many {
		many[i].Text = strings.Repeat("x", 200<<10)
	}
	if sent, err := b.AlertPublisher.Publish(t.Context(), many); err != nil || len(sent) != len(many) {
		t.Fatal(len(sent), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := 0
	for _, err := range b.AlertReader.Follow(ctx, len(many)) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen == 3 {
			time.Sleep(time.Second) // long enough for the pull to be answered
			stream, err := js.Stream(ctx, bus.AlertsStream)
			if err != nil {
				t.Fatal(err)
			}
			consumers := 0
			for info := range stream.ListConsumers(ctx).Info() {
				consumers++
				if held := info.Delivered.Consumer - 3; held > 10 {
					t.Errorf("%d alerts of 200 KiB are held beside the 3 that were taken", held)
				}
			}
			if consumers != 1 {
				t.Errorf("%d consumers", consumers)
			}
		}
		if seen == len(many) {
			return
		}
	}
	t.Errorf("%d of %d alerts came", seen, len(many))
}

func TestPublishWithoutBroker(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connectURL(t, s.ClientURL())
	s.Close()
	sent, err := b.AlertPublisher.Publish(t.Context(), someAlerts(3))
	if !errors.Is(err, bus.ErrUnreachable) || len(sent) > 0 {
		t.Errorf("%d alerts were sent without a broker, %v", len(sent), err)
	}
}
