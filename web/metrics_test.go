package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/pings"
	"deadman/internal/testwait"
	"deadman/web"
)

// emptyMetrics returns the metrics of a node that has done nothing.
func emptyMetrics() *web.Metrics {
	return web.NewMetrics("test", func(context.Context) (web.ClusterGauges, error) { return web.ClusterGauges{}, nil }, noNodeGauges)
}

func noNodeGauges() web.NodeGauges { return web.NodeGauges{} }

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
	m := web.NewMetrics("v1.2.3", func(context.Context) (web.ClusterGauges, error) {
		return web.ClusterGauges{
			Pending: 5, Due: 4, Unpublished: 3, AlertsFilled: 0.25, SweepLag: 1500 * time.Millisecond, Outages: 2,
			OldestRow: map[string]time.Duration{"history": time.Hour},
			Channels:  []alerts.ChannelState{{Name: "chat", Waiting: 6, FailingSince: time.Now()}, {Name: "mail"}},
		}, nil
	}, func() web.NodeGauges {
		return web.NodeGauges{
			Shards: 64, ShardsHeld: 16, LeasesLost: 7, Fit: true, Reconnects: 8,
			IntakeLag: map[web.StreamLine]time.Duration{{Name: "ORDERS", Line: web.LineOperator}: 2 * time.Second},
			Pools:     []web.ConnectionPool{{Name: "postgres", InUse: 3, Idle: 1, Max: 10, Waits: 9, Waited: 90 * time.Millisecond}},
			Refused:   map[string]uint64{"login": 3, "permission": 0}, Foreign: 2,
		}
	})
	m.Checked("r", futurejobs.CheckHandler, "exhausted", 3*time.Millisecond)
	m.Checked("r", futurejobs.CheckHandler, "waiting", 5*time.Millisecond)
	m.SettleTried(time.Second, nil)
	for _, err := range []error{futurejobs.ErrRulesChanged, futurejobs.ErrTooSlow, futurejobs.ErrRefused, futurejobs.ErrRefused, context.Canceled} {
		m.SettleTried(0, fmt.Errorf("settle: %w", err))
	}
	m.CountNotifications("chat", "failed", 2)
	m.CountGivenUp("chat", 3)
	m.Settled(30*time.Millisecond, "")
	m.Settled(2*time.Second, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
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
		`deadman_check_duration_seconds_count{kind="handler"} 2`, `deadman_check_duration_seconds_sum{kind="handler"} 0.008`, `deadman_check_duration_seconds_count{kind="rule"} 0`,
		`deadman_settle_duration_seconds_count 6`, `deadman_settle_duration_seconds_sum 1`, `deadman_settle_errors_total{reason="too_slow"} 1`,
		`deadman_settle_errors_total{reason="refused"} 2`, `deadman_settle_errors_total{reason="failed"} 1`,
		`deadman_notifications_total{channel="chat",outcome="failed"} 2`, `deadman_notifications_given_up_total{channel="chat"} 3`, `deadman_notifications_pending{channel="chat"} 6`,
		`deadman_channel_failing{channel="chat"} 1`, `deadman_channel_failing{channel="mail"} 0`,
		`deadman_shards 64`, `deadman_leases_lost_total 7`, `deadman_node_fit 1`, `deadman_nats_reconnects_total 8`, `deadman_outages_open 2`,
		`deadman_database_connections{pool="postgres",state="in_use"} 3`, `deadman_database_connections{pool="postgres",state="idle"} 1`,
		`deadman_database_connections_max{pool="postgres"} 10`, `deadman_database_connection_waits_total{pool="postgres"} 9`,
		`deadman_database_connection_wait_seconds_total{pool="postgres"} 0.09`,
		`deadman_alerts_total{rule="r",severity="critical"} 1`, `deadman_events_total{outcome="started"} 7`,
		`deadman_refused_tokens_total{kind="login"} 1`, `deadman_heartbeats_total{outcome="sent",target="http"} 1`, `deadman_heartbeats_total{outcome="withheld",target="http"} 0`, `deadman_dead_letters_total 2`, `deadman_dead_letters_summarized_total 1`,
		`deadman_pings_total{outcome="accepted"} 2`, `deadman_pings_total{outcome="refused"} 2`, `deadman_pings_total{outcome="failed"} 1`, `deadman_jobs_pending 5`, `deadman_jobs_due 4`, `deadman_alerts_unpublished 3`,
		`deadman_alerts_stream_filled_ratio 0.25`, `deadman_shards_held 16`, `deadman_sweep_lag_seconds 1.5`, `deadman_ingest_lag_seconds{line="operator",stream="ORDERS"} 2`,
		`deadman_oldest_row_age_seconds{table="history"} 3600`, `deadman_scrape_error 0`,
		`deadman_nats_refused_total{kind="login"} 3`, `deadman_nats_refused_total{kind="permission"} 0`, `deadman_alerts_foreign_total 2`)
	for _, part := range []string{`deadman_build_info{go_version="go`, `version="v1.2.3"} 1`, "\ngo_goroutines ", "\nprocess_cpu_seconds_total "} {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %s", part)
		}
	}
}

// TestFailedGauges checks that unreadable gauges are left out and reported as failed, since an old value would pass
// for a new one. Those of the node need no database, and stay.
func TestFailedGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests, broken := 0, false
		m := web.NewMetrics("v", func(context.Context) (web.ClusterGauges, error) {
			requests++
			if broken {
				return web.ClusterGauges{}, errors.New("the database is away")
			}
			return web.ClusterGauges{Pending: int64(requests)}, nil
		}, func() web.NodeGauges { return web.NodeGauges{ShardsHeld: 4} })
		checkMetrics(t, scrape(t, m), "deadman_jobs_pending 1", "deadman_scrape_error 0")
		time.Sleep(9 * time.Second)
		checkMetrics(t, scrape(t, m), "deadman_jobs_pending 1")
		broken = true
		time.Sleep(2 * time.Second)
		text := scrape(t, m)
		checkMetrics(t, text, "deadman_scrape_error 1", "deadman_shards_held 4")
		if strings.Contains(text, "deadman_jobs_pending") {
			t.Error("an old number is shown")
		}
		broken = false
		time.Sleep(11 * time.Second)
		checkMetrics(t, scrape(t, m), "deadman_jobs_pending 3", "deadman_scrape_error 0")
	})
}

// TestConditionMetrics checks that each condition is a gauge, also while the database is away, and that several scrapes
// within ten seconds check them once.
func TestConditionMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks, away := 0, false
		m := web.NewMetrics("v", func(context.Context) (web.ClusterGauges, error) {
			return web.ClusterGauges{}, errors.New("the database is away")
		}, noNodeGauges)
		m.WatchConditions(func(context.Context) []web.Condition {
			checks++
			return []web.Condition{{Name: "database", OK: !away}, {Name: "nats", OK: true}, {Name: "heartbeat"}, {Name: "heartbeat", OK: true}}
		})
		for range 2 {
			checkMetrics(t, scrape(t, m), `deadman_condition_failed{condition="database"} 0`, `deadman_condition_failed{condition="nats"} 0`, `deadman_condition_failed{condition="heartbeat"} 1`)
		}
		away = true
		time.Sleep(11 * time.Second)
		checkMetrics(t, scrape(t, m), `deadman_condition_failed{condition="database"} 1`, `deadman_condition_failed{condition="nats"} 0`, "deadman_scrape_error 1")
		if checks != 2 {
			t.Errorf("the conditions were checked %d times in three scrapes, want 2", checks)
		}
	})
}

// TestRequestsAreCountedByRoute checks that requests count under the pattern of their route, that clients cannot choose
// labels, that the requests of a page within the process do not count, and that a stream has no duration.
func TestRequestsAreCountedByRoute(t *testing.T) {
	f := newFixture(t)
	for _, r := range []struct{ method, path string }{
		{"GET", "/api/v1/rules/order-unshipped"},
		{"GET", "/api/v1/rules/other"},
		{"GET", "/jobs?key=17"},
		{"GET", "/nowhere/17"},
		{"BREW", "/coffee"},
		{"DELETE", "/healthz"},
	} {
		requestPath(t, f.Server, r.method, r.path, "")
	}
	ctx, stop := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", f.URL+"/api/v1/alerts", nil)
	failOn(t, err)
	r.Header.Set("Accept", "text/event-stream")
	answer, err := f.Client().Do(r)
	failOn(t, err)
	stop()
	failOn(t, answer.Body.Close())
	text := ""
	testwait.Until(t, "the stream is counted", func() bool {
		text = scrape(t, f.metrics)
		return strings.Contains(text, `deadman_http_requests_total{method="GET",route="/api/v1/alerts",`)
	})
	checkMetrics(t, text,
		`deadman_http_requests_total{method="GET",route="/api/v1/rules/{name}",status="200"} 1`,
		`deadman_http_requests_total{method="GET",route="/api/v1/rules/{name}",status="404"} 1`,
		`deadman_http_requests_total{method="GET",route="/jobs",status="200"} 1`,
		`deadman_http_requests_total{method="any",route="none",status="404"} 1`,
		`deadman_http_requests_total{method="any",route="none",status="405"} 2`,
		`deadman_http_request_duration_seconds_count{method="GET",route="/api/v1/rules/{name}"} 2`)
	if n := strings.Count(text, "\ndeadman_http_requests_total{"); n != 6 {
		t.Errorf("%d series of requests, want 6:\n%s", n, text)
	}
	if strings.Contains(text, `deadman_http_request_duration_seconds_count{method="GET",route="/api/v1/alerts"}`) {
		t.Error("the stream has a duration")
	}
}

// TestCountersOfDeletedRulesAreRemoved checks that rules under ever new names take no memory for good, and that the
// counters of existing rules and of the node's own alerts stay.
func TestCountersOfDeletedRulesAreRemoved(t *testing.T) {
	m := emptyMetrics()
	m.ForgetDeleted(func(rule string) bool { return rule == "kept" })
	alerted := func(rule string) {
		m.Alerted(alerts.Alert{Rule: rule, Detail: alerts.Detail{Draft: alerts.Draft{Severity: alerts.Warning}}})
	}
	m.Checked("kept", futurejobs.CheckRule, "waiting", 0)
	alerted(alerts.SystemRule)
	for i := range 20_000 {
		rule := fmt.Sprintf("acme-%d", i)
		m.Checked(rule, futurejobs.CheckRule, "waiting", 0)
		m.Checked(rule, futurejobs.CheckRule, "exhausted", 0)
		alerted(rule)
		m.Ticked(rule, "started", 1)
	}
	m.Checked("kept", futurejobs.CheckRule, "waiting", 0)
	text := scrape(t, m)
	checkMetrics(t, text, `deadman_checks_total{outcome="waiting",rule="kept"} 2`, `deadman_alerts_total{rule="deadman",severity="warning"} 1`,
		`deadman_ticks_total{outcome="started",rule="acme-19999"} 1`)
	if n := strings.Count(text, `rule="acme-`); n > 4*1024 {
		t.Errorf("%d counters of deleted rules are kept", n)
	}
}
