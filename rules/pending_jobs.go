package rules

import (
	"cmp"
	"context"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
)

// pageMost is how many jobs are changed at a time, if the database is fast enough for that.
const pageMost = 500

// pendingJobs changes the pending jobs of one rule, a page at a time.
type pendingJobs struct {
	jobs    Jobs
	catalog *Catalog
	ruleID  int32
	after   futurejobs.Ref // the last job of the page before
	most    int            // jobs of a page; 0: pageMost
}

// each applies an effect to the pending jobs of a rule.
func (p pendingJobs) each(ctx context.Context, action string, effect func(futurejobs.Job) (futurejobs.Effect, bool)) (n int, err error) {
	for {
		changed, isLast, err := p.page(ctx, action, effect)
		n += changed
		if err != nil || isLast {
			return n, err
		}
	}
}

// page applies an effect to the next page of the pending jobs of a rule. If the database takes too long, the page is halved,
// down to one job. If the rule changed meanwhile, the page changes nothing, and is the next one again.
func (p *pendingJobs) page(ctx context.Context, action string, effect func(futurejobs.Job) (futurejobs.Effect, bool)) (n int, isLast bool, err error) {
	b := futurejobs.EffectBatch{RuleSet: p.catalog.Revision(), AuditAction: action}
	jobs, err := p.jobs.JobsOf(ctx, p.ruleID, p.after, cmp.Or(p.most, pageMost))
	if err != nil || len(jobs) == 0 {
		return 0, true, err
	}
	for _, j := range jobs {
		if e, wanted := effect(j); wanted {
			b.Effects = append(b.Effects, e)
		}
	}
	applied, err := p.jobs.Apply(ctx, b)
	if errors.Is(err, futurejobs.ErrRulesChanged) {
		return 0, false, p.catalog.Refresh(ctx)
	}
	if errors.Is(err, futurejobs.ErrTooSlow) && len(jobs) > 1 {
		p.most = len(jobs) / 2
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	p.after = jobs[len(jobs)-1].Ref
	return applied.Ended + applied.Changed, false, nil
}

// Jobs accesses the pending jobs of rules, and the cursors of streams.
type Jobs interface {
	// Cursor is futurejobs.EffectStore.Cursor.
	Cursor(ctx context.Context, stream string) (c futurejobs.Cursor, ok bool, err error)
	// JobsOf is futurejobs.EffectStore.JobsOf.
	JobsOf(ctx context.Context, ruleID int32, after futurejobs.Ref, limit int) ([]futurejobs.Job, error)
	// Apply is futurejobs.EffectStore.Apply.
	Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error)
	// OpenCursor is futurejobs.EffectStore.OpenCursor.
	OpenCursor(ctx context.Context, c futurejobs.Cursor) error
	// Now returns the database's time.
	Now(ctx context.Context) (time.Time, error)
}
