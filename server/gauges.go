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
	alerts        *bus.StreamOfAlerts
	reader        *bus.AlertReader
	owner         *futurejobs.Owner
	sweeper       *futurejobs.Sweeper
	intake        *events.Intake
	overdue       *overdue
	sources       sourceSet
	notifications *notifications
	now           func() time.Time // the database's time
}

// read reads the gauges for /metrics.
func (g *gauges) read(ctx context.Context) (web.Gauges, error) {
	rows, err := g.store.Gauges(ctx)
	if err != nil {
		return web.Gauges{}, err
	}
	overdueJobs, err := g.overdue.find(ctx)
	if err != nil {
		return web.Gauges{}, err
	}
	now := g.now()
	filled, _ := g.alerts.Usage() // /readyz reports the error
	out := web.Gauges{
		Pending: rows.Pending, Due: rows.Due, Unpublished: rows.Unpublished,
		Overdue: overdueJobs.jobs(), Unreadable: len(g.sweeper.Unreadable()), Fit: g.owner.UnfitFor() == "",
		ShardsHeld: len(g.owner.Holding()), AlertsFilled: filled, Channels: g.notifications.gauges(ctx), Sources: g.sources.States(),
		Abandoned: g.sweeper.Abandoned(), Foreign: g.reader.Foreign(),
		IntakeLag: map[web.StreamLine]time.Duration{}, OldestRow: map[string]time.Duration{},
	}
	if g.server != nil {
		logins, permissions := g.server.Refused()
		out.Refused = map[string]uint64{"login": logins, "permission": permissions}
	}
	if !rows.OldestDue.IsZero() {
		out.SweepLag = max(now.Sub(rows.OldestDue), 0)
	}
	for _, stream := range g.intake.Status() {
		if !stream.CaughtUp.IsZero() { // unknown until then
			out.IntakeLag[web.StreamLine{Name: futurejobs.StreamOf(stream.Line), Line: lineName(stream.Line)}] = max(now.Sub(stream.CaughtUp), 0)
		}
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
