package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// A full stream of alerts raises one notification, regardless of the number of nodes and although it accepts no
// alerts, and another once it has capacity again.
func TestNotificationsOfFullStream(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	url := startNATS(t)
	fillStream(t, url, 100_000, 200)
	c := server.Config{
		DatabaseURL: storetest.Postgres(t), NATSURL: url,
		Notify: channelFile(t, "channels: {hook: {kind: webhook, url: "+r.URL+"}}\nroutes: [{to: hook, group_by: [step], group_wait: 0s}]\n"),
	}
	first := startReadyNode(t, c)
	second := startReadyNode(t, c)
	reported := func() string { return strings.Join(r.stepList(), ", ") }
	second.eventually("an alert that it is full", func() bool { return reported() == "full firing" })
	first.stop() // the next node repeats nothing
	if err := <-first.ended; err != nil {
		t.Fatal(err)
	}
	js := bustest.JetStream(t, url)
	s, err := js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().Config.MaxBytes; n != 100_000 {
		t.Fatalf("the stream holds %d bytes", n)
	}
	cfg := s.CachedInfo().Config
	holds := func(bytes int64) {
		t.Helper()
		cfg.MaxBytes = bytes
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	holds(120_000)
	second.eventually("the alert fires again", func() bool { return len(r.stepList()) == 3 })
	holds(10 << 20)
	second.eventually("the alert is resolved", func() bool { return len(r.stepList()) == 4 })
	got := r.stepList()
	if slices.Sort(got[1:3]); !slices.Equal(got, []string{"full firing", "filling firing", "full resolved", "filling resolved"}) {
		t.Errorf("notified: %s", reported())
	}
}

// The stream of events raises a notification when it fills up, and when it has capacity again.
func TestNotificationsOfFillingEventStream(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	url := startNATS(t)
	c := server.Config{
		DataDir: bustest.Dir(t), NATSURL: url, EventsBytes: 1 << 20, Rules: ruleFolder(t, map[string]string{"order.yaml": orderRule}),
		Notify: channelFile(t, "channels: {hook: {kind: webhook, url: "+r.URL+"}}\nroutes: [{to: hook, group_wait: 0s}]\n"),
	}
	n := startReadyNode(t, c)
	js := bustest.JetStream(t, url)
	for i := range 11 {
		if _, err := js.Publish(t.Context(), "orders.shipped", fmt.Appendf(nil, `{"id": "%d"%90000s}`, i, "")); err != nil {
			t.Fatal(err)
		}
	}
	n.eventually("the alert fires", func() bool { return strings.Join(r.stepList(), ", ") == "filling firing" })
	if texts := r.textList(); !strings.Contains(texts, "the stream DEADMAN_EVENTS is over 80 % full") || !strings.Contains(texts, "max_bytes") {
		t.Errorf("the text is %s", texts)
	}
	s, err := js.Stream(t.Context(), bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.eventually("the alert is resolved", func() bool { return slices.Contains(r.stepList(), "filling resolved") })
}

// A recreated stream raises an alert, even if no node was running at the time.
func TestRecreatedAlertsStreamIsAlerted(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	url := startNATS(t)
	c := server.Config{
		DataDir: bustest.Dir(t), NATSURL: url,
		Notify: channelFile(t, "channels: {hook: {kind: webhook, url: "+r.URL+"}}\nroutes: [{to: hook, group_wait: 0s}]\n"),
	}
	fillStream(t, url, 100_000, 125)
	n := startReadyNode(t, c)
	n.eventually("the node has seen the stream", func() bool { return strings.Join(r.stepList(), ", ") == "filling firing" })
	n.stop()
	if err := <-n.ended; err != nil {
		t.Fatal(err)
	}
	if err := bustest.JetStream(t, url).DeleteStream(t.Context(), bus.AlertsStream); err != nil {
		t.Fatal(err)
	}
	n = startReadyNode(t, c)
	n.eventually("the alert is resolved", func() bool { return slices.Contains(r.stepList(), "filling resolved") })
	n.eventually("the new stream is alerted as recreated", func() bool { return slices.Contains(r.stepList(), "recreated firing") })
	if texts := r.textList(); !strings.Contains(texts, "deadman alert republish --since") {
		t.Errorf("the text has no remedy: %s", texts)
	}
}
