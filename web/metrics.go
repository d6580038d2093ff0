package web

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"deadman/alerts"
	"deadman/checks/lookup"
	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/pings"
)

// Metrics counts the work of a node and serves it for Prometheus. It has a registry of its own. It is a lookup.Observer.
// Its methods are safe for concurrent use.
type Metrics struct {
	checks      *prometheus.CounterVec
	took        prometheus.Histogram
	delays      prometheus.Histogram
	alerts      *prometheus.CounterVec
	events      *prometheus.CounterVec
	deadLetters prometheus.Counter
	summarized  prometheus.Counter
	capped      *prometheus.CounterVec
	heartbeats  *prometheus.CounterVec
	pings       *prometheus.CounterVec
	ticks       *prometheus.CounterVec
	queriedKeys *prometheus.CounterVec
	trips       *prometheus.CounterVec
	tripTook    *prometheus.HistogramVec
	refused     *prometheus.CounterVec
	providers   prometheus.Counter
	overQuota   *prometheus.CounterVec
	rules       ruleSeries
	registry    *prometheus.Registry
	handler     http.Handler
}

// NewMetrics returns the metrics of a node of that version. read returns the gauges; a scrape calls it at most once in
// gaugesFor.
func NewMetrics(version string, read func(ctx context.Context) (Gauges, error)) *Metrics {
	m := &Metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadman_checks_total", Help: "Checks by rule and outcome.",
		}, []string{"rule", "outcome"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "deadman_check_duration_seconds", Help: "Duration of handlers.",
			Buckets: prometheus.ExponentialBuckets(10e-6, 4, 12), // 10 µs to 42 s
		}),
		delays: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "deadman_decision_delay_seconds", Help: "Time from the slot of a check to its settled decision.",
			Buckets: prometheus.ExponentialBuckets(10e-3, 4, 10), // 10 ms to 44 min
		}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadman_alerts_total", Help: "Alerts raised.",
		}, []string{"rule", "severity"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadman_events_total", Help: "Events by effect.",
		}, []string{"outcome"}),
		deadLetters: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "deadman_dead_letters_total", Help: "Events that could not be processed.",
		}),
		summarized: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "deadman_dead_letters_summarized_total", Help: "Events of deadman_dead_letters_total that are counted in summaries only, because too many were refused in a minute; they cannot be retried.",
		}),
		capped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadman_rows_removed_total", Help: "Rows removed beyond a limit: dead_letters, dead_letter_bodies or early_resolves.",
		}, []string{"kind"}),
		heartbeats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadman_heartbeats_total", Help: "Heartbeats of the node by target and outcome.",
		}, []string{"target", "outcome"}),
		pings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadman_pings_total", Help: "Pings by outcome: accepted, refused (error of the sender) or failed (to be sent again).",
		}, []string{"outcome"}),
		ticks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadman_ticks_total", Help: "Schedule ticks by rule and outcome.",
		}, []string{"rule", "outcome"}),
		queriedKeys: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadman_source_lookups_total", Help: "Keys looked up in sources, by outcome.",
		}, []string{"source", "outcome"}),
		trips: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadman_source_queries_total", Help: "Batched queries to sources.",
		}, []string{"source"}),
		tripTook: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "deadman_source_query_duration_seconds", Help: "Duration of a batched query.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 3, 10), // 1 ms to 20 s
		}, []string{"source"}),
	}
	m.providers = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "deadman_login_provider_errors_total", Help: "Logins that failed because of the OpenID provider, or because too many were in progress.",
	})
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "deadman_refused_tokens_total", Help: "Refused credentials by kind: token (header), session (cookie), login (form), proxy (proxy headers), oidc (login provider), limit (not evaluated after too many refusals of the address).",
	}, []string{"kind"})
	m.overQuota = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "deadman_quota_refused_total", Help: "Refusals by quotas on this node: refused jobs and events, and unpublished alerts (alerts, alert_bytes).",
	}, []string{"quota"})
	m.registry = prometheus.NewRegistry()
	m.registry.MustRegister(m.checks, m.took, m.delays, m.alerts, m.events, m.deadLetters, m.summarized, m.capped, m.heartbeats, m.pings, m.ticks, m.queriedKeys, m.trips, m.tripTook, m.refused, m.providers, m.overQuota, buildInfo(version), &gauges{read: read},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
	return m
}

// buildInfo returns the metric with the version of the program.
func buildInfo(version string) prometheus.Gauge {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "deadman_build_info", Help: "Always 1; the labels have the version of the program and of Go.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	build.Set(1)
	return build
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// ForgetDeleted removes the counters of rules that do not exist, from time to time. The rule of system alerts always
// exists.
func (m *Metrics) ForgetDeleted(exists func(rule string) bool) {
	m.rules.mu.Lock()
	defer m.rules.mu.Unlock()
	m.rules.exists = exists
}

// Checked counts a check, with the duration of its handler.
func (m *Metrics) Checked(rule, outcome string, took time.Duration) {
	m.rules.counter(m.checks, rule, outcome).Inc()
	m.took.Observe(took.Seconds())
}

// Settled counts a settled decision, with the time since its slot.
func (m *Metrics) Settled(delay time.Duration) { m.delays.Observe(delay.Seconds()) }

// WatchConditions adds the conditions of the node to the metrics. It is called once, before the first scrape.
func (m *Metrics) WatchConditions(health Health) {
	m.registry.MustRegister(&conditionGauges{health: health})
}

// Alerted counts an alert that was decided.
func (m *Metrics) Alerted(a alerts.Alert) {
	m.rules.counter(m.alerts, a.Rule, string(a.Severity)).Inc()
}

// Ingested counts n events with the same outcome; events.DeadLetter counts dead letters too.
func (m *Metrics) Ingested(outcome string, n int) {
	m.events.WithLabelValues(outcome).Add(float64(n))
	if outcome == events.DeadLetter {
		m.deadLetters.Add(float64(n))
	}
}

// Summarized counts n dead letters that are only counted in summaries.
func (m *Metrics) Summarized(n int64) { m.summarized.Add(float64(n)) }

// The kinds of data removed beyond a limit.
const (
	CappedLetters = "dead_letters"
	CappedBodies  = "dead_letter_bodies"
	CappedEarly   = "early_resolves"
)

// Capped counts n rows or bodies of a kind, removed beyond a limit.
func (m *Metrics) Capped(what string, n int64) { m.capped.WithLabelValues(what).Add(float64(n)) }

// OverQuota counts n refusals by a limit of a quota.
func (m *Metrics) OverQuota(limit string, n int64) {
	m.overQuota.WithLabelValues(limit).Add(float64(n))
}

// CountKeys counts n keys of lookups with the same outcome.
func (m *Metrics) CountKeys(source string, outcome lookup.Outcome, n int) {
	m.queriedKeys.WithLabelValues(source, string(outcome)).Add(float64(n))
}

// RoundTrip counts a lookup of a batch, with its duration.
func (m *Metrics) RoundTrip(source string, took time.Duration) {
	m.trips.WithLabelValues(source).Inc()
	m.tripTook.WithLabelValues(source).Observe(took.Seconds())
}

// Refused counts a refused token or session of a kind. Without metrics it does nothing.
func (m *Metrics) Refused(kind string) {
	if m != nil {
		m.refused.WithLabelValues(kind).Inc()
	}
}

// ProviderFailed counts a login that failed because of the provider.
func (m *Metrics) ProviderFailed() {
	if m != nil {
		m.providers.Inc()
	}
}

// Pinged counts a ping by its error; nil if the ping was accepted.
func (m *Metrics) Pinged(err error) {
	outcome := "accepted"
	switch {
	case err == nil:
	case pings.ErrorInfoOf(err).IsClientError():
		outcome = "refused"
	default:
		outcome = "failed"
	}
	m.pings.WithLabelValues(outcome).Inc()
}

// CountHeartbeat counts a due heartbeat.
func (m *Metrics) CountHeartbeat(to, outcome string) { m.heartbeats.WithLabelValues(to, outcome).Inc() }

// Ticked counts n ticks of a rule with the same outcome.
func (m *Metrics) Ticked(rule string, outcome futurejobs.TickOutcome, n int) {
	m.rules.counter(m.ticks, rule, string(outcome)).Add(float64(n))
}
