package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
)

// Overdue jobs whose checks a node puts off raise an alert of their rule, until none is put off any more. They count
// neither as overdue jobs of the nodes nor as an unreadable rule.
func TestPostponedChecksAreAlerted(t *testing.T) {
	runDetector(t, everyMinute, func(w *detectorFixture) {
		w.createJobs(2)
		w.advance(20 * time.Minute)
		saved, err := w.store.Named(w.Context(), "order-unshipped")
		w.failOn(err)
		isPutOff := true
		w.owner.Unreadable = func(context.Context) string {
			if !isPutOff {
				return ""
			}
			text, err := json.Marshal([]claim{{
				RuleID: saved[0].RuleID, Version: saved[0].Version, Rule: saved[0].Name, Severity: alerts.Error, Reason: reasonPutOff, PutOff: true,
			}})
			w.failOn(err)
			return string(text)
		}
		w.advance(10 * time.Second)
		w.checkNoAlerts("while nothing is due")
		w.exec(fmt.Sprintf(`UPDATE future_job SET next_check_at = %d`, time.Now().Add(-65*time.Second).UnixMicro()))
		w.advance(30 * time.Second)
		listed := w.listAlerts()
		if len(listed) != 1 || listed[0].Key != "rule/"+saved[0].Name || listed[0].Step != putOffStep || listed[0].Count != 2 || !strings.Contains(listed[0].Text, reasonPutOff) {
			t.Fatalf("alerts: %+v", listed)
		}
		if overdueJobs := w.overdueJobs(); len(overdueJobs.parts) > 0 {
			t.Errorf("overdue: %+v", overdueJobs)
		}
		nodes, err := w.alarms.overdue.liveNodes(w.Context())
		w.failOn(err)
		if claims := unreadableOf(claimsOf(nodes)); len(nodes) != 1 || len(claims) != 0 {
			t.Errorf("unreadable: %+v", claims)
		}
		isPutOff = false
		w.advance(catchUp)
		w.gapAlerts("rule/" + saved[0].Name)
	})
}
