package rules

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
)

// backfillCount counts what a backfill creates and raises.
type backfillCount struct {
	*backfill
	kept      map[string]bool // keys with a pending job, which the save keeps
	receiving time.Time       // start of the gap-free period of the heartbeats; zero: the rule expects none

	jobs    int // to be created
	skipped int // of these, with skipped steps
	over    int // not created, because all of their steps were due
	alerts  int // raised at once, by the checks of the next slot
	unknown int // checks of the next slot with an unknown result
}

// firstChecksBudget is the budget of the checks of the next slot, in rounds: about 10 s.
const firstChecksBudget = 10 * previewBudget

// countBackfill counts the jobs of a backfill. ruleID is the rule before the save; 0: a new rule.
func countBackfill(ctx context.Context, p *backfill, ruleID int32) (backfillCount, error) {
	c := backfillCount{backfill: p, kept: make(map[string]bool)}
	if err := c.findKept(ctx, ruleID); err != nil {
		return c, err
	}
	if err := c.findReceiving(ctx); err != nil {
		return c, err
	}
	rule := p.rule.onBudget(ctx)
	rule.spend.left = firstChecksBudget
	slot := rule.grid.After(p.Now())
	for _, ref := range p.remaining(p.saved) {
		job, isOver := p.skipPastSteps(p.known.Pending[ref], p.at)
		switch {
		case c.kept[ref.Key]:
			continue
		case isOver:
			c.over++
			continue
		case job.Step > 0:
			c.skipped++
		}
		c.jobs++
		c.creates += int64(job.Size())
		if p.at.IsZero() && !job.NextCheckAt.After(slot) {
			c.check(ctx, rule, job, slot)
		}
	}
	return c, ctx.Err()
}

// findKept finds the pending jobs of the keys of the jobs.
func (c *backfillCount) findKept(ctx context.Context, ruleID int32) error {
	if ruleID == 0 || len(c.begun) == 0 {
		return nil
	}
	for after := (futurejobs.Ref{}); ; {
		page, err := c.Jobs.JobsOf(ctx, ruleID, after, pageMost)
		if err != nil || len(page) == 0 {
			return wrapErr("pending jobs", err)
		}
		for _, j := range page {
			c.kept[j.Key] = true
		}
		after = page[len(page)-1].Ref
	}
}

// findReceiving finds since when the heartbeats of the rule are received without a gap. A stream that is not read yet is
// received from now on.
func (c *backfillCount) findReceiving(ctx context.Context) error {
	for _, stream := range c.rule.engine.HeartbeatStreams {
		cursor, ok, err := c.Jobs.Cursor(ctx, stream)
		if err != nil {
			return wrapErr("past events", err)
		}
		if !ok {
			cursor.ReceivingSince = c.Now()
		}
		c.receiving = latest(c.receiving, cursor.ReceivingSince)
	}
	return nil
}

// check counts the alerts of the first check of a job. A lookup, a handler or a gap of the heartbeats makes them unknown, and so
// does the end of the budget.
func (c *backfillCount) check(ctx context.Context, rule *Rule, j futurejobs.Job, slot time.Time) {
	isKnown := rule.document.Lookup == nil && rule.document.Handler == "" && rule.spend.left > 0
	if isKnown && rule.heartbeat != nil {
		_, since := rule.heartbeat.noGapSince(contextOf(j))
		isKnown = !c.receiving.After(since)
	}
	if isKnown {
		j.NextCheckAt = slot
		d := rule.engine.Check(ctx, j, slot)
		if rule.spend.left > 0 {
			c.alerts += len(d.Alerts)
			return
		}
	}
	c.unknown++
}
