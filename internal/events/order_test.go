package events_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
)

// Triggers and resolves come from two streams, and one is far behind after a restart. A door that was opened, closed
// and opened again is open: the earlier resolve does not end the job of the second trigger.
func TestAnEndOfAnotherStreamLeavesTheJobAfterIt(t *testing.T) {
	for _, again := range []string{"keep", "restart"} {
		for _, behind := range []string{"OPENED", "CLOSED"} {
			for _, backlog := range []int{0, 6000} {
				t.Run(fmt.Sprintf("%s/behind %s by %d", again, behind, backlog), func(t *testing.T) {
					onBoth(t, func(t *testing.T, w *world) {
						js := w.js()
						for name, subject := range map[string]string{"OPENED": "door.opened", "CLOSED": "door.closed"} {
							if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
								t.Fatal(err)
							}
						}
						text := fmt.Sprintf(`
name: door-open
entity: door
trigger: {event: door.opened, key: event.id, if: event.id != "other"}
resolve: {event: door.closed, key: event.id}
escalate: [{after: 1h, step: primary}]
again: %s
slot: 1s
`, again)
						if err := os.WriteFile(filepath.Join(w.rules, "door.yaml"), []byte(text), 0o600); err != nil {
							t.Fatal(err)
						}
						if report, err := w.registry().ApplyDir(t.Context(), w.rules); err != nil || len(report.Problems) > 0 {
							t.Fatal(err, report.Problems)
						}
						subject := map[string]string{"OPENED": "door.opened", "CLOSED": "door.closed"}[behind]
						for range backlog {
							if _, err := js.PublishAsync(subject, []byte(`{"id":"other"}`), jetstream.WithStallWait(time.Minute)); err != nil {
								t.Fatal(err)
							}
						}
						<-js.PublishAsyncComplete()
						last := map[string]uint64{}
						for _, subject := range []string{"opened", "closed", "opened"} {
							last[subject] = w.publish("door."+subject, `{"id":"front"}`)
							<-time.After(2 * futurejobs.ClockSkew)
						}
						w.start()
						w.caughtUp("OPENED", last["opened"])
						w.caughtUp("CLOSED", last["closed"])
						if pending, ended := w.jobs(); pending != 1 || ended > 1 {
							t.Errorf("the door is open, and %d jobs are pending, %d ended", pending, ended)
						}
					})
				})
			}
		}
	}
}
