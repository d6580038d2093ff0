package futurejobs_test

import (
	"testing"
	"testing/synctest"
	"time"

	futurejobs "deadman/future_jobs"
)

// TestLoads: decisions are counted in the minute of their slot, however late they were.
func TestLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 90s, step: primary}, {after: 10m, step: escalated}]
slot: 10s
`)
		begin := time.Now().UTC()
		e.publish("orders.created", "1", "2", "3")
		time.Sleep(2 * time.Minute) // the stream is not read, so that no job is checked
		e.applyEvents()
		time.Sleep(time.Minute)
		all := e.sweeper.Loads().Take()
		if len(all) != 1 {
			t.Fatalf("%+v, want one minute", all)
		}
		got := all[0]
		if !got.At.Equal(begin.Add(90*time.Second).Truncate(time.Minute)) || got.RuleID == 0 || got.Checks != 3 || got.Alerts != 3 {
			t.Errorf("%+v", got)
		}
		if got.MaxLateness < 30*time.Second || got.MaxLateness > 32*time.Second {
			t.Errorf("the latest was %s late, want 30 s", got.MaxLateness)
		}
		if again := e.sweeper.Loads().Take(); len(again) != 0 {
			t.Errorf("taken twice: %+v", again)
		}
		e.sweeper.Loads().PutBack([]futurejobs.SlotLoad{got})
		if again := e.sweeper.Loads().Take(); len(again) != 1 || again[0] != got {
			t.Errorf("put back: %+v", again)
		}
	})
}
