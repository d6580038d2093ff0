package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
	"deadman/web"
)

// maxConflictRetries bounds how often a deed is begun again because the rules or the job changed
// meanwhile.
const maxConflictRetries = 5

// applyEffects applies the effects that ask returns, asking again where the rules changed meanwhile.
func (n *node) applyEffects(ctx context.Context, what access.Action, ask func() ([]futurejobs.Effect, error)) (futurejobs.ApplyResult, error) {
	return n.applyBatch(ctx, futurejobs.EffectBatch{AuditAction: string(what)}, ask)
}

// applyBatch is do for a batch that lacks nothing but its effects and the rules that were asked.
func (n *node) applyBatch(ctx context.Context, b futurejobs.EffectBatch, ask func() ([]futurejobs.Effect, error)) (futurejobs.ApplyResult, error) {
	for range maxConflictRetries {
		var err error
		b.RuleSet = n.book.Revision()
		if b.Effects, err = ask(); err != nil || len(b.Effects) == 0 {
			return futurejobs.ApplyResult{}, err
		}
		applied, err := n.store.Apply(ctx, b)
		if errors.Is(err, futurejobs.ErrRulesChanged) {
			if err := n.book.Refresh(ctx); err != nil {
				return futurejobs.ApplyResult{}, err
			}
			continue
		}
		n.observeApplied(applied)
		return applied, err
	}
	return futurejobs.ApplyResult{}, futurejobs.ErrRulesChanged
}

// observeApplied tells the parts whom it concerns what effects came to.
func (n *node) observeApplied(done futurejobs.ApplyResult) {
	for _, a := range done.Said {
		n.witness.Alerted(a)
	}
	if done.Created+done.Changed > 0 {
		n.sweeper.Wake() // a job may be due before any other
	}
}

// applyToJob is do for the pending job of a rule and a key, asking again where the job changed
// meanwhile; futurejobs.ErrNotFound where there is none. Where ask returns nothing, nothing is
// done.
func (n *node) applyToJob(ctx context.Context, what access.Action, rule, key string, ask func(*futurejobs.Rule, futurejobs.Job) (*futurejobs.Effect, error)) error {
	for range maxConflictRetries {
		applied, err := n.applyEffects(ctx, what, func() ([]futurejobs.Effect, error) { return n.effectOnJob(ctx, rule, key, ask) })
		if err != nil || applied.Missed == 0 {
			return err
		}
	}
	return futurejobs.ErrCursorMoved
}

// effectOnJob is what is asked of the pending job of a rule and a key.
func (n *node) effectOnJob(ctx context.Context, rule, key string, ask func(*futurejobs.Rule, futurejobs.Job) (*futurejobs.Effect, error)) ([]futurejobs.Effect, error) {
	job, err := n.store.Job(ctx, rule, key)
	if err != nil {
		return nil, err
	}
	made, err := n.book.Rule(ctx, job.RuleID, job.Version)
	if err != nil {
		return nil, err
	}
	effect, err := ask(made, job.Job)
	if effect == nil {
		return nil, err
	}
	return []futurejobs.Effect{*effect}, err
}

// Create begins a wait by hand, as the rule's trigger does. One that is there already is
// futurejobs.ErrExists.
func (n *node) Create(ctx context.Context, job web.NewJob) (futurejobs.ListedJob, error) {
	now := n.clock.Now()
	batch := futurejobs.EffectBatch{AuditAction: string(access.JobCreate), Once: access.OnceOf(ctx)}
	applied, err := n.applyBatch(ctx, batch, func() ([]futurejobs.Effect, error) {
		rule, err := n.newestRule(ctx, job.Rule)
		if err != nil {
			return nil, err
		}
		effect, err := rule.Start(job.Key, job.Since, now, job.Event, n.store.Shards())
		return []futurejobs.Effect{effect}, err
	})
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	if len(applied.Over) > 0 {
		return futurejobs.ListedJob{}, n.overQuota(job.Rule)
	}
	if applied.Kept > 0 {
		return futurejobs.ListedJob{}, fmt.Errorf("rule %s, key %s: %w", job.Rule, job.Key, futurejobs.ErrExists)
	}
	listed, err := n.store.Job(ctx, job.Rule, job.Key)
	if applied.Before && errors.Is(err, futurejobs.ErrNotFound) {
		return listed, fmt.Errorf("rule %s, key %s: %w", job.Rule, job.Key, access.ErrDone)
	}
	return listed, err
}

// CreateAll begins waits by hand, as Create does, in one transaction.
func (n *node) CreateAll(ctx context.Context, jobs []web.NewJob) (web.StartResult, error) {
	now := n.clock.Now()
	var all rules.BulkStart
	applied, err := n.applyBatch(ctx, futurejobs.EffectBatch{AuditAction: string(access.JobCreate), Bulk: true, Once: access.OnceOf(ctx)}, func() ([]futurejobs.Effect, error) {
		if all = n.book.StartAll(jobs, now); all.Unknown() { // a rule may have been saved this moment
			if err := n.book.Refresh(ctx); err != nil {
				return nil, err
			}
			all = n.book.StartAll(jobs, now)
		}
		return all.Effects, nil
	})
	for _, place := range applied.Over {
		of := all.Places[place]
		all.Refused[of] = n.overQuota(jobs[of].Rule)
	}
	return web.NewStartResult(all, applied), err
}

// overQuota is why a job of a rule did not begin for which a quota had no room.
func (n *node) overQuota(rule string) error {
	quotas := n.allowances.OfJobs(rule)
	for _, q := range quotas {
		if q.Room() <= 0 {
			return q.Refusal(rule)
		}
	}
	for _, q := range quotas { // there is room again
		return q.Refusal(rule)
	}
	return fmt.Errorf("rule %s: %w", rule, access.ErrQuota)
}

// newestRule is the newest version of a rule, also of one that was saved this moment.
func (n *node) newestRule(ctx context.Context, name string) (*rules.Rule, error) {
	rule, err := n.book.Newest(name)
	if !errors.Is(err, futurejobs.ErrNotFound) {
		return rule, err
	}
	if err := n.book.Refresh(ctx); err != nil {
		return nil, err
	}
	return n.book.Newest(name)
}

// Cancel ends a job by hand. What was said about it is closed by an alert. A job that is
// not there is futurejobs.ErrNotFound.
func (n *node) Cancel(ctx context.Context, rule, key string) error {
	return n.applyToJob(ctx, access.JobCancel, rule, key, func(r *futurejobs.Rule, j futurejobs.Job) (*futurejobs.Effect, error) {
		effect := futurejobs.Cancel(r, j.Ref, access.ActorOf(ctx).Name)
		return &effect, nil
	})
}

// CancelEntity ends the pending jobs of all rules for an entity's key, and returns how many.
func (n *node) CancelEntity(ctx context.Context, entity, key string) (ended int, err error) {
	for {
		applied, err := n.applyEffects(ctx, access.JobCancel, func() ([]futurejobs.Effect, error) {
			page, err := n.store.Jobs(ctx, futurejobs.Filter{Entity: entity, Key: key, Limit: futurejobs.MaxLimit})
			if err != nil {
				return nil, err
			}
			var effects []futurejobs.Effect
			for _, job := range page.Items {
				made, err := n.book.Rule(ctx, job.RuleID, job.Version)
				if err != nil {
					return nil, err
				}
				effects = append(effects, futurejobs.Cancel(made, job.Ref, access.ActorOf(ctx).Name))
			}
			return effects, nil
		})
		if ended += applied.Ended; err != nil || applied.Ended == 0 {
			return ended, err
		}
	}
}

// Check looks at a job now. It ends if it is found not to be waited for any more; no step is
// taken. That somebody looked is in the audit, whatever came of it.
func (n *node) Check(ctx context.Context, rule, key string) (saw web.CheckResult, err error) {
	err = n.applyToJob(ctx, access.JobCheck, rule, key, func(r *futurejobs.Rule, j futurejobs.Job) (*futurejobs.Effect, error) {
		now := n.clock.Now()
		next := web.NextLook(n.book, rule, j, now)
		effect, ends, err := r.CheckNow(ctx, j, now)
		switch {
		case err != nil:
			saw = web.CheckResult{Next: next, Unknown: true, Reason: "could not find out: " + err.Error()}
			return nil, nil //nolint:nilerr // that it could not find out is the answer
		case !ends:
			saw = web.CheckResult{Next: next, Reason: reasonStillPending}
			return nil, nil
		}
		end := effect.Action.(futurejobs.End)
		saw = web.CheckResult{Ended: true, Outcome: string(end.Outcome), Reason: end.Reason}
		return &effect, nil
	})
	if err != nil || saw.Ended { // the end of the job is audited with it
		return saw, err
	}
	came := reasonStillPending
	if saw.Unknown {
		came = "could not find out"
	}
	return saw, n.store.Note(ctx, access.JobCheck, "job/"+rule+"/"+key, came)
}

// reasonStillPending is what came of a look by hand that found that it has not happened.
const reasonStillPending = "still waiting"

// Snooze puts a job's next look off until an instant; one that is later stays where it is. An instant beyond
// the rule's horizon is rules.Problems: nobody would notice that the job is never looked at.
func (n *node) Snooze(ctx context.Context, rule, key string, until time.Time) (futurejobs.ListedJob, error) {
	err := n.applyToJob(ctx, access.JobSnooze, rule, key, func(r *futurejobs.Rule, j futurejobs.Job) (*futurejobs.Effect, error) {
		if !j.PausedAt().IsZero() {
			return nil, fmt.Errorf("rule %s, key %s: %w", rule, key, futurejobs.ErrPaused)
		}
		if until.Sub(n.clock.Now()) > r.Limits.Horizon {
			return nil, rules.Problems{{Pointer: "/until", Rule: rule, Message: fmt.Sprintf(
				"%s is beyond the horizon, %s; choose an earlier instant, or raise guards.horizon", until.Format(time.RFC3339), rules.Duration(r.Limits.Horizon))}}
		}
		return &futurejobs.Effect{Rule: r, Ref: j.Ref, Action: futurejobs.Snooze{Until: until, By: access.ActorOf(ctx).Name}}, nil
	})
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	return n.store.Job(ctx, rule, key)
}
