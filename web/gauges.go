package web

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"deadman/alerts"
	"deadman/checks/lookup"
)

// How long the values of gauges are kept, and how long reading them may take.
const (
	gaugesFor  = 10 * time.Second
	gaugesTime = 5 * time.Second
)

// ClusterGauges is the state of all nodes at one time, as the database and the broker have it.
type ClusterGauges struct {
	Pending     int64 // jobs
	Due         int64 // jobs whose slot has come
	Overdue     int   // jobs overdue for over a minute, among the first of each shard
	Outages     int64 // open outages of sources and handlers
	Unpublished int64 // alerts that are not in the stream yet
	// AlertsFilled is the used part of the limits of the alert stream.
	AlertsFilled float64
	SweepLag     time.Duration            // since the oldest slot of an undecided due job; 0 if none is due
	OldestRow    map[string]time.Duration // by table: the age of its oldest row
	Channels     []alerts.ChannelState    // notification channels
}

// NodeGauges is the state of one node at one time. The node knows it without the database.
type NodeGauges struct {
	Shards     int // of the database
	ShardsHeld int // by this node
	LeasesLost int64
	Fit        bool                         // this node may hold shards
	Unreadable int                          // rule versions that this node cannot read although jobs of them are due
	IntakeLag  map[StreamLine]time.Duration // by stream that this node reads: since it was last read to its end
	Sources    []lookup.State               // for lookups of rules
	Abandoned  int                          // handlers that ignored their timeout and have not returned
	Pools      []ConnectionPool             // of the database
	Reconnects uint64                       // of the connection to NATS
	Refused    map[string]uint64            // refusals of an in-process NATS server to its clients, by kind
	Foreign    uint64                       // messages of the alert stream that are no alerts and were skipped
}

// ConnectionPool is the use of a pool of database connections.
type ConnectionPool struct {
	Name             string
	InUse, Idle, Max int
	Waits            int64         // requests that found no free connection
	Waited           time.Duration // of these requests, in total
}

// The scope of a metric is a part of its description.
const (
	nodeScope    = " Scope: node."
	clusterScope = " Scope: cluster. Each node has the same value: use max, not sum."
)

// ofNode describes a metric whose value is one of this node.
func ofNode(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help+nodeScope, labels, nil)
}

// ofCluster describes a metric with the same value on each node.
func ofCluster(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help+clusterScope, labels, nil)
}

// gauge is a metric whose values are found at a scrape, in the state V.
type gauge[V any] struct {
	desc   *prometheus.Desc
	values func(now V, put putValue)
}

// putValue adds a value to a scrape, with the values of its labels.
type putValue func(value float64, labels ...string)

// truth is 1 for true.
func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

var clusterGauges = []gauge[ClusterGauges]{
	{ofCluster("deadman_jobs_pending", "Pending jobs."), func(g ClusterGauges, put putValue) { put(float64(g.Pending)) }},
	{ofCluster("deadman_jobs_due", "Pending jobs whose slot has come."), func(g ClusterGauges, put putValue) { put(float64(g.Due)) }},
	{ofCluster("deadman_jobs_overdue", "Due jobs that were not decided within a minute after their slot, plus the time limit of their check. Incomplete if there are very many."), func(g ClusterGauges, put putValue) { put(float64(g.Overdue)) }},
	{ofCluster("deadman_sweep_lag_seconds", "Age of the oldest slot with a due job."), func(g ClusterGauges, put putValue) { put(g.SweepLag.Seconds()) }},
	{ofCluster("deadman_outages_open", "Open outages of sources and handlers, each of one rule."), func(g ClusterGauges, put putValue) { put(float64(g.Outages)) }},
	{ofCluster("deadman_alerts_unpublished", "Raised alerts that are not in the stream of alerts yet."), func(g ClusterGauges, put putValue) { put(float64(g.Unpublished)) }},
	{ofCluster("deadman_alerts_stream_filled_ratio", "Fill level of the stream of alerts; at 1, alerts wait in the database."), func(g ClusterGauges, put putValue) { put(g.AlertsFilled) }},
	{ofCluster("deadman_oldest_row_age_seconds", "Age of the oldest row of a table: history, alert or dead_letter.", "table"), func(g ClusterGauges, put putValue) {
		for table, age := range g.OldestRow {
			put(age.Seconds(), table)
		}
	}},
	{ofCluster("deadman_notifications_pending", "Messages that a channel has not accepted yet.", "channel"), func(g ClusterGauges, put putValue) {
		for _, c := range g.Channels {
			put(float64(c.Waiting), c.Name)
		}
	}},
	{ofCluster("deadman_channel_failing", "1 while a channel rejects messages.", "channel"), func(g ClusterGauges, put putValue) {
		for _, c := range g.Channels {
			put(truth(!c.FailingSince.IsZero()), c.Name)
		}
	}},
}

var nodeGauges = []gauge[NodeGauges]{
	{ofCluster("deadman_shards", "Shards of the database. All of them have to be held by some node."), func(g NodeGauges, put putValue) { put(float64(g.Shards)) }},
	{ofNode("deadman_shards_held", "Shards that this node holds."), func(g NodeGauges, put putValue) { put(float64(g.ShardsHeld)) }},
	{ofNode("deadman_node_fit", "0 while this node should hold no shards: it cannot settle, read due jobs or reach the broker."), func(g NodeGauges, put putValue) { put(truth(g.Fit)) }},
	{ofNode("deadman_rule_versions_unreadable", "Rule versions with due jobs that this node cannot read."), func(g NodeGauges, put putValue) { put(float64(g.Unreadable)) }},
	{ofNode("deadman_ingest_lag_seconds", "Time since a stream that this node reads was last read to its end. The line is operator, or tenants for the rules of tenants.", "stream", "line"), func(g NodeGauges, put putValue) {
		for stream, lag := range g.IntakeLag {
			put(lag.Seconds(), stream.Name, stream.Line)
		}
	}},
	{ofNode("deadman_handlers_abandoned", "Handlers that exceeded their time limit and have not returned."), func(g NodeGauges, put putValue) { put(float64(g.Abandoned)) }},
	{ofNode("deadman_source_up", "0 while the source is failing, down or probing.", "source"), func(g NodeGauges, put putValue) {
		for _, s := range g.Sources {
			put(truth(s.Health.Works()), s.Name)
		}
	}},
	{ofNode("deadman_source_queries_abandoned", "Queries that exceeded their time limit and have not returned.", "source"), func(g NodeGauges, put putValue) {
		for _, s := range g.Sources {
			put(float64(s.Abandoned), s.Name)
		}
	}},
	{ofNode("deadman_database_connections", "Open connections of a pool, by state: in_use or idle. The pool is postgres, or writer and readers of SQLite.", "pool", "state"), func(g NodeGauges, put putValue) {
		for _, p := range g.Pools {
			put(float64(p.InUse), p.Name, "in_use")
			put(float64(p.Idle), p.Name, "idle")
		}
	}},
	{ofNode("deadman_database_connections_max", "Largest number of connections of a pool.", "pool"), func(g NodeGauges, put putValue) {
		for _, p := range g.Pools {
			put(float64(p.Max), p.Name)
		}
	}},
}

var nodeCounters = []gauge[NodeGauges]{
	{ofNode("deadman_leases_lost_total", "Shards that this node lost because it did not renew their leases in time."), func(g NodeGauges, put putValue) { put(float64(g.LeasesLost)) }},
	{ofNode("deadman_database_connection_waits_total", "Requests for a connection that found none free in the pool.", "pool"), func(g NodeGauges, put putValue) {
		for _, p := range g.Pools {
			put(float64(p.Waits), p.Name)
		}
	}},
	{ofNode("deadman_database_connection_wait_seconds_total", "Time that requests waited for a connection of the pool.", "pool"), func(g NodeGauges, put putValue) {
		for _, p := range g.Pools {
			put(p.Waited.Seconds(), p.Name)
		}
	}},
	{ofNode("deadman_nats_reconnects_total", "Reconnects of this node to NATS."), func(g NodeGauges, put putValue) { put(float64(g.Reconnects)) }},
	{ofNode("deadman_nats_refused_total", "Clients that the embedded NATS server refused, by kind: login or permission.", "kind"), func(g NodeGauges, put putValue) {
		for kind, n := range g.Refused {
			put(float64(n), kind)
		}
	}},
	{ofNode("deadman_alerts_foreign_total", "Messages in the stream of alerts that are no alerts, as this node read them."), func(g NodeGauges, put putValue) { put(float64(g.Foreign)) }},
}

// conditionGauges are the conditions of the node. Unlike ClusterGauges, they are known without a database.
var conditionGauges = []gauge[[]Condition]{
	{ofNode("deadman_condition_failed", "1 while a condition of /readyz fails on this node, also while the database is unreachable.", "condition"), func(now []Condition, put putValue) {
		failed := make(map[string]float64) // by name, which several conditions may have: one for each target of heartbeats
		for _, c := range now {
			failed[c.Name] = max(failed[c.Name], truth(!c.OK))
		}
		for name, n := range failed {
			put(n, name)
		}
	}},
}

var scrapeErrorDesc = ofNode("deadman_scrape_error", "1 if the database could not be read for metrics; those with the scope cluster are absent then, except deadman_shards.")

// gaugeCollector collects gauges that are read together, for Prometheus.
type gaugeCollector[V any] struct {
	read     func(context.Context) (V, error)
	gauges   []gauge[V]
	counters []gauge[V]
	keep     time.Duration    // values are read again after it; 0: at each scrape
	errors   *prometheus.Desc // of the gauge that reports an error; nil: read returns none

	mu     sync.Mutex // held while reading: one scrape reads, the others wait for its result
	last   V
	err    error
	readAt time.Time
}

// Describe implements prometheus.Collector.
func (c *gaugeCollector[V]) Describe(ch chan<- *prometheus.Desc) {
	for _, all := range [][]gauge[V]{c.gauges, c.counters} {
		for _, g := range all {
			ch <- g.desc
		}
	}
	if c.errors != nil {
		ch <- c.errors
	}
}

// Collect implements prometheus.Collector. Gauges that could not be read are left out and reported as failed, since an
// old value would pass for a new one. The reason is in /readyz.
func (c *gaugeCollector[V]) Collect(ch chan<- prometheus.Metric) {
	now, err := c.fresh()
	if c.errors != nil {
		ch <- prometheus.MustNewConstMetric(c.errors, prometheus.GaugeValue, truth(err != nil))
	}
	if err != nil {
		return
	}
	for kind, all := range map[prometheus.ValueType][]gauge[V]{prometheus.GaugeValue: c.gauges, prometheus.CounterValue: c.counters} {
		for _, g := range all {
			g.values(now, func(value float64, labels ...string) {
				ch <- prometheus.MustNewConstMetric(g.desc, kind, value, labels...)
			})
		}
	}
}

// fresh returns values no older than keep.
func (c *gaugeCollector[V]) fresh() (V, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readAt.IsZero() || time.Since(c.readAt) >= c.keep {
		ctx, cancel := context.WithTimeout(context.Background(), gaugesTime)
		defer cancel()
		c.last, c.err = c.read(ctx)
		c.readAt = time.Now()
	}
	return c.last, c.err
}
