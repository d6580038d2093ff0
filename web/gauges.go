package web

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"deadman/alerts"
	"deadman/checks/lookup"
)

// How long gauges are cached, and how long reading them may take.
const (
	gaugesFor  = 10 * time.Second
	gaugesTime = 5 * time.Second
)

// Gauges is the measurements of a node at one time.
type Gauges struct {
	Pending     int64 // jobs
	Due         int64 // jobs whose slot has come
	Overdue     int   // jobs overdue for over a minute, among the first of each shard
	Unreadable  int   // rule versions that this node cannot read although jobs of them are due
	Fit         bool  // this node may hold shards
	Unpublished int64 // alerts that are not in the stream yet
	ShardsHeld  int
	// AlertsFilled is the used part of the limits of the alert stream.
	AlertsFilled float64
	SweepLag     time.Duration                // since the oldest slot of an undecided due job; 0 if none is due
	IntakeLag    map[StreamLine]time.Duration // by stream: since it was last read to its end
	OldestRow    map[string]time.Duration     // by table: the age of its oldest row
	Channels     []alerts.ChannelState        // notification channels
	Sources      []lookup.State               // for lookups of rules
	Abandoned    int                          // handlers that ignored their timeout and have not returned
	Refused      map[string]uint64            // refusals of an in-process NATS server to its clients, by kind
	Foreign      uint64                       // messages of the alert stream that are no alerts and were skipped
}

var (
	pendingDesc     = desc("deadman_jobs_pending", "Pending jobs.")
	dueDesc         = desc("deadman_jobs_due", "Due jobs, whose slot has come.")
	overdueDesc     = desc("deadman_jobs_overdue", "Due jobs of all nodes that were not decided within a minute after their slot, plus the time limit of their check. Incomplete if there are very many.")
	unreadableDesc  = desc("deadman_rule_versions_unreadable", "Rule versions with due jobs that this node cannot read.")
	fitDesc         = desc("deadman_node_fit", "0 while this node should hold no shards: it cannot settle, read due jobs or reach the broker.")
	unpublishedDesc = desc("deadman_alerts_unpublished", "Raised alerts that are not in the stream yet.")
	filledDesc      = desc("deadman_alerts_stream_filled_ratio", "Fill level of the alerts stream; at 1, alerts wait in the database.")
	heldDesc        = desc("deadman_shards_held", "Shards that this node holds.")
	sweepLagDesc    = desc("deadman_sweep_lag_seconds", "Age of the oldest slot of a due job, on any node.")
	intakeLagDesc   = desc("deadman_ingest_lag_seconds", "Time since the stream was last read to its end.", "stream", "line")
	oldestDesc      = desc("deadman_oldest_row_seconds", "Age of the oldest row of a table.", "table")
	waitingDesc     = desc("deadman_notifications_pending", "Notifications that a channel has not accepted yet.", "channel")
	sentDesc        = desc("deadman_notifications_sent", "Notifications that a channel has accepted in total.", "channel")
	failingDesc     = desc("deadman_channel_failing", "1 while a channel rejects notifications.", "channel")
	sourceUpDesc    = desc("deadman_source_up", "0 while the source is failing, down or probing.", "source")
	abandonedDesc   = desc("deadman_source_queries_abandoned", "Queries that exceeded their time limit and have not returned.", "source")
	handlersDesc    = desc("deadman_handlers_abandoned", "Handlers that exceeded their time limit and have not returned.")
	refusedDesc     = desc("deadman_nats_refused_total", "Clients that the embedded NATS server refused, by kind: login or permission.", "kind")
	foreignDesc     = desc("deadman_alerts_foreign_total", "Messages in the alerts stream that are no alerts, as seen by each reader.")
	failedDesc      = desc("deadman_gauges_failed", "1 if the gauges could not be read; they are absent then.")
	conditionDesc   = desc("deadman_condition_failed", "1 while a condition of /readyz fails on this node.", "condition")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// gauges collects Gauges for Prometheus.
type gauges struct {
	read func(context.Context) (Gauges, error)

	mu     sync.Mutex // held while reading: one scrape reads, the others wait for its result
	last   Gauges
	failed bool
	readAt time.Time
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		pendingDesc, dueDesc, unpublishedDesc, filledDesc, heldDesc, sweepLagDesc, intakeLagDesc, oldestDesc, failedDesc,
		overdueDesc, unreadableDesc, fitDesc, waitingDesc, sentDesc, failingDesc, sourceUpDesc, abandonedDesc, handlersDesc,
		refusedDesc, foreignDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Gauges that could not be read are left out and reported as failed, since an
// old value would pass for a new one. The reason is in /readyz.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	now, failed := g.fresh()
	put := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if failed {
		put(failedDesc, 1)
		return
	}
	fit := 0.0
	if now.Fit {
		fit = 1
	}
	put(failedDesc, 0)
	put(pendingDesc, float64(now.Pending))
	put(dueDesc, float64(now.Due))
	put(overdueDesc, float64(now.Overdue))
	put(unreadableDesc, float64(now.Unreadable))
	put(fitDesc, fit)
	put(unpublishedDesc, float64(now.Unpublished))
	put(filledDesc, now.AlertsFilled)
	put(heldDesc, float64(now.ShardsHeld))
	put(handlersDesc, float64(now.Abandoned))
	put(sweepLagDesc, now.SweepLag.Seconds())
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	count(foreignDesc, now.Foreign)
	for what, n := range now.Refused {
		count(refusedDesc, n, what)
	}
	for stream, lag := range now.IntakeLag {
		put(intakeLagDesc, lag.Seconds(), stream.Name, stream.Line)
	}
	for table, age := range now.OldestRow {
		put(oldestDesc, age.Seconds(), table)
	}
	for _, c := range now.Channels {
		failing := 0.0
		if !c.FailingSince.IsZero() {
			failing = 1
		}
		put(waitingDesc, float64(c.Waiting), c.Name)
		put(sentDesc, float64(c.Sent), c.Name)
		put(failingDesc, failing, c.Name)
	}
	for _, s := range now.Sources {
		up := 0.0
		if s.Health.Works() {
			up = 1
		}
		put(sourceUpDesc, up, s.Name)
		put(abandonedDesc, float64(s.Abandoned), s.Name)
	}
}

// fresh returns gauges no older than gaugesFor.
func (g *gauges) fresh() (Gauges, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.readAt) < gaugesFor {
		return g.last, g.failed
	}
	ctx, cancel := context.WithTimeout(context.Background(), gaugesTime)
	defer cancel()
	now, err := g.read(ctx)
	g.last, g.failed, g.readAt = now, err != nil, time.Now()
	return g.last, g.failed
}

// conditionGauges collects the conditions of the node for Prometheus. Unlike Gauges, they are known without a database.
type conditionGauges struct {
	health Health

	mu     sync.Mutex // held while the conditions are checked: one scrape checks them, the others wait for its result
	last   []Condition
	readAt time.Time
}

// Describe implements prometheus.Collector.
func (g *conditionGauges) Describe(ch chan<- *prometheus.Desc) { ch <- conditionDesc }

// Collect implements prometheus.Collector.
func (g *conditionGauges) Collect(ch chan<- prometheus.Metric) {
	failed := make(map[string]float64) // by name, which several conditions may have: one for each target of heartbeats
	for _, c := range g.fresh() {
		n := 1.0
		if c.OK {
			n = 0
		}
		failed[c.Name] = max(failed[c.Name], n)
	}
	for name, n := range failed {
		ch <- prometheus.MustNewConstMetric(conditionDesc, prometheus.GaugeValue, n, name)
	}
}

// fresh returns conditions no older than gaugesFor.
func (g *conditionGauges) fresh() []Condition {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.readAt) >= gaugesFor {
		ctx, cancel := context.WithTimeout(context.Background(), gaugesTime)
		defer cancel()
		g.last, g.readAt = g.health(ctx), time.Now()
	}
	return g.last
}
