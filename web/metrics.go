package web

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"deadman/alerts"
	"deadman/checks/lookup"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/events"
	"deadman/internal/pings"
)

// Metrics counts the work of a node and serves it for Prometheus. It has a registry of its own. It is a lookup.Observer.
// Its methods are safe for concurrent use.
type Metrics struct {
	checks        *prometheus.CounterVec
	took          map[futurejobs.CheckKind]prometheus.Observer
	delays        prometheus.Observer
	settles       prometheus.Observer
	settleErrors  *prometheus.CounterVec
	alerts        *prometheus.CounterVec
	events        *prometheus.CounterVec
	deadLetters   prometheus.Counter
	summarized    prometheus.Counter
	capped        *prometheus.CounterVec
	heartbeats    *prometheus.CounterVec
	spans         *prometheus.CounterVec
	pings         *prometheus.CounterVec
	ticks         *prometheus.CounterVec
	queriedKeys   *prometheus.CounterVec
	trips         *prometheus.CounterVec
	tripTook      *prometheus.HistogramVec
	notifications *prometheus.CounterVec
	givenUp       *prometheus.CounterVec
	requests      *prometheus.CounterVec
	requestTook   *prometheus.HistogramVec
	refused       *prometheus.CounterVec
	providers     prometheus.Counter
	overQuota     *prometheus.CounterVec
	rules         ruleSeries
	registry      *prometheus.Registry
	handler       http.Handler
}

// NewMetrics returns the metrics of a node of that version. cluster reads the state of all nodes; a scrape calls it at
// most once in gaugesFor. node returns the state of this one.
func NewMetrics(version string, cluster func(ctx context.Context) (ClusterGauges, error), node func() NodeGauges) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.countJobs()
	m.countEvents()
	m.countAlerts()
	m.countAccess()
	m.registry.MustRegister(buildInfo(version),
		&gaugeCollector[ClusterGauges]{read: cluster, gauges: clusterGauges, keep: gaugesFor, errors: scrapeErrorDesc},
		&gaugeCollector[NodeGauges]{read: func(context.Context) (NodeGauges, error) { return node(), nil }, gauges: nodeGauges, counters: nodeCounters},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
	return m
}

// countJobs creates the metrics of checks, settlements, lookups and ticks.
func (m *Metrics) countJobs() {
	m.checks = m.counter("deadman_checks_total", "Checks: the outcome that ended the job; or waiting or undetermined if it continues, skipped if it was late, dropped if the job or its shard had changed meanwhile.", "rule", "outcome")
	took := m.histogram("deadman_check_duration_seconds", "Duration of checks by kind: rule (conditions only), lookup (with a query to a source) or handler.", prometheus.ExponentialBuckets(10e-6, 4, 12), "kind") // 10 µs to 42 s
	m.took = make(map[futurejobs.CheckKind]prometheus.Observer)
	for _, kind := range futurejobs.CheckKinds {
		m.took[kind] = took.WithLabelValues(string(kind))
	}
	m.delays = m.histogram("deadman_decision_delay_seconds", "Time from the slot of a check to its settled decision: the lateness of checks.", prometheus.ExponentialBuckets(10e-3, 4, 10)).WithLabelValues()                           // 10 ms to 44 min
	m.settles = m.histogram("deadman_settle_duration_seconds", "Duration of transactions that settle decisions, also of failed ones. Each settles a batch of decisions.", prometheus.ExponentialBuckets(1e-3, 3, 10)).WithLabelValues() // 1 ms to 20 s
	m.settleErrors = m.counter("deadman_settle_errors_total", "Transactions that could not settle decisions: too_slow (repeated with fewer), refused (by the database, because of one decision) or failed (repeated).", "reason")
	atZero(m.settleErrors, settleTooSlow, settleRefused, settleFailed)
	m.ticks = m.counter("deadman_ticks_total", "Schedule ticks by outcome: started, emitted, paused, skipped, expired, failed or missed.", "rule", "outcome")
	m.queriedKeys = m.counter("deadman_source_lookups_total", "Keys looked up in sources: found, absent, error (of the key or the query) or outage.", "source", "outcome")
	m.trips = m.counter("deadman_source_queries_total", "Queries to a source, each for a batch of keys.", "source")
	m.tripTook = m.histogram("deadman_source_query_duration_seconds", "Duration of a query to a source.", prometheus.ExponentialBuckets(1e-3, 3, 10), "source") // 1 ms to 20 s
}

// countEvents creates the metrics of events, dead letters and pings.
func (m *Metrics) countEvents() {
	m.events = m.counter("deadman_events_total", "Events by effect: created, ended, already_pending, restarted, postponed, coalesced, updated, paused, resumed, stored_early, unmatched, ignored, dead_letter or lost.", "outcome")
	atZero(m.events, events.Outcomes...)
	m.deadLetters = m.counter("deadman_dead_letters_total", "Events that could not be processed.").WithLabelValues()
	m.summarized = m.counter("deadman_dead_letters_summarized_total", "Events of deadman_dead_letters_total that are counted in summaries only, because too many were refused in a minute; they cannot be retried.").WithLabelValues()
	m.capped = m.counter("deadman_rows_removed_total", "Rows removed beyond a limit: dead_letters, dead_letter_bodies or early_resolves.", "kind")
	atZero(m.capped, CappedLetters, CappedBodies, CappedEarly)
	m.pings = m.counter("deadman_pings_total", "Pings: accepted, refused (error of the sender) or failed (to be sent again).", "outcome")
	atZero(m.pings, pingAccepted, pingRefused, pingFailed)
}

// countAlerts creates the metrics of alerts, notifications and heartbeats.
func (m *Metrics) countAlerts() {
	m.alerts = m.counter("deadman_alerts_total", "Alerts decided.", "rule", "severity")
	m.notifications = m.counter("deadman_notifications_total", "Attempts to send a message to a channel: sent (accepted) or failed (sent again).", "channel", "outcome")
	m.givenUp = m.counter("deadman_notifications_given_up_total", "Messages that a channel did not accept for 72 hours: they are not sent any more.", "channel")
	m.spans = m.counter("deadman_trace_spans_total", "Spans of traces by outcome of their export: sent (taken by the collector) or failed (lost).", "outcome")
	atZero(m.spans, "sent", "failed")
	m.heartbeats = m.counter("deadman_heartbeats_total", "Heartbeats of the node to a target: sent, failed or withheld.", "target", "outcome")
}

// countAccess creates the metrics of HTTP requests and refusals.
func (m *Metrics) countAccess() {
	m.requests = m.counter("deadman_http_requests_total", "HTTP requests by method, pattern of the route and status. The route is none if no route matches, or if the request was refused before.", "method", "route", "status")
	m.requestTook = m.histogram("deadman_http_request_duration_seconds", "Duration of HTTP requests, without streams.", []float64{5e-3, 25e-3, 0.1, 0.25, 0.5, 1, 2.5, 10}, "method", "route")
	m.providers = m.counter("deadman_login_provider_errors_total", "Logins that failed because of the OpenID provider, or because too many were in progress.").WithLabelValues()
	m.refused = m.counter("deadman_refused_tokens_total", "Refused credentials by kind: token (header), session (cookie), login (form), link (of a message), badge, proxy (proxy headers), oidc (login provider) or limit (not looked up after too many refusals of the address).", "kind")
	atZero(m.refused, byToken, bySession, byLogin, byLink, byBadge, byProxy, byProvider, refusedUnseen)
	m.overQuota = m.counter("deadman_quota_refused_total", "Refusals by quotas of prefixes, by limit; no tenant is named.", "quota")
	for _, l := range access.Limits {
		atZero(m.overQuota, string(l.Limited))
	}
}

// counter adds a counter of this node.
func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help + nodeScope}, labels)
	m.registry.MustRegister(c)
	return c
}

// histogram adds a histogram of this node.
func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help + nodeScope, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return h
}

// atZero begins the series of a counter's label values. The increase of a series that begins at 1 would be 0.
func atZero(c *prometheus.CounterVec, values ...string) {
	for _, v := range values {
		c.WithLabelValues(v)
	}
}

// buildInfo returns the metric with the version of the program.
func buildInfo(version string) prometheus.Gauge {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "deadman_build_info", Help: "Always 1; the labels have the version of the program and of Go." + nodeScope,
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

// Checked counts a check, with its duration.
func (m *Metrics) Checked(rule string, kind futurejobs.CheckKind, outcome string, took time.Duration) {
	m.rules.counter(m.checks, rule, outcome).Inc()
	m.took[kind].Observe(took.Seconds())
}

// Settled counts a settled decision, with the time since its slot. A decision with a trace, a traceparent, is an exemplar of
// its bucket.
func (m *Metrics) Settled(delay time.Duration, trace string) {
	if id, _, ok := alerts.TraceIDs(trace); ok {
		if with, ok := m.delays.(prometheus.ExemplarObserver); ok {
			with.ObserveWithExemplar(delay.Seconds(), prometheus.Labels{"trace_id": id})
			return
		}
	}
	m.delays.Observe(delay.Seconds())
}

// The reasons of settle errors.
const (
	settleTooSlow = "too_slow"
	settleRefused = "refused"
	settleFailed  = "failed"
)

// SettleTried counts a transaction that settles decisions. A change of the rules meanwhile is no error: the jobs are
// checked again.
func (m *Metrics) SettleTried(took time.Duration, err error) {
	m.settles.Observe(took.Seconds())
	switch {
	case err == nil, errors.Is(err, futurejobs.ErrRulesChanged):
	case errors.Is(err, futurejobs.ErrTooSlow):
		m.settleErrors.WithLabelValues(settleTooSlow).Inc()
	case errors.Is(err, futurejobs.ErrRefused):
		m.settleErrors.WithLabelValues(settleRefused).Inc()
	default:
		m.settleErrors.WithLabelValues(settleFailed).Inc()
	}
}

// WatchConditions adds the conditions of the node to the metrics. It is called once, before the first scrape.
func (m *Metrics) WatchConditions(health Health) {
	m.registry.MustRegister(&gaugeCollector[[]Condition]{
		read: func(ctx context.Context) ([]Condition, error) { return health(ctx), nil }, gauges: conditionGauges, keep: gaugesFor,
	})
}

// CountSpans counts n exported spans of an outcome.
func (m *Metrics) CountSpans(outcome string, n int) { m.spans.WithLabelValues(outcome).Add(float64(n)) }

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

// CountKeys counts n keys of lookups with the same outcome. The first of a source begins all of its series.
func (m *Metrics) CountKeys(source string, outcome lookup.Outcome, n int) {
	for _, o := range []lookup.Outcome{lookup.Found, lookup.Absent, lookup.Failed, lookup.Outage} {
		m.queriedKeys.WithLabelValues(source, string(o))
	}
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

// The outcomes of pings.
const (
	pingAccepted = "accepted"
	pingRefused  = "refused"
	pingFailed   = "failed"
)

// Pinged counts a ping by its error; nil if the ping was accepted.
func (m *Metrics) Pinged(err error) {
	outcome := pingAccepted
	switch {
	case err == nil:
	case pings.ErrorInfoOf(err).IsClientError():
		outcome = pingRefused
	default:
		outcome = pingFailed
	}
	m.pings.WithLabelValues(outcome).Inc()
}

// CountGivenUp counts n messages that a channel did not accept in time. 0 begins the series.
func (m *Metrics) CountGivenUp(channel string, n int) {
	m.givenUp.WithLabelValues(channel).Add(float64(n))
}

// CountNotifications counts n attempts to send a message to a channel. 0 begins the series.
func (m *Metrics) CountNotifications(channel, outcome string, n int) {
	m.notifications.WithLabelValues(channel, outcome).Add(float64(n))
}

// Answered counts a request of a route; a pattern that is empty is of none. The duration of a stream is not counted.
// Without metrics it does nothing.
func (m *Metrics) Answered(method, pattern string, status int, took time.Duration, isStream bool) {
	if m == nil {
		return
	}
	if pattern == "" {
		method, pattern = "any", "none" // the client chooses the method
	}
	if status == 0 {
		status = http.StatusOK // written without a header
	}
	m.requests.WithLabelValues(method, pattern, strconv.Itoa(status)).Inc()
	if !isStream {
		m.requestTook.WithLabelValues(method, pattern).Observe(took.Seconds())
	}
}

// CountHeartbeat counts a due heartbeat. The first to a target begins all of its series.
func (m *Metrics) CountHeartbeat(to, outcome string) {
	for _, o := range []string{"sent", "failed", "withheld"} {
		m.heartbeats.WithLabelValues(to, o)
	}
	m.heartbeats.WithLabelValues(to, outcome).Inc()
}

// Ticked counts n ticks of a rule with the same outcome.
func (m *Metrics) Ticked(rule string, outcome futurejobs.TickOutcome, n int) {
	m.rules.counter(m.ticks, rule, string(outcome)).Add(float64(n))
}
