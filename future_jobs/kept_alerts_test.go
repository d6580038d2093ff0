package futurejobs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store/storetest"
)

// keptBytes returns the bytes of kept alerts that the only quota counts.
func keptBytes(t *testing.T, q *access.Quotas) int64 {
	t.Helper()
	for _, l := range q.Uses("")[0].Use {
		if l.Limited == access.LimitKeptAlertBytes {
			return l.Used
		}
	}
	t.Fatal("no quota limits the bytes of kept alerts")
	return 0
}

// The alert of a decision that the database drops is not counted, and that of a stored decision is counted once.
func TestOnlyStoredAlertsOfChecksAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q access.Quotas
		q.Set([]access.Quota{{Prefix: "slow"}}, 0)
		e := runWithin(t, storetest.DataDir(t), &q, slowlyExhausted(), withResolve)
		e.resolveDuringCheck("1")
		if n := len(e.ended()); n != 1 || keptBytes(t, &q) != 0 {
			t.Errorf("%d jobs ended, and %d bytes of alerts are counted, want a job and no alert", n, keptBytes(t, &q))
		}
		e.publish("slow.created", "2")
		time.Sleep(10 * time.Second)
		e.applyEvents()
		time.Sleep(10 * time.Second)
		raised, err := e.store.Alerts(t.Context(), futurejobs.Filter{})
		if err != nil || len(raised.Items) != 1 {
			t.Fatalf("%d alerts, want one: %v", len(raised.Items), err)
		}
		if size := raised.Items[0].StreamSize(); keptBytes(t, &q) != size {
			t.Errorf("%d bytes are counted, want %d", keptBytes(t, &q), size)
		}
	})
}

// The alerts of events that are not applied are not counted.
func TestReleaseReturnsBytesOfAlerts(t *testing.T) {
	var q access.Quotas
	q.Set([]access.Quota{{Prefix: "order-"}}, 0)
	rule := &futurejobs.Rule{ID: 1, Version: 1, Name: "order-late", Entity: "order"}
	rule.Closing = func(_ futurejobs.Job, text string) alerts.Draft {
		return alerts.Draft{Status: alerts.Resolved, Text: text}
	}
	ref := futurejobs.Ref{RuleID: 1, Key: "a"}
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	job := futurejobs.Job{ID: 1, Ref: ref, Version: 1, CreatedAt: at, Since: at, Alerts: []alerts.ID{{1}}}
	net := futurejobs.FoldWithin(futurejobs.Bounds{Quotas: &q}, []futurejobs.Effect{futurejobs.Cancel(rule, ref, "ada")},
		futurejobs.FoldInput{Pending: map[futurejobs.Ref]futurejobs.Job{ref: job}}, at)
	if len(net.End) != 1 || len(net.End[0].Alerts) != 1 || keptBytes(t, &q) == 0 {
		t.Fatalf("%d jobs end, and %d bytes are counted", len(net.End), keptBytes(t, &q))
	}
	if net.Release(); keptBytes(t, &q) != 0 {
		t.Errorf("%d bytes are counted after the release", keptBytes(t, &q))
	}
}
