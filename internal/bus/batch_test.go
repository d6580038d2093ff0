package bus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
)

// storedMessages returns the messages of the stream of alerts from its beginning.
func storedMessages(t *testing.T, js jetstream.JetStream) []*jetstream.RawStreamMsg {
	t.Helper()
	s, err := js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	state := s.CachedInfo().State
	var all []*jetstream.RawStreamMsg
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// batchesOf returns the sizes of the batches and the number of single messages.
func batchesOf(messages []*jetstream.RawStreamMsg) (sizes []int, alone int) {
	last := ""
	for _, m := range messages {
		switch id := m.Header.Get("Nats-Batch-Id"); {
		case id == "":
			alone++
		case id == last:
			sizes[len(sizes)-1]++
		default:
			sizes = append(sizes, 1)
		}
		last = m.Header.Get("Nats-Batch-Id")
	}
	return sizes, alone
}

func publishAlerts(t *testing.T, b *bus.Bus, batch []alerts.Alert) {
	t.Helper()
	if sent, err := b.AlertPublisher.Publish(t.Context(), batch); err != nil || len(sent) != len(batch) {
		t.Fatalf("%d of %d, %v", len(sent), len(batch), err)
	}
}

func TestAlertsGoInBatches(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	publishAlerts(t, b, someAlerts(2500))
	sizes, alone := batchesOf(storedMessages(t, bustest.JetStream(t, s.ClientURL())))
	if diff := cmp.Diff([]int{1000, 1000, 500}, sizes); diff != "" || alone != 0 {
		t.Errorf("%d alone, and in batches: %s", alone, diff)
	}
}

func TestBatchIsBoundedInBytesToo(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	batch := someAlerts(10)
	for i := range batch {
		batch[i].Text = strings.Repeat("x", 900<<10)
	}
	publishAlerts(t, b, batch)
	sizes, _ := batchesOf(storedMessages(t, bustest.JetStream(t, s.ClientURL())))
	if diff := cmp.Diff([]int{4, 4, 2}, sizes); diff != "" {
		t.Error(diff)
	}
}

// TestBatchWithRepeat checks that alerts sent earlier are not repeated, and that new ones get through beside them,
// in the order of their key.
func TestBatchWithRepeat(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	batch := someAlerts(300)
	for i := range batch {
		batch[i].Key = fmt.Sprint(i % 7)
	}
	publishAlerts(t, b, batch[40:60])
	publishAlerts(t, b, batch)
	messages := storedMessages(t, bustest.JetStream(t, s.ClientURL()))
	if len(messages) != len(batch) {
		t.Fatalf("%d alerts in the stream, want %d", len(messages), len(batch))
	}
	last := make(map[string]string)
	for _, m := range messages[20:] {
		key, id := m.Header.Get("ce-subject"), m.Header.Get("ce-id")
		if id <= last[key] {
			t.Errorf("of %s, %s comes after %s", key, id, last[key])
		}
		last[key] = id
	}
}

func TestOlderStreamIsUpdatedForBatches(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	js := bustest.JetStream(t, s.ClientURL())
	makeStream(t, js, jetstream.StreamConfig{Name: bus.AlertsStream, Subjects: []string{"deadman.alerts.>"}, MaxAge: time.Hour})
	b := connect(t, s)
	publishAlerts(t, b, someAlerts(10))
	if sizes, alone := batchesOf(storedMessages(t, js)); !slices.Equal(sizes, []int{10}) || alone != 0 {
		t.Errorf("in batches of %v, and %d alone", sizes, alone)
	}
	stream, err := js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo().Config; got.MaxAge != time.Hour || got.Discard != jetstream.DiscardOld {
		t.Errorf("what an operator set was undone: %+v", got)
	}
}

// TestStreamWithoutBatches checks publishing after an operator has disabled batches.
func TestStreamWithoutBatches(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	js := bustest.JetStream(t, s.ClientURL())
	setAlerts(t, js, func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false })
	batch := someAlerts(600)
	publishAlerts(t, b, batch)
	if sizes, alone := batchesOf(storedMessages(t, js)); len(sizes) != 0 || alone != len(batch) {
		t.Errorf("in batches of %v, and %d alone", sizes, alone)
	}
	if diff := cmp.Diff(batch, follow(t, b, len(batch), len(batch))); diff != "" {
		t.Error(diff)
	}
}

// setAlerts changes the stream of alerts as an operator does.
func setAlerts(t *testing.T, js jetstream.JetStream, change func(*jetstream.StreamConfig)) {
	t.Helper()
	s, err := js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	change(&cfg)
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}
