package events_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A backlog of small updates of one entity with a large state is applied: its duration does not grow with the size of
// the state. It took 22 s of one write transaction on SQLite, and did not end on Postgres.
func TestBacklogOfUpdatesOfLargeStateIsApplied(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		js := w.js()
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"order.>"}}); err != nil {
			t.Fatal(err)
		}
		text := `
name: order-unshipped
entity: order
trigger: {event: order.created, key: event.id}
update: {event: order.changed, key: event.id}
resolve: {event: order.shipped, key: event.id}
escalate: [{after: 1h, step: primary}]
slot: 1s
`
		if err := os.WriteFile(filepath.Join(w.rules, "order.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := w.registry().ApplyDir(t.Context(), w.rules)
		if err != nil || len(report.Problems) > 0 {
			t.Fatal(err, report.Problems)
		}
		n := w.start()
		var large strings.Builder
		large.WriteString(`{"id":"hot"`)
		for i := 0; large.Len() < 240<<10; i++ {
			fmt.Fprintf(&large, `,"line_%d":{"sku":"A-%d","qty":%d}`, i, i, i%7)
		}
		large.WriteString(`}`)
		w.waitUntilCaughtUp("ORDERS", w.publish("order.created", large.String()))
		n.stop()
		for i := range 4000 {
			if _, err := js.PublishAsync("order.changed", fmt.Appendf(nil, `{"id":"hot","seen":%d}`, i), jetstream.WithStallWait(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		<-js.PublishAsyncComplete()
		last := w.publish("order.created", `{"id":"another"}`)
		w.start()
		w.waitUntilCaughtUp("ORDERS", last)
		job, err := w.store.Job(t.Context(), "order-unshipped", "hot")
		if err != nil || !strings.Contains(string(job.State), `"seen":3999`) || !strings.Contains(string(job.State), `"line_1":`) {
			t.Errorf("of the updates the job knows %.40s…, %v", job.State, err)
		}
	})
}
