package rules

import (
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
}

// each applies an effect to the pending jobs of a rule. If the database takes too long, the page is halved, down to one
// job.
func (p pendingJobs) each(ctx context.Context, action string, effect func(futurejobs.Job) (futurejobs.Effect, bool)) (n int, err error) {
	var after futurejobs.Ref
	most := pageMost
	for {
		b := futurejobs.EffectBatch{RuleSet: p.catalog.Revision(), AuditAction: action}
		jobs, err := p.jobs.JobsOf(ctx, p.ruleID, after, most)
		if err != nil || len(jobs) == 0 {
			return n, err
		}
		for _, j := range jobs {
			if e, wanted := effect(j); wanted {
				b.Effects = append(b.Effects, e)
			}
		}
		applied, err := p.jobs.Apply(ctx, b)
		if errors.Is(err, futurejobs.ErrRulesChanged) {
			if err := p.catalog.Refresh(ctx); err != nil {
				return n, err
			}
			continue
		}
		if errors.Is(err, futurejobs.ErrTooSlow) && len(jobs) > 1 {
			most = len(jobs) / 2
			continue
		}
		if err != nil {
			return n, err
		}
		n += applied.Ended + applied.Changed
		after = jobs[len(jobs)-1].Ref
	}
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
