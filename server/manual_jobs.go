package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"deadman/rules/document"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/web"
)

// maxConflictRetries bounds the retries of an action after concurrent changes of the rules or the job.
const maxConflictRetries = 5

// manualJobs creates, checks, snoozes and cancels jobs for a person.
type manualJobs struct {
	store   *store.Store
	catalog *rules.Catalog
	quotas  *access.Quotas
	sweeper *futurejobs.Sweeper
	alerted func(alerts.Alert) // observes a written alert
	now     func() time.Time   // the database's time
}

// applyEffects applies the effects returned by decide, and calls decide again if the rules changed meanwhile.
func (m *manualJobs) applyEffects(ctx context.Context, what access.Action, decide func() ([]futurejobs.Effect, error)) (futurejobs.ApplyResult, error) {
	return m.applyBatch(ctx, futurejobs.EffectBatch{AuditAction: string(what)}, decide)
}

// applyBatch is applyEffects for a prepared batch; it fills in the effects and the rule revision.
func (m *manualJobs) applyBatch(ctx context.Context, b futurejobs.EffectBatch, decide func() ([]futurejobs.Effect, error)) (futurejobs.ApplyResult, error) {
	for range maxConflictRetries {
		var err error
		b.RuleSet = m.catalog.Revision()
		if b.Effects, err = decide(); err != nil || len(b.Effects) == 0 {
			return futurejobs.ApplyResult{}, err
		}
		applied, err := m.store.Apply(ctx, b)
		if errors.Is(err, futurejobs.ErrRulesChanged) {
			if err := m.catalog.Refresh(ctx); err != nil {
				return futurejobs.ApplyResult{}, err
			}
			continue
		}
		m.observeApplied(applied)
		return applied, err
	}
	return futurejobs.ApplyResult{}, futurejobs.ErrRulesChanged
}

// observeApplied reports the result of effects to metrics, the log and the sweep.
func (m *manualJobs) observeApplied(done futurejobs.ApplyResult) {
	for _, a := range done.Alerts {
		m.alerted(a)
	}
	if done.Created+done.Changed > 0 {
		m.sweeper.Wake() // a job may be due before all others
	}
}

// applyToJob is applyEffects for the pending job of a rule and key; it calls decide again if the job changed meanwhile.
// It returns futurejobs.ErrNotFound if no job is pending. If decide returns nil, it applies nothing.
func (m *manualJobs) applyToJob(ctx context.Context, what access.Action, rule, key string, decide func(*futurejobs.Rule, futurejobs.Job) (*futurejobs.Effect, error)) error {
	for range maxConflictRetries {
		applied, err := m.applyEffects(ctx, what, func() ([]futurejobs.Effect, error) { return m.effectOnJob(ctx, rule, key, decide) })
		if err != nil || applied.Missed == 0 {
			return err
		}
	}
	return futurejobs.ErrCursorMoved
}

// effectOnJob calls decide with the pending job of a rule and key.
func (m *manualJobs) effectOnJob(ctx context.Context, rule, key string, decide func(*futurejobs.Rule, futurejobs.Job) (*futurejobs.Effect, error)) ([]futurejobs.Effect, error) {
	job, err := m.store.Job(ctx, rule, key)
	if err != nil {
		return nil, err
	}
	made, err := m.catalog.Rule(ctx, job.RuleID, job.Version)
	if err != nil {
		return nil, err
	}
	effect, err := decide(made, job.Job)
	if effect == nil {
		return nil, err
	}
	return []futurejobs.Effect{*effect}, err
}

// Create creates a job by hand, like the rule's trigger. It returns futurejobs.ErrExists if one is pending.
func (m *manualJobs) Create(ctx context.Context, job web.NewJob) (futurejobs.ListedJob, error) {
	now := m.now()
	batch := futurejobs.EffectBatch{AuditAction: string(access.JobCreate), RequestID: access.OnceOf(ctx)}
	applied, err := m.applyBatch(ctx, batch, func() ([]futurejobs.Effect, error) {
		rule, err := m.newestRule(ctx, job.Rule)
		if err != nil {
			return nil, err
		}
		effect, err := rule.Start(job.Key, job.Since, now, job.Event, m.store.Shards())
		return []futurejobs.Effect{effect}, err
	})
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	if len(applied.Over) > 0 {
		return futurejobs.ListedJob{}, m.overQuota(job.Rule)
	}
	if applied.Kept > 0 {
		return futurejobs.ListedJob{}, fmt.Errorf("rule %s, key %s: %w", job.Rule, job.Key, futurejobs.ErrExists)
	}
	listed, err := m.store.Job(ctx, job.Rule, job.Key)
	if applied.Repeated && errors.Is(err, futurejobs.ErrNotFound) {
		return listed, fmt.Errorf("rule %s, key %s: %w", job.Rule, job.Key, access.ErrDone)
	}
	return listed, err
}

// CreateAll creates jobs by hand, like Create, in one transaction.
func (m *manualJobs) CreateAll(ctx context.Context, jobs []web.NewJob) (web.StartResult, error) {
	now := m.now()
	var all rules.BulkStart
	applied, err := m.applyBatch(ctx, futurejobs.EffectBatch{AuditAction: string(access.JobCreate), Bulk: true, RequestID: access.OnceOf(ctx)}, func() ([]futurejobs.Effect, error) {
		if all = m.catalog.StartAll(jobs, now); all.Unknown() { // a rule may have been saved this moment
			if err := m.catalog.Refresh(ctx); err != nil {
				return nil, err
			}
			all = m.catalog.StartAll(jobs, now)
		}
		return all.Effects, nil
	})
	for _, place := range applied.Over {
		of := all.Places[place]
		all.Refused[of] = m.overQuota(jobs[of].Rule)
	}
	return web.NewStartResult(all, applied), err
}

// overQuota returns the error of a job that was not created because of a quota.
func (m *manualJobs) overQuota(rule string) error {
	quotas := m.quotas.OfJobs(rule)
	for _, q := range quotas {
		if q.Room() <= 0 {
			return q.Refusal(rule)
		}
	}
	for _, q := range quotas { // capacity is free again
		return q.Refusal(rule)
	}
	return fmt.Errorf("rule %s: %w", rule, access.ErrQuota)
}

// newestRule returns the newest version of a rule, including one saved just now.
func (m *manualJobs) newestRule(ctx context.Context, name string) (*rules.Rule, error) {
	rule, err := m.catalog.Newest(name)
	if !errors.Is(err, futurejobs.ErrNotFound) {
		return rule, err
	}
	if err := m.catalog.Refresh(ctx); err != nil {
		return nil, err
	}
	return m.catalog.Newest(name)
}

// watchAgain makes the end of a heartbeat's job begin another one, unless the rule rests or is deleted.
func (m *manualJobs) watchAgain(ctx context.Context, ended *futurejobs.Effect, j futurejobs.Job) error {
	end, isEnd := ended.Action.(futurejobs.End)
	rule, err := m.newestRule(ctx, ended.Rule.Name)
	if errors.Is(err, futurejobs.ErrNotFound) || !isEnd || m.catalog.Paused(ended.Rule.Name) {
		return nil
	}
	if err != nil {
		return err
	}
	end.Begin, err = rules.WatchAgain(rule, j, m.now())
	ended.Action = end
	return err
}

// Cancel ends a job by hand, for a reason that may be empty. An alert closes its open alerts. It returns futurejobs.ErrNotFound if no job is pending.
func (m *manualJobs) Cancel(ctx context.Context, rule, key, reason string) error {
	return m.applyToJob(ctx, access.JobCancel, rule, key, cancels(ctx, reason))
}

// jobDecision returns the effect of an action on a pending job; nil: none.
type jobDecision func(*futurejobs.Rule, futurejobs.Job) (*futurejobs.Effect, error)

// cancels returns the function that returns the effect of a cancellation on a job.
func cancels(ctx context.Context, reason string) jobDecision {
	return func(r *futurejobs.Rule, j futurejobs.Job) (*futurejobs.Effect, error) {
		effect := futurejobs.CancelWithReason(r, j.Ref, access.ActorOf(ctx).Name, reason)
		return &effect, nil
	}
}

// CancelEntity ends the pending jobs of all rules for an entity's key, and returns their number.
func (m *manualJobs) CancelEntity(ctx context.Context, entity, key string) (ended int, err error) {
	for {
		applied, err := m.applyEffects(ctx, access.JobCancel, func() ([]futurejobs.Effect, error) {
			page, err := m.store.Jobs(ctx, futurejobs.Filter{Entity: entity, Key: key, Limit: futurejobs.MaxLimit})
			if err != nil {
				return nil, err
			}
			var effects []futurejobs.Effect
			for _, job := range page.Items {
				made, err := m.catalog.Rule(ctx, job.RuleID, job.Version)
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

// Check checks a job now. The job ends if its condition no longer holds; no step is taken. The audit log records the
// check, whatever its result. It returns a futurejobs.UsedUpError to a tenant whose allowance for checks is used up.
func (m *manualJobs) Check(ctx context.Context, rule, key string) (saw web.CheckResult, err error) {
	err = m.applyToJob(ctx, access.JobCheck, rule, key, func(r *futurejobs.Rule, j futurejobs.Job) (*futurejobs.Effect, error) {
		now := m.now()
		next := web.NextCheck(m.catalog, rule, j, now)
		effect, ends, err := checkNow(ctx, r, j, now)
		var usedUp *futurejobs.UsedUpError
		switch {
		case errors.As(err, &usedUp):
			return nil, err
		case err != nil:
			saw = web.CheckResult{NextCheckAt: next, Undetermined: true, Reason: "undetermined: " + err.Error()}
			return nil, nil //nolint:nilerr // the undetermined check is the answer
		case !ends:
			saw = web.CheckResult{NextCheckAt: next, Reason: reasonStillPending}
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
	if saw.Undetermined {
		came = "undetermined"
	}
	return saw, m.store.Note(ctx, access.JobCheck, "job/"+rule+"/"+key, came)
}

// checkNow checks a job for the sender of a request: for a tenant only while its allowance lasts.
func checkNow(ctx context.Context, r *futurejobs.Rule, j futurejobs.Job, now time.Time) (effect futurejobs.Effect, ends bool, err error) {
	if b := access.BoundsOf(ctx); b != nil && b.Prefix != "" {
		return r.CheckForTenant(ctx, j, now)
	}
	return r.CheckNow(ctx, j, now)
}

// reasonStillPending is the audit text of a manual check that left the job pending.
const reasonStillPending = "still pending"

// Snooze postpones a job's next check to the given time; a later check is not moved. It returns rules.Problems for a
// time beyond the rule's horizon, because the job could then stay unchecked without notice.
func (m *manualJobs) Snooze(ctx context.Context, rule, key string, until time.Time) (futurejobs.ListedJob, error) {
	err := m.applyToJob(ctx, access.JobSnooze, rule, key, m.snoozes(ctx, until))
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	return m.store.Job(ctx, rule, key)
}

// snoozes returns the function that returns the effect of a snooze on a job. The function returns futurejobs.ErrPaused, and
// document.Problems beyond the horizon of the job's rule.
func (m *manualJobs) snoozes(ctx context.Context, until time.Time) jobDecision {
	return func(r *futurejobs.Rule, j futurejobs.Job) (*futurejobs.Effect, error) {
		if !j.PausedAt().IsZero() {
			return nil, fmt.Errorf("rule %s, key %s: %w", r.Name, j.Key, futurejobs.ErrPaused)
		}
		if until.Sub(m.now()) > r.Limits.Horizon {
			return nil, document.Problems{{Pointer: "/until", Rule: r.Name, Message: fmt.Sprintf(
				"%s is beyond the horizon, %s; choose an earlier instant, or raise guards.horizon", until.Format(time.RFC3339), document.Duration(r.Limits.Horizon))}}
		}
		return &futurejobs.Effect{Rule: r, Ref: j.Ref, Action: futurejobs.Snooze{Until: until, By: access.ActorOf(ctx).Name}}, nil
	}
}

// SnoozeAll snoozes jobs in one transaction. Jobs that have ended are left out; paused ones and those of rules with a
// shorter horizon are left out and counted.
func (m *manualJobs) SnoozeAll(ctx context.Context, all []web.JobName, until time.Time) (done web.SnoozedJobs, err error) {
	snooze := m.snoozes(ctx, until)
	counted := func(r *futurejobs.Rule, j futurejobs.Job) (*futurejobs.Effect, error) {
		effect, err := snooze(r, j)
		if err == nil && !r.SnoozeDelays(j, until) {
			done.Ineffective++
		}
		return effect, err
	}
	applied, err := m.applyEffects(ctx, access.JobSnooze, func() ([]futurejobs.Effect, error) {
		done = web.SnoozedJobs{}
		return m.effectsOnJobs(ctx, all, counted, func(err error) bool {
			var beyond document.Problems
			switch {
			case errors.Is(err, futurejobs.ErrPaused):
				done.Paused++
			case errors.As(err, &beyond):
				done.BeyondHorizon++
			default:
				return false
			}
			return true
		})
	})
	done.Snoozed = int64(applied.Changed)
	done.Ineffective = min(done.Ineffective, done.Snoozed) // a job may have ended since it was counted
	return done, err
}

// CancelAll cancels jobs in one transaction, and returns their number. Jobs that have ended are left out.
func (m *manualJobs) CancelAll(ctx context.Context, all []web.JobName, reason string) (int, error) {
	applied, err := m.applyEffects(ctx, access.JobCancel, func() ([]futurejobs.Effect, error) {
		return m.effectsOnJobs(ctx, all, cancels(ctx, reason), func(error) bool { return false })
	})
	return applied.Ended, err
}

// effectsOnJobs returns the effects of a decision on pending jobs. Jobs that have ended, and those with an error that skip
// accepts, are left out.
func (m *manualJobs) effectsOnJobs(ctx context.Context, all []web.JobName, decide jobDecision, skip func(error) bool) (effects []futurejobs.Effect, err error) {
	for _, j := range all {
		effect, err := m.effectOnJob(ctx, j.Rule, j.Key, decide)
		switch {
		case err == nil:
			effects = append(effects, effect...)
		case errors.Is(err, futurejobs.ErrNotFound) || skip(err):
		default:
			return nil, err
		}
	}
	return effects, nil
}
