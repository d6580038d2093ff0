package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/testwait"
	"deadman/web"
)

// TestRepublish checks that consumers get the alerts again, once, after the stream was lost.
func TestRepublish(t *testing.T) {
	t.Parallel()
	n := startNode(t, quickRule)
	runJSON[web.PublishResult](t, n, "event", "send", "orders.created", `{"id": "1", "placed_at": "2020-01-01T00:00:00Z"}`)
	testwait.Until(t, "the alert is published", func() bool {
		raised := runJSON[web.Page[web.Alert]](t, n, "alert", "list").Items
		return len(raised) == 1 && raised[0].Published
	})
	js := connectJetStream(t, n)
	inStream := func() uint64 {
		s, err := js.Stream(t.Context(), "DEADMAN_ALERTS")
		if err != nil {
			return 0 // it is not recreated yet
		}
		return s.CachedInfo().State.Msgs
	}
	if err := js.DeleteStream(t.Context(), "DEADMAN_ALERTS"); err != nil {
		t.Fatal(err)
	}
	if got := n.run(t, "alert", "republish", "--since", "24h", "--dry-run"); got.code != 0 || got.out != "would be queued: 1 alert; nodes publish those that the stream does not contain\n" {
		t.Errorf("%+v", got)
	}
	if got := n.run(t, "alert", "republish", "--since", "24h", "--rule", "order-unshipped"); got.code != 0 || got.out != "queued: 1 alert; nodes publish those that the stream does not contain\n" {
		t.Errorf("%+v", got)
	}
	testwait.Until(t, "it is in the stream again", func() bool { return inStream() >= 1 })
	for range 2 { // existing alerts are not published twice
		testwait.Until(t, "the alert is published again", func() bool { // one that waits for the relay is not counted
			return runJSON[web.RepublishResult](t, n, "alert", "republish", "--since", "1d", "--rule", "order-unshipped").Alerts == 1
		})
	}
	testwait.Until(t, "nothing waits", func() bool {
		return runJSON[web.Page[web.Alert]](t, n, "alert", "list", "--rule", "order-unshipped").Items[0].Published
	})
	s, err := js.Stream(t.Context(), "DEADMAN_ALERTS")
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter("deadman.alerts.order-unshipped.>"))
	if err != nil || len(info.State.Subjects) != 1 {
		t.Fatalf("in the stream are %v: %v", info.State.Subjects, err)
	}
	for subject, n := range info.State.Subjects {
		if n != 1 {
			t.Errorf("%s is in the stream %d times", subject, n)
		}
	}
	for want, args := range map[string][]string{
		"--since is required": {}, "invalid time": {"--since", "yesterday"}, "not found": {"--since", "1d", "--rule", "absent"},
	} {
		if got := n.run(t, append([]string{"alert", "republish"}, args...)...); got.code == 0 || !strings.Contains(got.err, want) {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// connectJetStream connects to a node's own broker.
func connectJetStream(t *testing.T, n *node) jetstream.JetStream {
	t.Helper()
	return bustest.JetStream(t, bustest.LogIn(t, n.dir, endpointsOf(t, n).NATS, bus.UserAdmin))
}
