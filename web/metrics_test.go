package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	"deadman/internal/events"
	"deadman/internal/pings"
	"deadman/web"
)

func scrape(t *testing.T, m *web.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("a scrape comes to %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func checkMetrics(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no line %s", line)
		}
	}
}

func TestMetrics(t *testing.T) {
	m := web.NewMetrics("v1.2.3", func(context.Context) (web.Gauges, error) {
		return web.Gauges{
			Pending: 5, Due: 4, Unpublished: 3, AlertsFilled: 0.25, ShardsHeld: 16, SweepLag: 1500 * time.Millisecond,
			IntakeLag: map[web.StreamLine]time.Duration{{Name: "ORDERS", Line: web.LineOperator}: 2 * time.Second},
			OldestRow: map[string]time.Duration{"history": time.Hour},
			Refused:   map[string]uint64{"login": 3, "permission": 0}, Foreign: 2,
		}, nil
	})
	m.Checked("r", "exhausted", 3*time.Millisecond)
	m.Checked("r", "waiting", 5*time.Millisecond)
	m.Settled(30 * time.Millisecond)
	m.Settled(2 * time.Second)
	m.Alerted(alerts.Alert{Rule: "r", Detail: alerts.Detail{Draft: alerts.Draft{Severity: alerts.Critical}}})
	m.Ingested("started", 7)
	m.CountHeartbeat("http", "sent")
	for _, err := range []error{nil, nil, pings.ErrUnknown, context.Canceled, pings.ErrBusy} {
		m.Pinged(err)
	}
	m.Ingested(events.DeadLetter, 2)
	m.Summarized(1)
	m.Refused("login")
	text := scrape(t, m)
	checkMetrics(t, text,
		`deadman_checks_total{outcome="exhausted",rule="r"} 1`, `deadman_checks_total{outcome="waiting",rule="r"} 1`,
		`deadman_decision_delay_seconds_bucket{le="0.04"} 1`, `deadman_decision_delay_seconds_sum 2.03`,
		`deadman_check_duration_seconds_count 2`, `deadman_check_duration_seconds_sum 0.008`,
		`deadman_alerts_total{rule="r",severity="critical"} 1`, `deadman_events_total{outcome="started"} 7`,
		`deadman_refused_tokens_total{kind="login"} 1`, `deadman_heartbeats_total{outcome="sent",target="http"} 1`, `deadman_dead_letters_total 2`, `deadman_dead_letters_summarized_total 1`,
		`deadman_pings_total{outcome="accepted"} 2`, `deadman_pings_total{outcome="refused"} 2`, `deadman_pings_total{outcome="failed"} 1`, `deadman_jobs_pending 5`, `deadman_jobs_due 4`, `deadman_alerts_unpublished 3`,
		`deadman_alerts_stream_filled_ratio 0.25`, `deadman_shards_held 16`, `deadman_sweep_lag_seconds 1.5`, `deadman_ingest_lag_seconds{line="operator",stream="ORDERS"} 2`,
		`deadman_oldest_row_seconds{table="history"} 3600`, `deadman_gauges_failed 0`,
		`deadman_nats_refused_total{kind="login"} 3`, `deadman_nats_refused_total{kind="permission"} 0`, `deadman_alerts_foreign_total 2`)
	for _, part := range []string{`deadman_build_info{go_version="go`, `version="v1.2.3"} 1`, "\ngo_goroutines ", "\nprocess_cpu_seconds_total "} {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %s", part)
		}
	}
}

// TestFailedGauges checks that unreadable gauges are left out and reported as failed, since an old value would pass
// for a new one.
func TestFailedGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests, broken := 0, false
		m := web.NewMetrics("v", func(context.Context) (web.Gauges, error) {
			requests++
			if broken {
				return web.Gauges{}, errors.New("the database is away")
			}
			return web.Gauges{Pending: int64(requests)}, nil
		})
		checkMetrics(t, scrape(t, m), "deadman_jobs_pending 1", "deadman_gauges_failed 0")
		time.Sleep(9 * time.Second)
		checkMetrics(t, scrape(t, m), "deadman_jobs_pending 1")
		broken = true
		time.Sleep(2 * time.Second)
		text := scrape(t, m)
		checkMetrics(t, text, "deadman_gauges_failed 1")
		if strings.Contains(text, "deadman_jobs_pending") {
			t.Error("an old number is shown")
		}
		broken = false
		time.Sleep(11 * time.Second)
		checkMetrics(t, scrape(t, m), "deadman_jobs_pending 3", "deadman_gauges_failed 0")
	})
}

// TestConditionMetrics checks that each condition is a gauge, also while the database is away, and that several scrapes
// within ten seconds check them once.
func TestConditionMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks, away := 0, false
		m := web.NewMetrics("v", func(context.Context) (web.Gauges, error) { return web.Gauges{}, errors.New("the database is away") })
		m.WatchConditions(func(context.Context) []web.Condition {
			checks++
			return []web.Condition{{Name: "database", OK: !away}, {Name: "nats", OK: true}, {Name: "heartbeat"}, {Name: "heartbeat", OK: true}}
		})
		for range 2 {
			checkMetrics(t, scrape(t, m), `deadman_condition_failed{condition="database"} 0`, `deadman_condition_failed{condition="nats"} 0`, `deadman_condition_failed{condition="heartbeat"} 1`)
		}
		away = true
		time.Sleep(11 * time.Second)
		checkMetrics(t, scrape(t, m), `deadman_condition_failed{condition="database"} 1`, `deadman_condition_failed{condition="nats"} 0`, "deadman_gauges_failed 1")
		if checks != 2 {
			t.Errorf("the conditions were checked %d times in three scrapes, want 2", checks)
		}
	})
}

// TestCountersOfDeletedRulesAreRemoved checks that rules under ever new names take no memory for good, and that the
// counters of existing rules and of the node's own alerts stay.
func TestCountersOfDeletedRulesAreRemoved(t *testing.T) {
	m := web.NewMetrics("v1", func(context.Context) (web.Gauges, error) { return web.Gauges{}, nil })
	m.ForgetDeleted(func(rule string) bool { return rule == "kept" })
	alerted := func(rule string) {
		m.Alerted(alerts.Alert{Rule: rule, Detail: alerts.Detail{Draft: alerts.Draft{Severity: alerts.Warning}}})
	}
	m.Checked("kept", "waiting", 0)
	alerted(alerts.SystemRule)
	for i := range 20_000 {
		rule := fmt.Sprintf("acme-%d", i)
		m.Checked(rule, "waiting", 0)
		m.Checked(rule, "exhausted", 0)
		alerted(rule)
		m.Ticked(rule, "started", 1)
	}
	m.Checked("kept", "waiting", 0)
	text := scrape(t, m)
	checkMetrics(t, text, `deadman_checks_total{outcome="waiting",rule="kept"} 2`, `deadman_alerts_total{rule="deadman",severity="warning"} 1`,
		`deadman_ticks_total{outcome="started",rule="acme-19999"} 1`)
	if n := strings.Count(text, `rule="acme-`); n > 4*1024 {
		t.Errorf("%d counters of deleted rules are kept", n)
	}
}
