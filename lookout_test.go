package deadman_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman"
	"deadman/bus"
	"deadman/store/storetest"
)

// streams connects to a broker as its operator does.
func streams(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// People hear that the stream of alerts is full while nothing gets into it, once however many
// nodes see it, and that it has room again.
func TestPeopleAreToldOfAFullStream(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	url := broker(t)
	fill(t, url, 100_000, 200)
	c := deadman.Config{
		DatabaseURL: storetest.Postgres(t), NATSURL: url,
		Notify: channelFile(t, "channels: {hook: {kind: webhook, url: "+r.URL+"}}\nroutes: [{to: hook, group_by: [step], group_wait: 0s}]\n"),
	}
	first := serve(t, c)
	second := serve(t, c)
	told := func() string { return strings.Join(r.of(), ", ") }
	second.eventually("it is said that it is full", func() bool { return len(r.of()) == 2 })
	if got := r.of(); !slices.Contains(got, "filling firing") || !slices.Contains(got, "full firing") {
		t.Errorf("people are told %s", told())
	}
	first.stop() // whoever takes over says nothing a second time
	if err := <-first.ended; err != nil {
		t.Fatal(err)
	}
	js := streams(t, url)
	s, err := js.Stream(t.Context(), bus.AlertsStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().Config.MaxBytes; n != 100_000 {
		t.Fatalf("the stream holds %d bytes", n)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxBytes = 10 << 20
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	second.eventually("it is said that there is room", func() bool { return len(r.of()) >= 4 })
	if got := r.of(); len(got) != 4 || !slices.Contains(got[2:], "filling resolved") || !slices.Contains(got[2:], "full resolved") {
		t.Errorf("people are told %s", told())
	}
}

// A stream that was deleted is not as it was, and that is said, also when nobody was there to see
// it.
func TestAStreamThatIsAnotherOneIsSaid(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	url := broker(t)
	c := deadman.Config{
		DataDir: t.TempDir(), NATSURL: url,
		Notify: channelFile(t, "channels: {hook: {kind: webhook, url: "+r.URL+"}}\nroutes: [{to: hook, group_wait: 0s}]\n"),
	}
	fill(t, url, 100_000, 125)
	n := serve(t, c)
	n.eventually("the node has seen the stream", func() bool { return strings.Join(r.of(), ", ") == "filling firing" })
	n.stop()
	if err := <-n.ended; err != nil {
		t.Fatal(err)
	}
	if err := streams(t, url).DeleteStream(t.Context(), bus.AlertsStream); err != nil {
		t.Fatal(err)
	}
	n = serve(t, c)
	n.eventually("it is said that there is room", func() bool { return slices.Contains(r.of(), "filling resolved") })
	n.eventually("it is said that it is another one", func() bool { return slices.Contains(r.of(), "blind firing") })
	if texts := r.said(); !strings.Contains(texts, "deadman alert republish --since") {
		t.Errorf("it says not what to do: %s", texts)
	}
}
