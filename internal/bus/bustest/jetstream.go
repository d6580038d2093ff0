package bustest

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// JetStream connects to a broker as somebody beside deadman does, until the test ends.
func JetStream(t testing.TB, url string, how ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, how...)
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
