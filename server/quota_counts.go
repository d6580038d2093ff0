package server

import (
	"context"
	"time"

	"deadman/internal/access"
	"deadman/internal/bus"
	"deadman/internal/store"
)

const (
	// countShare limits job counts: after a count, the next one follows no earlier than countShare times its
	// duration.
	countShare = 20
	// bytesShare is the same for counts of job bytes, which read the rows.
	bytesShare = 50
)

// quotaCounts counts the use of quotas in the database. Its caller serializes the counts.
type quotaCounts struct {
	*access.Quotas
	store  *store.Store
	alerts *bus.StreamOfAlerts
	flush  func(context.Context) // writes the queued entries of the log of pings
	now    func() time.Time
	keep   time.Duration // retention of alerts

	// earliest times of the next counts
	versionsAt, jobsAt, jobBytesAt, pingsAt time.Time
}

// count counts the use of the prefixes that begin with a text; empty: of all.
func (c *quotaCounts) count(ctx context.Context, within string) (err error) {
	learned := access.Learned{Within: within}
	if learned.Rules, err = c.store.RuleNames(ctx, within); err != nil {
		return err
	}
	if learned.Schedules, err = c.store.ScheduleCounts(ctx, within); err != nil {
		return err
	}
	if learned.RuleBytes, err = c.rested(ctx, &c.versionsAt, countShare, within, c.store.VersionBytes); err != nil {
		return err
	}
	if learned.Jobs, err = c.rested(ctx, &c.jobsAt, countShare, within, c.jobs); err != nil {
		return err
	}
	if learned.Bytes, err = c.rested(ctx, &c.jobBytesAt, bytesShare, within, c.jobBytes); err != nil {
		return err
	}
	if learned.PingBytes, err = c.rested(ctx, &c.pingsAt, bytesShare, within, c.pingBytes); err != nil {
		return err
	}
	_, since := c.alerts.Room()
	if since.IsZero() {
		since = c.now()
	}
	if learned.Spent, err = c.store.QuotaSpent(ctx, within, since, c.now().Add(-c.keep)); err != nil {
		return err
	}
	c.Learn(learned)
	return nil
}

// rested counts a property of rules with quotas, unless a recent count took long and all jobs were counted before; then it
// returns nil. at holds the earliest time of the next count, and share the pause as a multiple of the count's duration.
func (c *quotaCounts) rested(
	ctx context.Context, at *time.Time, share int64, within string, count func(ctx context.Context, within string) (map[string]int64, error),
) (map[string]int64, error) {
	begun := time.Now()
	if begun.Before(*at) && len(c.Uncounted(within)) == 0 {
		return nil, nil
	}
	counted, err := count(ctx, within)
	took := time.Since(begun)
	if next := begun.Add(time.Duration((1 + share) * took.Nanoseconds())); next.After(*at) {
		*at = next
	}
	return counted, err
}

// jobs counts the pending jobs of rules.
func (c *quotaCounts) jobs(ctx context.Context, within string) (map[string]int64, error) {
	c.CountJobs(within)
	return c.store.PendingOf(ctx, within, c.Covers)
}

// jobBytes counts the bytes of those jobs.
func (c *quotaCounts) jobBytes(ctx context.Context, within string) (map[string]int64, error) {
	return c.store.PendingBytesOf(ctx, within, c.Covers)
}

// pingBytes counts the bytes of bodies in the log of pings.
func (c *quotaCounts) pingBytes(ctx context.Context, within string) (map[string]int64, error) {
	c.CountPingBodies(within)
	c.flush(ctx)
	return c.store.PingBytes(ctx, within)
}
