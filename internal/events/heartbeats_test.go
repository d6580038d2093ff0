package events_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/testwait"
	"deadman/rules"
)

// checkSilent creates a rule with devices that all sent heartbeats in the slot of one day, two days ago.
func (w *fixture) checkSilent(devices int) {
	w.t.Helper()
	text := `
name: device-silent
entity: device
trigger: {heartbeat: {event: devices.beat, key: event.id, every: 10m}}
slot: 1d
`
	if err := os.WriteFile(filepath.Join(w.rules, "device.yaml"), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if report, err := w.registry().ApplyDir(w.t.Context(), w.rules); err != nil || len(report.Problems) > 0 {
		w.t.Fatal(err, report.Problems)
	}
	catalog := rules.NewCatalog(w.store, w.store.Shards())
	if err := catalog.Refresh(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	rule, err := catalog.Newest("device-silent")
	if err != nil {
		w.t.Fatal(err)
	}
	b := futurejobs.EffectBatch{RuleSet: catalog.Revision()}
	for i := range devices {
		effect, err := rule.Start(fmt.Sprint(i), time.Now().Add(-48*time.Hour), time.Now(), nil, w.store.Shards())
		if err != nil {
			w.t.Fatal(err)
		}
		b.Effects = append(b.Effects, effect)
	}
	if applied, err := w.store.Apply(w.t.Context(), b); err != nil || applied.Created != devices {
		w.t.Fatal(applied, err)
	}
}

// Each write of a job creates a revision. Ten heartbeats in one slot create one.
func TestHeartbeatsOfSlotAreOneWrite(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		const devices, each = 250, 10
		w.checkSilent(devices)
		js := w.js()
		for i := range devices * each {
			if _, err := js.PublishAsync("devices.beat", fmt.Appendf(nil, `{"id":%d}`, i%devices), jetstream.WithStallWait(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		n := w.start()
		testwait.Until(t, "all beats are counted", func() bool {
			return n.counts.count(events.Postponed)+n.counts.count(events.Coalesced) == devices*each
		})
		writes, f := 0, futurejobs.Filter{Limit: futurejobs.MaxLimit}
		for {
			page, err := w.store.Jobs(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range page.Items {
				writes += int(j.Rev)
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
		}
		if writes != devices {
			t.Errorf("%d beats for %d devices were %d writes, want one a device", devices*each, devices, writes)
		}
	})
}
