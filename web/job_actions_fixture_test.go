package web_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
	"deadman/web"
)

var (
	_ web.JobActions = (*fixture)(nil)
	_ web.AlertAcks  = (*fixture)(nil)
)

// applyAction applies an action to the job of a rule and a key, in the real store.
func (s *fixture) applyAction(ctx context.Context, what, rule, key string, send func(*futurejobs.Rule, futurejobs.Job) (futurejobs.Effect, error)) error {
	if err := s.rules.Catalog.Refresh(ctx); err != nil {
		return err
	}
	job, err := s.store.Job(ctx, rule, key)
	if err != nil {
		return err
	}
	made, err := s.rules.Catalog.Rule(ctx, job.RuleID, job.Version)
	if err != nil {
		return err
	}
	effect, err := send(made, job.Job)
	if err != nil || effect.Action == nil {
		return err
	}
	_, err = s.store.Apply(ctx, futurejobs.EffectBatch{RuleSet: s.rules.Catalog.Revision(), AuditAction: what, Effects: []futurejobs.Effect{effect}})
	return err
}

// Create and the six methods that follow implement web.JobActions.
func (s *fixture) Create(ctx context.Context, j web.NewJob) (futurejobs.ListedJob, error) {
	if err := s.rules.Catalog.Refresh(ctx); err != nil {
		return futurejobs.ListedJob{}, err
	}
	rule, err := s.rules.Catalog.Newest(j.Rule)
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	effect, err := rule.Start(j.Key, j.Since, time.Now().UTC(), j.Event, s.store.Shards())
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	done, err := s.store.Apply(ctx, futurejobs.EffectBatch{RuleSet: s.rules.Catalog.Revision(), AuditAction: "job.create", Effects: []futurejobs.Effect{effect}})
	if err == nil && done.Kept > 0 {
		err = fmt.Errorf("rule %s, key %s: %w", j.Rule, j.Key, futurejobs.ErrExists)
	}
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	return s.store.Job(ctx, j.Rule, j.Key)
}

func (s *fixture) CreateAll(ctx context.Context, jobs []web.NewJob) (web.StartResult, error) {
	if err := s.rules.Catalog.Refresh(ctx); err != nil {
		return web.StartResult{}, err
	}
	all := s.rules.Catalog.StartAll(jobs, time.Now().UTC())
	if len(all.Effects) == 0 {
		return web.NewStartResult(all, futurejobs.ApplyResult{}), nil
	}
	done, err := s.store.Apply(ctx, futurejobs.EffectBatch{RuleSet: s.rules.Catalog.Revision(), AuditAction: "job.create", Bulk: true, Effects: all.Effects})
	return web.NewStartResult(all, done), err
}

func (s *fixture) Cancel(ctx context.Context, rule, key, reason string) error {
	return s.applyAction(ctx, "job.cancel", rule, key, func(r *futurejobs.Rule, j futurejobs.Job) (futurejobs.Effect, error) {
		return futurejobs.CancelWithReason(r, j.Ref, access.ActorOf(ctx).Name, reason), nil
	})
}

func (s *fixture) CancelEntity(ctx context.Context, entity, key string) (int, error) {
	page, err := s.store.Jobs(ctx, futurejobs.Filter{Entity: entity, Key: key, Limit: futurejobs.MaxLimit})
	for _, j := range page.Items {
		if err := s.Cancel(ctx, j.Rule, key, ""); err != nil {
			return 0, err
		}
	}
	return len(page.Items), err
}

func (s *fixture) Check(ctx context.Context, rule, key string) (saw web.CheckResult, err error) {
	err = s.applyAction(ctx, "job.check", rule, key, func(r *futurejobs.Rule, j futurejobs.Job) (futurejobs.Effect, error) {
		effect, ends, err := r.CheckNow(ctx, j, time.Now().UTC())
		if saw.Ended = ends; !ends {
			saw.NextCheckAt = j.NextCheckAt
			return futurejobs.Effect{}, err
		}
		return effect, err
	})
	return saw, err
}

func (s *fixture) Snooze(ctx context.Context, rule, key string, until time.Time) (futurejobs.ListedJob, error) {
	err := s.applyAction(ctx, "job.snooze", rule, key, func(r *futurejobs.Rule, j futurejobs.Job) (futurejobs.Effect, error) {
		return futurejobs.Effect{Rule: r, Ref: j.Ref, Action: futurejobs.Snooze{Until: until}}, nil
	})
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	return s.store.Job(ctx, rule, key)
}

func (s *fixture) CancelAll(ctx context.Context, all []web.JobName, reason string) (n int, err error) {
	for _, j := range all {
		switch err := s.Cancel(ctx, j.Rule, j.Key, reason); {
		case err == nil:
			n++
		case !errors.Is(err, futurejobs.ErrNotFound):
			return n, err
		}
	}
	return n, nil
}

func (s *fixture) SnoozeAll(ctx context.Context, all []web.JobName, until time.Time) (done web.SnoozedJobs, err error) {
	for _, j := range all {
		switch _, err := s.Snooze(ctx, j.Rule, j.Key, until); {
		case err == nil:
			done.Snoozed++
		case !errors.Is(err, futurejobs.ErrNotFound):
			return done, err
		}
	}
	return done, nil
}

// Acknowledge and the two methods that follow implement web.AlertAcks.
func (s *fixture) Acknowledge(ctx context.Context, id alerts.ID, a futurejobs.Ack) (futurejobs.ListedJob, error) {
	a.Alert, a.By = id, access.ActorOf(ctx).Name
	listed, err := s.store.Alert(ctx, id)
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	err = s.applyAction(ctx, "alert.ack", listed.Rule, listed.Key, func(r *futurejobs.Rule, j futurejobs.Job) (futurejobs.Effect, error) {
		return futurejobs.Effect{Rule: r, Ref: j.Ref, Action: futurejobs.Acknowledge{Ack: a}}, nil
	})
	if errors.Is(err, futurejobs.ErrNotFound) {
		return futurejobs.ListedJob{}, fmt.Errorf("alert %s: %w", id, futurejobs.ErrJobEnded)
	}
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	return s.store.Job(ctx, listed.Rule, listed.Key)
}

func (s *fixture) AcknowledgeAll(ctx context.Context, all []futurejobs.ListedAlert, a futurejobs.Ack) (n int, err error) {
	for _, listed := range all {
		_, err := s.Acknowledge(ctx, listed.ID, a)
		switch {
		case errors.Is(err, futurejobs.ErrJobEnded):
		case err != nil:
			return n, err
		default:
			n++
		}
	}
	return n, nil
}

func (s *fixture) UnacknowledgeAll(ctx context.Context, all []futurejobs.ListedAlert) (int, error) {
	return s.AcknowledgeAll(ctx, all, futurejobs.Ack{})
}

func (s *fixture) Unacknowledge(ctx context.Context, id alerts.ID) (futurejobs.ListedJob, error) {
	return s.Acknowledge(ctx, id, futurejobs.Ack{})
}

// saveRule saves a rule.
func (s *fixture) saveRule(text string) rules.Change {
	s.t.Helper()
	c, err := s.rules.Save(s.t.Context(), []byte(text), "", rules.SaveOptions{Version: rules.AnyVersion})
	failOn(s.t, err)
	return c
}

// CloseAlert closes the alert of a job.
func (s *fixture) CloseAlert(ctx context.Context, id alerts.ID, reason string) error {
	listed, err := s.store.Alert(ctx, id)
	if err != nil {
		return err
	}
	return s.Cancel(ctx, listed.Rule, listed.Key, reason)
}
