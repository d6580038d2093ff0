package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/testwait"
)

// TestOnlyRequestsAreAnswered checks that messages other than client requests are dropped, because they may be
// JetStream replies to a client that named the subject as its inbox. On an embedded server no answer goes to a
// subject of events, and on any server none to a subject of deadman or the broker.
func TestOnlyRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	for name, inProcess := range map[string]bool{"in the process": true, "elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, bustest.Dir(t))
			b := connectURL(t, s.ClientURL())
			if inProcess {
				b = connect(t, s)
			}
			ctx, cancel := context.WithCancel(t.Context())
			requested, ended := make(chan string, 100), make(chan error, 1)
			go func() {
				ended <- b.Messages.Respond(ctx, "deadman.acks.*", "deadman", func(_ context.Context, subject string, _ []byte) bus.Reply {
					requested <- subject
					return bus.Reply{Data: []byte("yes")}
				})
			}()
			defer func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			nc, err := nats.Connect(s.ClientURL())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			testwait.Until(t, "requests are answered", func() bool { _, err := nc.Request("deadman.acks.ready", nil, time.Second); return err == nil })
			for len(requested) > 0 {
				<-requested
			}
			for subject, of := range map[string]*nats.Msg{
				"no-reply": {}, "status": {Reply: "_INBOX.x", Header: nats.Header{"Status": {"404"}}}, "alert": {Reply: "deadman.alerts.a.b"},
				"ack": {Reply: "deadman.acks.other"}, "namespace": {Reply: "deadman-x.acks.other"}, "api": {Reply: "$JS.API.STREAM.PURGE.DEADMAN_ALERTS"}, "event": {Reply: "orders.created"},
			} {
				of.Subject = "deadman.acks." + subject
				if err := nc.PublishMsg(of); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := nc.Request("deadman.acks.last", nil, 10*time.Second); err != nil {
				t.Fatal(err)
			}
			done := make(map[string]bool)
			for len(requested) > 0 {
				done[<-requested] = true
			}
			// On an external server, its operator decides about the subjects of events.
			if !done["deadman.acks.last"] || done["deadman.acks.event"] == inProcess || len(done) > 2 || inProcess && len(done) != 1 {
				t.Errorf("done: %v", done)
			}
		})
	}
}
