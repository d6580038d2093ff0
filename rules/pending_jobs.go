package rules

import (
	"context"
	"errors"

	futurejobs "deadman/future_jobs"
)

// pageMost is how many jobs are changed at a time, if the database is fast enough for that.
const pageMost = 500

// move moves the pending jobs of a rule to a version, and returns how many. Jobs that moved before are skipped, so that
// move can be repeated after an error.
func (r *Registry) move(ctx context.Context, to RuleVersion) (int, error) {
	rule, err := newVersion(to, r.outside()).compiled()
	if err != nil {
		return 0, err
	}
	n, err := r.each(ctx, to.RuleID, futurejobs.ActionMove, func(j futurejobs.Job) (futurejobs.Effect, bool) {
		return futurejobs.Effect{Rule: &rule.engine, Ref: j.Ref, Action: futurejobs.MoveToVersion{Next: rule.nextOf}}, j.Version < to.Version
	})
	if err == nil {
		r.moved.Store(to.RuleID, to.Version)
	}
	return n, err
}

// hasMoved reports whether this registry moved all pending jobs of a rule to a version, so that a save that changes
// nothing does not read each. A move that failed is repeated.
func (r *Registry) hasMoved(to RuleVersion) bool {
	version, known := r.moved.Load(to.RuleID)
	return known && version == to.Version
}

// Purge ends the pending jobs of a deleted rule, and returns how many. It does not need the rule's document: that may
// be unreadable.
func (r *Registry) Purge(ctx context.Context, ruleID int32) (int, error) {
	deleted := &futurejobs.Rule{ID: ruleID, Deleted: true}
	return r.each(ctx, ruleID, "", func(j futurejobs.Job) (futurejobs.Effect, bool) {
		return futurejobs.Purge(deleted, j.Ref), true
	})
}

// each applies an effect to the pending jobs of a rule. If the database takes too long, the page is halved, down to one
// job.
func (r *Registry) each(ctx context.Context, ruleID int32, deed string, effect func(futurejobs.Job) (futurejobs.Effect, bool)) (n int, err error) {
	var after futurejobs.Ref
	most := pageMost
	for {
		b := futurejobs.EffectBatch{RuleSet: r.Book.Revision(), AuditAction: deed}
		jobs, err := r.Jobs.JobsOf(ctx, ruleID, after, most)
		if err != nil || len(jobs) == 0 {
			return n, err
		}
		for _, j := range jobs {
			if e, wanted := effect(j); wanted {
				b.Effects = append(b.Effects, e)
			}
		}
		applied, err := r.Jobs.Apply(ctx, b)
		if errors.Is(err, futurejobs.ErrRulesChanged) {
			if err := r.Book.Refresh(ctx); err != nil {
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
