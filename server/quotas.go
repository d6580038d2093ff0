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
	"deadman/internal/store"
)

const (
	// quotasEvery is how often a node reads the quotas and their use, and writes down what it did.
	quotasEvery = 5 * time.Second
	// countShare is for how many times as long as a count of jobs took none follows.
	countShare = 20
	// bytesShare is the same of a count of their bytes, which reads their rows.
	bytesShare = 50
	// quotaRemarked is for how long after the last refusal the alert of a quota stays open.
	quotaRemarked = 10 * time.Minute
	// keepUse is for how long it is kept what was published in an hour: longer than any stream of alerts keeps it.
	keepUse = 400 * 24 * time.Hour
)

// quotas keeps what this node knows of the quotas of prefixes up to date: the limits, and how much of them is used on all nodes.
type quotas struct {
	*access.Quotas
	store *store.Store
	bus   *bus.Bus
	holds func() bool                 // this node does the upkeep
	known func() []string             // the prefixes of people, who have no tokens
	count func(limit string, n int64) // what had no room
	now   func() time.Time
	log   *slog.Logger

	mu       sync.Mutex
	countAt  time.Time // jobs are not counted before
	bytesAt  time.Time // nor are their bytes before this
	prunedAt time.Time
}

// Run refreshes until ctx ends, and writes down at the end what was done.
func (q *quotas) Run(ctx context.Context) error {
	r := rounds{
		every: quotasEvery, do: q.refresh, log: q.log, level: slog.LevelWarn,
		failed: "quotas cannot be read or their use written", works: "quotas are read and their use is written again",
	}
	err := r.Run(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), quotasEvery)
	defer cancel()
	if err := q.keep(last); err != nil {
		q.log.Warn("the last use of quotas is not written", "err", err)
	}
	return err
}

// refresh reads the quotas and counts their use.
//
//  1. The limits are read, so that it is known whose use counts.
//  2. What this node published and refused since the last time is written.
//  3. Rules, jobs and published alerts are counted.
func (q *quotas) refresh(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	all, err := q.all(ctx)
	if err != nil {
		return err
	}
	room, since := q.bus.AlertsRoom()
	q.Set(all, room)
	if len(all) == 0 {
		return nil
	}
	if err := q.keep(ctx); err != nil {
		return err
	}
	var learned access.Learned
	if learned.Rules, err = q.store.RuleNames(ctx); err != nil {
		return err
	}
	if learned.Jobs, err = q.rested(ctx, &q.countAt, countShare, q.pending); err != nil {
		return err
	}
	if learned.Bytes, err = q.rested(ctx, &q.bytesAt, bytesShare, q.store.PendingBytesOf); err != nil {
		return err
	}
	if since.IsZero() {
		since = q.now()
	}
	if learned.Spent, err = q.store.QuotaSpent(ctx, since); err != nil {
		return err
	}
	q.Learn(learned)
	return q.prune(ctx)
}

// all are the quotas of all prefixes. The first node that knows a prefix of people writes its quota, as the first token of a prefix
// does.
func (q *quotas) all(ctx context.Context) ([]access.Quota, error) {
	all, err := q.store.Quotas(ctx)
	if err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(q.known(), func(prefix string) bool {
		return slices.ContainsFunc(all, func(has access.Quota) bool { return has.Prefix == prefix })
	})
	if len(missing) == 0 {
		return all, nil
	}
	if err := q.store.HoldQuotas(ctx, missing); err != nil {
		return nil, err
	}
	return q.store.Quotas(ctx)
}

// rested counts something of the pending jobs of rules with quotas, unless that took long lately and the jobs of all were counted before;
// nil: it was not counted. at is when it is counted next, share for how many times as long as the count took it is not.
func (q *quotas) rested(
	ctx context.Context, at *time.Time, share int64, count func(context.Context, func(string) bool) (map[string]int64, error),
) (map[string]int64, error) {
	begun := time.Now()
	if begun.Before(*at) && q.JobsCounted() {
		return nil, nil
	}
	counted, err := count(ctx, q.Covers)
	took := time.Since(begun)
	*at = begun.Add(time.Duration((1 + share) * took.Nanoseconds()))
	return counted, err
}

// keep writes what this node did.
func (q *quotas) keep(ctx context.Context) error {
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

// pending counts the pending jobs of rules.
func (q *quotas) pending(ctx context.Context, which func(rule string) bool) (map[string]int64, error) {
	q.CountJobs()
	return q.store.PendingOf(ctx, which)
}

// prune forgets what is older than any stream keeps, once an hour.
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
//  1. Alerts that have room in all quotas of their rules are admitted. So are those that an admin has published again: such an alert counts
//     where it was withheld before, and otherwise counts already.
//  2. So is one that ends another that was published: what was said is not left open. There is at most one for each.
//  3. The others are withheld: marked in the database, and taken out of the outbox.
func (q *quotas) Admit(ctx context.Context, batch []alerts.Alert) ([]alerts.Alert, error) {
	if !q.Any() {
		return batch, nil
	}
	over := make(map[alerts.ID]bool)
	for i := range batch {
		switch a := &batch[i]; {
		case !counts(a):
		case a.Again == alerts.WasWithheld:
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

// counts reports whether an alert that is published counts toward quotas.
func counts(a *alerts.Alert) bool {
	return a.Rule != alerts.SystemRule && a.Again != alerts.WasPublished
}

// admitEnds takes those out of the alerts that are over a quota which end an alert that was published.
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

// allow is ticks.Options.Allow.
func (q *quotas) allow(rule string, bytes int, now time.Time) time.Duration {
	wait, err := q.Publish(rule, bytes, now)
	if err != nil {
		return wait
	}
	return 0
}

// SetQuota implements web.Quotas.
func (q *quotas) SetQuota(ctx context.Context, set access.Quota) error {
	if err := q.store.SetQuota(ctx, set); err != nil {
		return err
	}
	return q.refresh(ctx)
}

// DeleteQuota implements web.Quotas.
func (q *quotas) DeleteQuota(ctx context.Context, prefix string) error {
	if err := q.store.DeleteQuota(ctx, prefix); err != nil {
		return err
	}
	return q.refresh(ctx)
}

// QuotaUses implements web.Quotas: what is counted is a few seconds old.
func (q *quotas) QuotaUses(ctx context.Context, prefix string) ([]access.QuotaUse, error) {
	refusals, err := q.store.Refusals(ctx)
	if err != nil {
		return nil, err
	}
	all := q.Uses(prefix)
	for _, use := range all {
		for i := range use.Use {
			for _, r := range refusals[use.Prefix] {
				if r.Limited == use.Use[i].Limited {
					use.Use[i].Refused, use.Use[i].RefusedAt = r.Refused, r.RefusedAt
				}
			}
		}
	}
	return all, nil
}

// quotaStep is the step of the alerts about quotas.
const quotaStep = "quota"

// overQuota are the limits that refused something lately, on any node. That a rule was not saved is told to the client alone.
func (s situation) overQuota(known []access.QuotaUse) (all []alarm) {
	for _, q := range known {
		for _, use := range q.Use {
			refusal := s.refusal(q.Prefix, use.Limited)
			if use.Limited == access.LimitRules || refusal.RefusedAt.IsZero() || s.now.Sub(refusal.RefusedAt) > quotaRemarked {
				continue
			}
			severity := alerts.Error
			if use.Limited == access.LimitEvents || use.Limited == access.LimitEventBytes {
				severity = alerts.Warning
			}
			all = append(all, alarm{raise: true, SystemAlert: alerts.SystemAlert{
				Topic: quotaTopic(q.Prefix, use.Limited), Step: quotaStep, Status: alerts.Firing, Severity: severity, Since: s.now,
				Text:   q.Exceeded(use.Limited, use.Most).Error(),
				Labels: map[string]string{"prefix": q.Prefix, "quota": string(use.Limited)},
			}})
		}
	}
	return all
}

// refusal is how often a limit of a prefix refused something, and when last.
func (s situation) refusal(prefix string, what access.Limited) access.LimitUse {
	for _, use := range s.refusals[prefix] {
		if use.Limited == what {
			return use
		}
	}
	return access.LimitUse{}
}

func quotaTopic(prefix string, what access.Limited) string {
	return fmt.Sprintf("quota/%s*/%s", prefix, what)
}

// quotaOver is the text of the alert that resolves one about a quota.
func quotaOver(topic string) string {
	prefix, what, _ := strings.Cut(strings.TrimPrefix(topic, "quota/"), "/")
	return fmt.Sprintf("the quota of %s of the rules %s refused nothing for %s", what, prefix, quotaRemarked)
}
