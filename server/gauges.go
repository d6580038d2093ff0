package server

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/web"
)

// gauges reads the values for /metrics that no component counts.
type gauges struct {
	store         *store.Store
	server        *bus.Server // nil: external broker
	bus           *bus.Bus
	owner         *futurejobs.Owner
	sweeper       *futurejobs.Sweeper
	intake        *events.Intake
	overdue       *overdue
	sources       sourceSet
	notifications *notifications
	now           func() time.Time // the database's time
}

// cluster reads the state of all nodes from the database and the broker.
func (g *gauges) cluster(ctx context.Context) (web.ClusterGauges, error) {
	rows, err := g.store.Gauges(ctx)
	if err != nil {
		return web.ClusterGauges{}, err
	}
	overdueJobs, err := g.overdue.find(ctx)
	if err != nil {
		return web.ClusterGauges{}, err
	}
	now := g.now()
	filled, _ := g.bus.AlertsStream.Usage() // /readyz reports the error
	out := web.ClusterGauges{
		Pending: rows.Pending, Due: rows.Due, Overdue: overdueJobs.jobs(), Outages: rows.Outages, Unpublished: rows.Unpublished,
		AlertsFilled: filled, Channels: g.notifications.gauges(ctx), OldestRow: map[string]time.Duration{},
	}
	if !rows.OldestDue.IsZero() {
		out.SweepLag = max(now.Sub(rows.OldestDue), 0)
	}
	for table, at := range map[string]time.Time{
		"history": rows.OldestHistory, "alert": rows.OldestAlert, "dead_letter": rows.OldestDeadLetter,
	} {
		out.OldestRow[table] = 0
		if !at.IsZero() {
			out.OldestRow[table] = max(now.Sub(at), 0)
		}
	}
	return out, nil
}

// node returns the state of this node.
func (g *gauges) node() web.NodeGauges {
	now := g.now()
	out := web.NodeGauges{
		Shards: g.store.Shards(), ShardsHeld: len(g.owner.Holding()), LeasesLost: g.owner.Lost(), Fit: g.owner.UnfitFor() == "",
		Unreadable: len(g.sweeper.Unreadable()), Sources: g.sources.States(), Abandoned: g.sweeper.Abandoned(),
		Reconnects: g.bus.Conn.NATS().Stats().Reconnects, Foreign: g.bus.AlertReader.Foreign(), IntakeLag: map[web.StreamLine]time.Duration{},
	}
	for _, p := range g.store.Pools() {
		out.Pools = append(out.Pools, web.ConnectionPool(p))
	}
	if g.server != nil {
		logins, permissions := g.server.Refused()
		out.Refused = map[string]uint64{"login": logins, "permission": permissions}
	}
	for _, stream := range g.intake.Status() {
		if !stream.CaughtUp.IsZero() && !now.IsZero() { // unknown until then
			out.IntakeLag[web.StreamLine{Name: futurejobs.StreamOf(stream.Line), Line: lineName(stream.Line)}] = max(now.Sub(stream.CaughtUp), 0)
		}
	}
	return out
}
