package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"deadman/alerts"
	"deadman/internal/access"
	"deadman/internal/bus"
	"deadman/internal/periodic"
	"deadman/internal/scheduler"
	"deadman/internal/store"
)

const (
	// quotasEvery is the interval at which a node reads quotas and their use, and saves its own use.
	quotasEvery = 5 * time.Second
	// maxSingleCounts is the number of new prefixes that are counted one by one. More prefixes are counted at once.
	maxSingleCounts = 8
	// quotaRemarked is the time after the last refusal for which the alert of a quota stays open.
	quotaRemarked = 10 * time.Minute
	// keepUse is the retention of hourly use: longer than that of any stream of alerts.
	keepUse = 400 * 24 * time.Hour
)

// quotas keeps this node's view of prefix quotas up to date: the limits, and their use on all nodes.
type quotas struct {
	*access.Quotas
	store  *store.Store
	alerts *bus.StreamOfAlerts
	events *bus.StreamOfEvents
	counts quotaCounts
	holds  func() bool                 // this node does the maintenance
	grants func() access.Grants        // of users that log in without tokens
	count  func(limit string, n int64) // counts refusals
	now    func() time.Time
	every  time.Duration // interval of refreshes
	wake   chan struct{} // signalled after changes of rules, and when a new prefix is known
	log    *slog.Logger

	limits   sync.Mutex // held while the limits are read, so that no older ones replace them
	mu       sync.Mutex // held while the use is counted
	prunedAt time.Time
}

// Run refreshes until ctx ends, and then saves the remaining use.
func (q *quotas) Run(ctx context.Context) error {
	status := periodic.NewStatus(q.log, slog.LevelWarn, "quota refresh")
	tick := time.NewTicker(q.every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			status.Set(ctx, q.refresh(ctx), "again_in", q.every)
		case <-q.wake:
			status.Set(ctx, q.update(ctx), "again_in", q.every)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), quotasEvery)
	defer cancel()
	if err := q.save(last); err != nil {
		q.log.Warn("the last use of quotas is not written", "err", err)
	}
	return nil
}

// Wake updates the quotas soon.
func (q *quotas) Wake() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// update reads the limits, and counts the use of new prefixes.
func (q *quotas) update(ctx context.Context) error {
	if err := q.readLimits(ctx, ""); err != nil {
		return err
	}
	fresh := q.Uncounted("")
	if len(fresh) > maxSingleCounts {
		return q.refresh(ctx)
	}
	for _, prefix := range fresh {
		if err := q.refreshWithin(ctx, prefix); err != nil {
			return err
		}
	}
	return nil
}

// Ensure implements web.Quotas. The use of a new prefix is counted after the return.
func (q *quotas) Ensure(ctx context.Context, prefix string) error {
	if prefix == "" || q.Has(prefix) {
		return nil
	}
	if err := q.readLimits(ctx, prefix); err != nil {
		return err
	}
	q.Wake()
	return nil
}

// readLimits reads the quotas of the prefixes that begin with a text; empty: of all.
func (q *quotas) readLimits(ctx context.Context, within string) error {
	q.limits.Lock()
	defer q.limits.Unlock()
	read, err := q.read(ctx, within)
	if err != nil {
		return err
	}
	room, _ := q.alerts.Room()
	if within == "" {
		q.Set(read, room)
	} else {
		q.SetWithin(within, read, room)
	}
	return nil
}

// refresh reads the quotas and counts their use.
//
//  1. It reads the limits, which determine the use to count.
//  2. It saves the published and refused amounts of this node since the last time.
//  3. It counts rules, jobs and published alerts.
func (q *quotas) refresh(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.readLimits(ctx, ""); err != nil || !q.Any() {
		return err
	}
	if err := q.save(ctx); err != nil {
		return err
	}
	if err := q.counts.count(ctx, ""); err != nil {
		return err
	}
	return q.prune(ctx)
}

// refreshWithin reads the quota of a prefix and counts its use, and the use of the prefixes that share rules with it. Its
// time does not grow with the number of tenants.
func (q *quotas) refreshWithin(ctx context.Context, prefix string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	within := q.Shortest(prefix)
	if err := q.readLimits(ctx, within); err != nil {
		return err
	}
	return q.counts.count(ctx, within)
}

// read returns the quotas of the prefixes that begin with a text. The first node with a user prefix that has no quota
// creates it, as the first token of a prefix does.
func (q *quotas) read(ctx context.Context, within string) ([]access.Quota, error) {
	all, err := q.store.Quotas(ctx, within)
	if err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(q.grants().Prefixes(), func(prefix string) bool {
		return !strings.HasPrefix(prefix, within) || slices.ContainsFunc(all, func(has access.Quota) bool { return has.Prefix == prefix })
	})
	if len(missing) == 0 {
		return all, nil
	}
	if err := q.store.HoldQuotas(ctx, missing); err != nil {
		return nil, err
	}
	return q.store.Quotas(ctx, within)
}

// save saves this node's use.
func (q *quotas) save(ctx context.Context) error {
	done := q.Take()
	err := q.store.KeepQuotas(ctx, done)
	if err != nil {
		q.Quotas.Return(done)
		return err
	}
	for _, d := range done {
		for what, n := range d.Refused {
			q.count(string(what), n)
		}
	}
	return nil
}

// prune deletes use older than keepUse, once an hour.
func (q *quotas) prune(ctx context.Context) error {
	now := q.now()
	if !q.holds() || now.Sub(q.prunedAt) < time.Hour {
		return nil
	}
	q.prunedAt = now
	return q.store.PruneQuotas(ctx, now.Add(-keepUse))
}

// Admit implements alerts.Quotas.
//
//  1. Alerts within all quotas of their rules are admitted. So are alerts that an admin publishes again: they
//     count now if they were withheld before, and otherwise count already.
//  2. An alert that closes a published one is admitted, so that the published alert does not stay open. At most
//     one exists for each.
//  3. The others are withheld: marked in the database, and removed from the outbox.
func (q *quotas) Admit(ctx context.Context, batch []alerts.Alert) ([]alerts.Alert, error) {
	if !q.Any() {
		return batch, nil
	}
	over := make(map[alerts.ID]bool)
	for i := range batch {
		switch a := &batch[i]; {
		case !counts(a):
		case a.Republication == alerts.WasWithheld:
			q.Spend(a, a.StreamSize())
		case !q.Quotas.Admit(a, a.StreamSize()):
			over[a.ID] = true
		}
	}
	if len(over) == 0 {
		return batch, nil
	}
	err := q.admitEnds(ctx, batch, over)
	var admitted, withheld []alerts.Alert
	for i := range batch {
		if over[batch[i].ID] {
			withheld = append(withheld, batch[i])
		} else {
			admitted = append(admitted, batch[i])
		}
	}
	if err == nil {
		err = q.store.Withhold(ctx, withheld)
	}
	if err != nil {
		q.Return(admitted)
		return nil, fmt.Errorf("withhold alerts: %w", err)
	}
	for i := range withheld {
		q.Withhold(&withheld[i])
	}
	return admitted, nil
}

// counts reports whether a published alert counts toward quotas.
func counts(a *alerts.Alert) bool {
	return a.Rule != alerts.SystemRule && a.Republication != alerts.WasPublished
}

// admitEnds admits alerts over a quota that close a published alert.
func (q *quotas) admitEnds(ctx context.Context, batch []alerts.Alert, over map[alerts.ID]bool) error {
	closes := make(map[int16][]alerts.ID)
	for i := range batch {
		if a := &batch[i]; over[a.ID] && len(a.Closes) > 0 {
			closes[a.Shard] = append(closes[a.Shard], a.Closes...)
		}
	}
	for shard, ids := range closes {
		withheld, err := q.store.Withheld(ctx, shard, ids)
		if err != nil {
			return err
		}
		for i := range batch {
			a := &batch[i]
			wasPublished := func(id alerts.ID) bool { return !withheld[id] && !over[id] }
			if a.Shard == shard && over[a.ID] && slices.ContainsFunc(a.Closes, wasPublished) {
				delete(over, a.ID)
				q.Spend(a, a.StreamSize())
			}
		}
	}
	return nil
}

// Return implements alerts.Quotas.
func (q *quotas) Return(unsent []alerts.Alert) {
	for i := range unsent {
		if a := &unsent[i]; counts(a) {
			q.Forget(a, a.StreamSize())
		}
	}
}

// allow implements scheduler.Options.Allow.
func (q *quotas) allow(rule string, bytes int, now time.Time) time.Duration {
	wait, err := q.Publish(rule, bytes, now)
	if err != nil {
		return wait
	}
	return 0
}

// allowanceOf implements scheduler.Stored.Allow.
func (q *quotas) allowanceOf(rule string) scheduler.Allowance {
	if !q.Covers(rule) {
		return nil
	}
	return func(bytes int, now time.Time) time.Duration { return q.allow(rule, bytes, now) }
}

// SetQuota implements web.Quotas.
func (q *quotas) SetQuota(ctx context.Context, set access.Quota) error {
	if err := q.store.SetQuota(ctx, set); err != nil {
		return err
	}
	return q.refreshWithin(ctx, set.Prefix)
}

// DeleteQuota implements web.Quotas.
func (q *quotas) DeleteQuota(ctx context.Context, prefix string) error {
	if err := q.store.DeleteQuota(ctx, prefix); err != nil {
		return err
	}
	return q.refresh(ctx)
}

// QuotaUses implements web.Quotas. The counts are a few seconds old.
func (q *quotas) QuotaUses(ctx context.Context, prefix string) ([]access.QuotaUse, error) {
	refusals, err := q.store.Refusals(ctx, prefix)
	if err != nil {
		return nil, err
	}
	bounds, err := q.bounds(ctx, prefix)
	if err != nil {
		return nil, err
	}
	all := q.Uses(prefix)
	for _, use := range all {
		for i := range use.Use {
			if use.Use[i].Limited == access.LimitSubjects {
				use.Use[i].Used = int64(q.events.CountWithin(bounds[use.Prefix]))
			}
			for _, r := range refusals[use.Prefix] {
				if r.Limited == use.Use[i].Limited {
					use.Use[i].Refused, use.Use[i].RefusedAt = r.Refused, r.RefusedAt
				}
			}
		}
	}
	return all, nil
}

// bounds returns the bounds of all that may act within each prefix that begins with a text: live tokens, and users that log
// in without tokens.
func (q *quotas) bounds(ctx context.Context, within string) (map[string][]*access.Bounds, error) {
	tokens, err := q.store.TokensWithin(ctx, within)
	if err != nil {
		return nil, err
	}
	all := make(map[string][]*access.Bounds)
	now := q.now()
	for _, t := range slices.Concat(tokens, q.grants().Tokens()) {
		if t.Prefix != "" && t.Live(now) {
			all[t.Prefix] = append(all[t.Prefix], t.Bounds())
		}
	}
	return all, nil
}
