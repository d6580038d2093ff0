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
	watch(t, everyMinute, func(w *watched) {
		w.orders(2)
		w.pass(20 * time.Minute)
		saved, err := w.store.Named(w.Context(), "order-unshipped")
		w.must(err)
		isPutOff := true
		w.owner.Unreadable = func(context.Context) string {
			if !isPutOff {
				return ""
			}
			text, err := json.Marshal([]claim{{
				RuleID: saved[0].RuleID, Version: saved[0].Version, Rule: saved[0].Name, Severity: alerts.Error, Reason: reasonPutOff, PutOff: true,
			}})
			w.must(err)
			return string(text)
		}
		w.pass(10 * time.Second)
		w.silent("while nothing is due")
		w.exec(fmt.Sprintf(`UPDATE future_job SET next_check_at = %d`, time.Now().Add(-65*time.Second).UnixMicro()))
		w.pass(30 * time.Second)
		listed := w.said()
		if len(listed) != 1 || listed[0].Key != "rule/"+saved[0].Name || listed[0].Step != putOffStep || listed[0].Count != 2 || !strings.Contains(listed[0].Text, reasonPutOff) {
			t.Fatalf("said: %+v", listed)
		}
		if overdueJobs := w.overdueNow(); len(overdueJobs.parts) > 0 {
			t.Errorf("overdue: %+v", overdueJobs)
		}
		nodes, err := w.alarms.overdue.liveNodes(w.Context())
		w.must(err)
		if claims := unreadableOf(claimsOf(nodes)); len(nodes) != 1 || len(claims) != 0 {
			t.Errorf("unreadable: %+v", claims)
		}
		isPutOff = false
		w.pass(catchUp)
		w.pair("rule/" + saved[0].Name)
	})
}
