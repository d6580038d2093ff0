package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// costlyRule is a rule with a pattern that is too expensive for a long text.
const costlyRule = `
name: costly
entity: order
trigger: {event: orders.big, key: event.id, if: 'event.s matches "(x{0,30}y?){0,3}z"'}
escalate: [{after: 30m, severity: critical}]
`

// An expensive rule is paused and raises one alert, regardless of the node that finds it, until it is resumed.
func TestCostlyRuleIsPausedAndAlerted(t *testing.T) {
	runDetector(t, everyMinute, func(w *detectorFixture) {
		w.saveRule(costlyRule)
		w.failOn(w.catalog.Refresh(w.Context()))
		w.advance(time.Minute)
		w.checkNoAlerts("before anything came")
		body := fmt.Appendf(nil, `{"id": "1", "s": %q}`, strings.Repeat("x", 250_000))
		for i := range 5 {
			w.catalog.Match(futurejobs.Event{Stream: "S", Subject: "orders.big", Seq: w.seq + uint64(i) + 1, At: time.Now(), Data: body})
		}
		w.advance(2 * stallCheckInterval)
		paused, err := w.store.Named(w.Context(), "costly")
		w.failOn(err)
		if paused[0].PausedBy != rules.HaltedBy || paused[0].PausedAt.IsZero() {
			t.Errorf("it is not paused: %+v", paused[0])
		}
		listed := w.listAlerts()
		if len(listed) != 1 || listed[0].Key != "rule/costly" || listed[0].Step != costlyStep || listed[0].Status != alerts.Firing || listed[0].Severity != alerts.Critical {
			t.Fatalf("alerts: %+v", listed)
		}
		entries, _, err := w.store.Audit(w.Context(), access.AuditFilter{Object: "rule/costly", Action: "rule.pause"})
		if err != nil || len(entries) != 1 || entries[0].Actor.Name != access.NodeItself || entries[0].Detail == "" {
			t.Errorf("audited: %+v, %v", entries, err)
		}
		w.createJobs(1) // the other rule continues
		w.advance(5 * time.Minute)
		if listed := w.listAlerts(); len(listed) != 1 {
			t.Errorf("further alerts: %+v", listed)
		}
		w.failOn(w.store.Pause(w.Context(), "costly", false))
		w.advance(2 * stallCheckInterval)
		w.gapAlerts("rule/costly")
	})
}
