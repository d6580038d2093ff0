package sources_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/checks/lookup"
)

// A lookup publishes no event: a stream that captures its subject rejects the request and stores nothing.
func TestLookupPublishesNoEvent(t *testing.T) {
	server := natsServer(t)
	conn := natsConn(t, server)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(shortContext(t), jetstream.StreamConfig{Name: "SHIPS", Subjects: []string{"ships.>"}})
	if err != nil {
		t.Fatal(err)
	}
	client := natsSource(t, conn)
	found, err := client.Query(shortContext(t), lookup.Question{NATS: true}, []lookup.KeyQuery{{Subject: "ships.77"}, {Subject: "ships.78"}})
	if err != nil {
		t.Fatal(err)
	}
	checkLinesOf(t, found, "a stream stores this subject", "a stream stores this subject")
	info, err := stream.Info(shortContext(t))
	if err != nil || info.State.Msgs != 0 {
		t.Errorf("the stream has %d messages, %v", info.State.Msgs, err)
	}
	for subject, ok := range map[string]bool{"ships.*": false, "*.77": false, "shop.*": true, "": true} {
		_, err := client.Verify(shortContext(t), lookup.Question{NATS: true, Subject: subject}, 0)
		if (err == nil) != ok || !ok && (!errors.Is(err, lookup.ErrQuestion) || !strings.Contains(err.Error(), "SHIPS")) {
			t.Errorf("%q is verified: %v", subject, err)
		}
	}
	service(t, conn, "shop.*", func(m *nats.Msg) { respond(t, m, `{"stream":"a river","error":{"err_code":7}}`) })
	found, err = client.Query(shortContext(t), lookup.Question{NATS: true}, []lookup.KeyQuery{{Subject: "shop.1"}})
	if err != nil {
		t.Fatal(err)
	}
	checkLinesOf(t, found, `{"stream":"a river","error":{"err_code":7}}`)
}
