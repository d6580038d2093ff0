package simulation_test

import (
	"context"
	"fmt"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/rules"
)

// databaseClient is the database as one node sees it: the real store behind a gate.
type databaseClient struct {
	*gate
	store *store.Store
}

var (
	_ futurejobs.Queue       = databaseClient{}
	_ futurejobs.Leases      = databaseClient{}
	_ futurejobs.EffectStore = databaseClient{}
	_ futurejobs.GapStore    = databaseClient{}
	_ alerts.Outbox          = databaseClient{}
	_ scheduler.CursorStore  = tickClient{}
	_ rules.ChangeReader     = ruleClient{}
)

// ledger returns the ledger of the run.
func (d databaseClient) ledger() *ledger { return d.deployment.ledger }

// Now returns the time of the database.
func (d databaseClient) Now(ctx context.Context) (time.Time, error) {
	return call(ctx, d.gate, database, "Now", func(ctx context.Context) (time.Time, error) { return d.store.Now(ctx) })
}

// Heartbeat implements futurejobs.Leases.
func (d databaseClient) Heartbeat(ctx context.Context, n futurejobs.Node, lease time.Duration) ([]futurejobs.Node, error) {
	return call(ctx, d.gate, database, "Heartbeat", func(ctx context.Context) ([]futurejobs.Node, error) { return d.store.Heartbeat(ctx, n, lease) })
}

// Leases implements futurejobs.Leases.
func (d databaseClient) Leases(ctx context.Context) ([]futurejobs.Lease, error) {
	return call(ctx, d.gate, database, "Leases", func(ctx context.Context) ([]futurejobs.Lease, error) { return d.store.Leases(ctx) })
}

// Renew implements futurejobs.Leases.
func (d databaseClient) Renew(ctx context.Context, node string, held []futurejobs.Lease, lease time.Duration) ([]futurejobs.HeldShard, error) {
	return call(ctx, d.gate, database, "Renew", func(ctx context.Context) ([]futurejobs.HeldShard, error) {
		end := d.ledger().begin()
		kept, err := d.store.Renew(ctx, node, held, lease)
		end(err, func(l *ledger) { l.renewed(node, held, kept, lease) })
		return kept, err
	})
}

// Take implements futurejobs.Leases.
func (d databaseClient) Take(ctx context.Context, node string, seen futurejobs.HeldShard, lease time.Duration) (got futurejobs.Lease, ok bool, err error) {
	got, err = call(ctx, d.gate, database, fmt.Sprint("Take ", seen.Shard), func(ctx context.Context) (futurejobs.Lease, error) {
		end := d.ledger().begin()
		took, isFree, err := d.store.Take(ctx, node, seen, lease)
		end(err, func(l *ledger) {
			if isFree {
				l.took(node, took.HeldShard, lease)
			}
		})
		ok = isFree
		return took, err
	})
	return got, ok && err == nil, err
}

// Free implements futurejobs.Leases.
func (d databaseClient) Free(ctx context.Context, seen futurejobs.Lease) (bool, error) {
	return call(ctx, d.gate, database, "Free", func(ctx context.Context) (bool, error) {
		end := d.ledger().begin()
		ok, err := d.store.Free(ctx, seen)
		end(err, func(l *ledger) {
			if ok {
				l.released(seen.Node, seen)
			}
		})
		return ok, err
	})
}

// Release implements futurejobs.Leases.
func (d databaseClient) Release(ctx context.Context, node string, held []futurejobs.Lease) error {
	return run(ctx, d.gate, database, "Release", func(ctx context.Context) error {
		end := d.ledger().begin()
		err := d.store.Release(ctx, node, held)
		end(err, func(l *ledger) { l.released(node, held...) })
		return err
	})
}

// Leave implements futurejobs.Leases.
func (d databaseClient) Leave(ctx context.Context, node string) error {
	return run(ctx, d.gate, database, "Leave", func(ctx context.Context) error { return d.store.Leave(ctx, node) })
}

// Due implements futurejobs.Queue.
func (d databaseClient) Due(ctx context.Context, q futurejobs.DueQuery) ([]futurejobs.Job, error) {
	return call(ctx, d.gate, database, fmt.Sprint("Due ", q.Cursors[0].Shard), func(ctx context.Context) ([]futurejobs.Job, error) { return d.store.Due(ctx, q) })
}

// Settle implements futurejobs.Queue.
func (d databaseClient) Settle(ctx context.Context, s futurejobs.Settlement) (futurejobs.Settled, error) {
	return call(ctx, d.gate, database, fmt.Sprint("Settle ", s.Decisions[0].Job.ID), func(ctx context.Context) (futurejobs.Settled, error) {
		end := d.ledger().begin()
		settled, err := d.store.Settle(ctx, s)
		d.deployment.settled(settled, err)
		end(err, func(l *ledger) { l.settled(d.id(), s, settled) })
		return settled, err
	})
}

// ReadThrough implements futurejobs.Queue.
func (d databaseClient) ReadThrough(ctx context.Context) (map[string]futurejobs.StreamProgress, error) {
	return call(ctx, d.gate, database, "ReadThrough", func(ctx context.Context) (map[string]futurejobs.StreamProgress, error) {
		return d.store.ReadThrough(ctx)
	})
}

// BeginCheck implements futurejobs.CheckStarts.
func (d databaseClient) BeginCheck(ctx context.Context, b futurejobs.CheckStart) (bool, error) {
	return call(ctx, d.gate, database, "BeginCheck", func(ctx context.Context) (bool, error) { return d.store.BeginCheck(ctx, b) })
}

// RecordOutage implements futurejobs.OutageStore.
func (d databaseClient) RecordOutage(ctx context.Context, hit futurejobs.OutageHit) ([]alerts.Alert, error) {
	return call(ctx, d.gate, database, "RecordOutage", func(ctx context.Context) ([]alerts.Alert, error) { return d.store.RecordOutage(ctx, hit) })
}

// Outages implements futurejobs.OutageStore.
func (d databaseClient) Outages(ctx context.Context) ([]futurejobs.Outage, error) {
	return call(ctx, d.gate, database, "Outages", func(ctx context.Context) ([]futurejobs.Outage, error) { return d.store.Outages(ctx) })
}

// CloseOutage implements futurejobs.OutageStore.
func (d databaseClient) CloseOutage(ctx context.Context, o futurejobs.Outage, alertOf func(futurejobs.Outage) alerts.Alert) (raised []alerts.Alert, ended bool, err error) {
	raised, err = call(ctx, d.gate, database, "CloseOutage", func(ctx context.Context) (a []alerts.Alert, err error) {
		a, ended, err = d.store.CloseOutage(ctx, o, alertOf)
		return a, err
	})
	return raised, ended && err == nil, err
}

// RecordGap implements futurejobs.GapStore and futurejobs.Cursors.
func (d databaseClient) RecordGap(ctx context.Context, topic string, since time.Time) error {
	return run(ctx, d.gate, database, "RecordGap "+topic, func(ctx context.Context) error { return d.store.RecordGap(ctx, topic, since) })
}

// OtherNodeAlive implements futurejobs.GapStore.
func (d databaseClient) OtherNodeAlive(ctx context.Context, node string, since time.Time) (bool, error) {
	return call(ctx, d.gate, database, "OtherNodeAlive", func(ctx context.Context) (bool, error) { return d.store.OtherNodeAlive(ctx, node, since) })
}

// Cursor implements futurejobs.Cursors.
func (d databaseClient) Cursor(ctx context.Context, stream string) (c futurejobs.Cursor, ok bool, err error) {
	c, err = call(ctx, d.gate, database, "Cursor "+stream, func(ctx context.Context) (c futurejobs.Cursor, err error) {
		c, ok, err = d.store.Cursor(ctx, stream)
		return c, err
	})
	return c, ok && err == nil, err
}

// OpenCursor implements futurejobs.Cursors.
func (d databaseClient) OpenCursor(ctx context.Context, c futurejobs.Cursor) error {
	return run(ctx, d.gate, database, "OpenCursor "+c.Stream, func(ctx context.Context) error {
		end := d.ledger().begin()
		err := d.store.OpenCursor(ctx, c)
		end(err, func(l *ledger) { l.open(c) })
		return err
	})
}

// ResetCursor implements futurejobs.Cursors.
func (d databaseClient) ResetCursor(ctx context.Context, old, to futurejobs.Cursor) error {
	return run(ctx, d.gate, database, "ResetCursor "+old.Stream, func(ctx context.Context) error {
		end := d.ledger().begin()
		err := d.store.ResetCursor(ctx, old, to)
		end(err, func(l *ledger) { l.reset(d.id(), old, to) })
		return err
	})
}

// MarkRead implements futurejobs.Cursors.
func (d databaseClient) MarkRead(ctx context.Context, stream string, seq uint64, through time.Time) error {
	return run(ctx, d.gate, database, "MarkRead "+stream, func(ctx context.Context) error {
		end := d.ledger().begin()
		err := d.store.MarkRead(ctx, stream, seq, through)
		end(err, func(l *ledger) { l.marked(d.id(), stream, through) })
		return err
	})
}

// ReportLost implements futurejobs.Cursors.
func (d databaseClient) ReportLost(ctx context.Context, stream string, n int64, r alerts.SystemAlert) (a alerts.Alert, raised bool, err error) {
	a, err = call(ctx, d.gate, database, "ReportLost "+stream, func(ctx context.Context) (a alerts.Alert, err error) {
		a, raised, err = d.store.ReportLost(ctx, stream, n, r)
		return a, err
	})
	return a, raised && err == nil, err
}

// Apply implements futurejobs.EffectStore.
func (d databaseClient) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	return call(ctx, d.gate, database, "Apply "+b.Stream, func(ctx context.Context) (futurejobs.ApplyResult, error) {
		end := d.ledger().begin()
		result, err := d.store.Apply(ctx, b)
		d.deployment.applied(err)
		end(err, func(l *ledger) { l.applied(d.id(), b) })
		return result, err
	})
}

// HoldOff implements futurejobs.EffectStore.
func (d databaseClient) HoldOff(ctx context.Context, stream string) error {
	return run(ctx, d.gate, database, "HoldOff "+stream, func(ctx context.Context) error { return d.store.HoldOff(ctx, stream) })
}

// JobsOf implements futurejobs.EffectStore.
func (d databaseClient) JobsOf(ctx context.Context, ruleID int32, after futurejobs.Ref, limit int) ([]futurejobs.Job, error) {
	return call(ctx, d.gate, database, "JobsOf", func(ctx context.Context) ([]futurejobs.Job, error) { return d.store.JobsOf(ctx, ruleID, after, limit) })
}

// Unpublished implements alerts.Outbox.
func (d databaseClient) Unpublished(ctx context.Context, shards []int16, limit int, without []string) (found []alerts.Alert, more bool, err error) {
	found, err = call(ctx, d.gate, database, fmt.Sprint("Unpublished ", shards), func(ctx context.Context) (batch []alerts.Alert, err error) {
		batch, more, err = d.store.Unpublished(ctx, shards, limit, without)
		return batch, err
	})
	return found, more, err
}

// MarkPublished implements alerts.Outbox.
func (d databaseClient) MarkPublished(ctx context.Context, sent []alerts.Alert) error {
	return run(ctx, d.gate, database, "MarkPublished "+sent[0].ID.String(), func(ctx context.Context) error { return d.store.MarkPublished(ctx, sent) })
}

// announce writes a system alert.
func (d databaseClient) announce(ctx context.Context, r alerts.SystemAlert) error {
	return run(ctx, d.gate, database, "WriteSystemAlert", func(ctx context.Context) error {
		_, _, err := d.store.WriteSystemAlert(ctx, r)
		return err
	})
}

// tickClient is the database as the scheduler of a node sees it.
type tickClient struct{ databaseClient }

// TickCursors implements scheduler.CursorStore.
func (d tickClient) TickCursors(ctx context.Context) (map[string]futurejobs.Cursor, error) {
	return call(ctx, d.gate, database, "TickCursors", func(ctx context.Context) (map[string]futurejobs.Cursor, error) { return d.store.TickCursors(ctx) })
}

// HoldTick implements scheduler.CursorStore.
func (d tickClient) HoldTick(ctx context.Context, ruleID int32, revision int64) error {
	return run(ctx, d.gate, database, "HoldTick", func(ctx context.Context) error { return d.store.HoldTick(ctx, ruleID, revision) })
}

// ReleaseTick implements scheduler.CursorStore.
func (d tickClient) ReleaseTick(ctx context.Context, ruleID int32) error {
	return run(ctx, d.gate, database, "ReleaseTick", func(ctx context.Context) error { return d.store.ReleaseTick(ctx, ruleID) })
}

// UnresolvedAlerts implements scheduler.CursorStore.
func (d tickClient) UnresolvedAlerts(ctx context.Context, step string) ([]alerts.SystemAlert, error) {
	return call(ctx, d.gate, database, "UnresolvedAlerts", func(ctx context.Context) ([]alerts.SystemAlert, error) { return d.store.UnresolvedAlerts(ctx, step) })
}

// ResolveSystemAlert implements scheduler.CursorStore.
func (d tickClient) ResolveSystemAlert(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, raised bool, err error) {
	a, err = call(ctx, d.gate, database, "ResolveSystemAlert", func(ctx context.Context) (a alerts.Alert, err error) {
		a, raised, err = d.store.ResolveSystemAlert(ctx, r)
		return a, err
	})
	return a, raised && err == nil, err
}

// ruleClient is the database as the catalog of a node sees it.
type ruleClient struct{ databaseClient }

// Revision implements rules.ChangeReader.
func (d ruleClient) Revision(ctx context.Context) (int64, error) {
	return call(ctx, d.gate, database, "Revision", func(ctx context.Context) (int64, error) { return d.store.Revision(ctx) })
}

// Changes implements rules.ChangeReader.
func (d ruleClient) Changes(ctx context.Context, since int64) (rules.Changes, error) {
	return call(ctx, d.gate, database, "Changes", func(ctx context.Context) (rules.Changes, error) { return d.store.Changes(ctx, since) })
}

// Version implements rules.ChangeReader.
func (d ruleClient) Version(ctx context.Context, ruleID, version int32) (rules.RuleVersion, error) {
	return call(ctx, d.gate, database, "Version", func(ctx context.Context) (rules.RuleVersion, error) { return d.store.Version(ctx, ruleID, version) })
}

// Calendars implements rules.ChangeReader.
func (d ruleClient) Calendars(ctx context.Context, since int64) ([]rules.CalendarVersion, error) {
	return call(ctx, d.gate, database, "Calendars", func(ctx context.Context) ([]rules.CalendarVersion, error) { return d.store.Calendars(ctx, since) })
}
