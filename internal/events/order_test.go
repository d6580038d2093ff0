package events_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
)

// doorRule is a rule whose triggers and resolves come from two streams.
type doorRule struct {
	name   string
	again  string // treatment of another trigger
	behind string // subject with a backlog: opened or closed
}

// rule returns the rule of the doors.
func (d doorRule) rule() string {
	return fmt.Sprintf(`
name: %[1]s
entity: door
trigger: {event: %[1]s.opened, key: event.id, if: event.id != "other"}
resolve: {event: %[1]s.closed, key: event.id}
escalate: [{after: 1h, step: primary}]
again: %[2]s
slot: 1s
`, d.name, d.again)
}

// stream returns the name of the stream of a subject.
func (d doorRule) stream(subject string) string { return d.name + "-" + subject }

// Triggers and resolves come from two streams, and one is far behind after a restart. A door that was opened, closed
// and opened again is open: the earlier resolve does not end the job of the second trigger.
func TestEndOfAnotherStreamLeavesJobAfterIt(t *testing.T) {
	t.Parallel()
	for _, backlog := range []int{0, 6000} {
		t.Run(fmt.Sprintf("behind by %d", backlog), func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, w *fixture) {
				var all []doorRule
				var text []string
				for _, again := range []string{"keep", "restart"} {
					for _, behind := range []string{"opened", "closed"} {
						d := doorRule{again + "-" + behind, again, behind}
						all, text = append(all, d), append(text, d.rule())
					}
				}
				js := w.js()
				for _, d := range all {
					for _, subject := range []string{"opened", "closed"} {
						if _, err := js.CreateStream(t.Context(), streamConfig(d.stream(subject), d.name+"."+subject)); err != nil {
							t.Fatal(err)
						}
					}
				}
				w.write(strings.Join(text, "---"))
				for _, d := range all {
					for range backlog {
						if _, err := js.PublishAsync(d.name+"."+d.behind, []byte(`{"id":"other"}`), jetstream.WithStallWait(time.Minute)); err != nil {
							t.Fatal(err)
						}
					}
				}
				<-js.PublishAsyncComplete()
				last := make(map[string]uint64)
				for i, subject := range []string{"opened", "closed", "opened"} {
					if i > 0 {
						<-time.After(2 * futurejobs.ClockSkew)
					}
					for _, d := range all {
						last[d.stream(subject)] = w.publish(d.name+"."+subject, `{"id":"front"}`)
					}
				}
				w.start()
				for stream, seq := range last {
					w.waitUntilCaughtUp(stream, seq)
				}
				for _, d := range all {
					w.checkOpen(d)
				}
			})
		})
	}
}

// checkOpen fails the test unless the rule has one pending job and at most one that ended.
func (w *fixture) checkOpen(d doorRule) {
	w.t.Helper()
	f := futurejobs.Filter{Rule: d.name, Limit: futurejobs.MaxLimit}
	pending, err := w.store.Jobs(w.t.Context(), f)
	if err != nil {
		w.t.Fatal(err)
	}
	ended, err := w.store.History(w.t.Context(), f)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(pending.Items) != 1 || len(ended.Items) > 1 {
		w.t.Errorf("%+v: the door is open, and %d jobs are pending, %d ended", d, len(pending.Items), len(ended.Items))
	}
}
