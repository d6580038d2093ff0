package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/store"
)

// acks acknowledges alerts.
type acks struct {
	store   *store.Store
	jobs    *manualJobs
	observe func(a alerts.Alert, isWritten bool, err error) error
}

// Acknowledge suppresses the steps of an alert's job until ack.Until, and returns the job. It returns
// futurejobs.ErrNotFound for an unknown alert and futurejobs.ErrJobEnded if the job has ended.
func (a *acks) Acknowledge(ctx context.Context, id alerts.ID, ack futurejobs.Ack) (futurejobs.ListedJob, error) {
	ack.Alert, ack.By = id, access.ActorOf(ctx).Name
	return a.setAck(ctx, access.AlertAck, ack)
}

// AcknowledgeAll acknowledges alerts in one transaction, and returns their number. Alerts whose jobs have ended are left
// out.
func (a *acks) AcknowledgeAll(ctx context.Context, all []futurejobs.ListedAlert, ack futurejobs.Ack) (int, error) {
	ack.By = access.ActorOf(ctx).Name
	return a.setAll(ctx, access.AlertAck, all, ack)
}

// UnacknowledgeAll removes acknowledgements in one transaction, and returns their number. Alerts whose jobs have ended are
// left out.
func (a *acks) UnacknowledgeAll(ctx context.Context, all []futurejobs.ListedAlert) (int, error) {
	return a.setAll(ctx, access.AlertUnack, all, futurejobs.Ack{})
}

func (a *acks) setAll(ctx context.Context, what access.Action, all []futurejobs.ListedAlert, ack futurejobs.Ack) (int, error) {
	applied, err := a.jobs.applyEffects(ctx, what, func() ([]futurejobs.Effect, error) {
		var effects []futurejobs.Effect
		for _, listed := range all {
			ack.Alert = listed.ID
			effect, err := a.jobs.effectOnJob(ctx, listed.Rule, listed.Key, acknowledges(ack))
			if errors.Is(err, futurejobs.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			effects = append(effects, effect...)
		}
		return effects, nil
	})
	return applied.Changed, err
}

// acknowledges returns the function that returns the effect of an acknowledgement on the job of its alert. The function
// returns futurejobs.ErrNotFound if a job did not raise the alert.
func acknowledges(ack futurejobs.Ack) func(*futurejobs.Rule, futurejobs.Job) (*futurejobs.Effect, error) {
	return func(r *futurejobs.Rule, j futurejobs.Job) (*futurejobs.Effect, error) {
		if !slices.Contains(j.Alerts, ack.Alert) {
			return nil, futurejobs.ErrNotFound
		}
		return &futurejobs.Effect{Rule: r, Ref: j.Ref, Action: futurejobs.Acknowledge{Ack: ack}}, nil
	}
}

// Unacknowledge removes the acknowledgement. It is not an error if the job was not acknowledged.
func (a *acks) Unacknowledge(ctx context.Context, id alerts.ID) (futurejobs.ListedJob, error) {
	return a.setAck(ctx, access.AlertUnack, futurejobs.Ack{Alert: id})
}

func (a *acks) setAck(ctx context.Context, what access.Action, ack futurejobs.Ack) (futurejobs.ListedJob, error) {
	listed, err := a.store.Alert(ctx, ack.Alert)
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	err = a.jobs.applyToJob(ctx, what, listed.Rule, listed.Key, acknowledges(ack))
	if errors.Is(err, futurejobs.ErrNotFound) {
		return futurejobs.ListedJob{}, a.jobEndedError(ctx, listed)
	}
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	job, err := a.store.Job(ctx, listed.Rule, listed.Key)
	if err == nil && !slices.Contains(job.Alerts, ack.Alert) || errors.Is(err, futurejobs.ErrNotFound) {
		return futurejobs.ListedJob{}, a.jobEndedError(ctx, listed) // it ended this moment
	}
	return job, err
}

// CloseAlert cancels the job of an alert, or closes an alert about lost data. The key of a heartbeat is watched again, by a new
// job. It returns futurejobs.ErrNotFound for an unknown alert and futurejobs.ErrJobEnded if it is closed already or closes by
// itself.
func (a *acks) CloseAlert(ctx context.Context, id alerts.ID, reason string) error {
	listed, err := a.store.Alert(ctx, id)
	if err != nil {
		return err
	}
	if listed.Rule == alerts.SystemRule {
		resolved, err := a.store.CloseLoss(ctx, listed.Alert, reason)
		if errors.Is(err, futurejobs.ErrNotFound) {
			return fmt.Errorf("alert %s is closed already, or is of the node itself and closes by itself: %w", id, futurejobs.ErrJobEnded)
		}
		return a.observe(resolved, err == nil, err)
	}
	err = a.jobs.applyToJob(ctx, access.JobCancel, listed.Rule, listed.Key, func(r *futurejobs.Rule, j futurejobs.Job) (*futurejobs.Effect, error) {
		if !slices.Contains(j.Alerts, id) {
			return nil, futurejobs.ErrNotFound
		}
		effect := futurejobs.CancelWithReason(r, j.Ref, access.ActorOf(ctx).Name, reason)
		err := a.jobs.watchAgain(ctx, &effect, j)
		return &effect, err
	})
	if errors.Is(err, futurejobs.ErrNotFound) {
		return a.jobEndedError(ctx, listed)
	}
	return err
}

// jobEndedError returns the reason that an alert can be neither acknowledged nor closed, with the end time and outcome of its job if
// history still has them.
func (a *acks) jobEndedError(ctx context.Context, listed futurejobs.ListedAlert) error {
	if listed.Rule == alerts.SystemRule {
		return a.systemAlertError(ctx, listed.Alert)
	}
	if futurejobs.IsOutage(listed.Alert) {
		return fmt.Errorf("alert %s is about an outage, and closes by itself once %s is available again: %w", listed.ID, listed.Source, futurejobs.ErrJobEnded)
	}
	f := futurejobs.Filter{Rule: listed.Rule, Entity: listed.Entity, Key: listed.Key, After: listed.DecidedAt, Limit: futurejobs.MaxLimit}
	page, err := a.store.History(ctx, f)
	if err != nil {
		return err
	}
	for _, e := range page.Items {
		if slices.Contains(e.Alerts, listed.ID) {
			return fmt.Errorf("alert %s is over since %s (%s): %w", listed.ID, e.EndedAt.UTC().Format(time.RFC3339), e.Outcome, futurejobs.ErrJobEnded)
		}
	}
	return fmt.Errorf("alert %s is over: %w", listed.ID, futurejobs.ErrJobEnded)
}

// systemAlertError returns the reason that an alert of the node itself cannot be acknowledged.
func (a *acks) systemAlertError(ctx context.Context, system alerts.Alert) error {
	end, err := a.store.Alert(ctx, alerts.ResolvingID(system.Key, system.Step, system.Since))
	switch {
	case err == nil:
		return fmt.Errorf("alert %s is over since %s: %s: %w", system.ID, end.DecidedAt.UTC().Format(time.RFC3339), end.Text, futurejobs.ErrJobEnded)
	case !errors.Is(err, futurejobs.ErrNotFound):
		return err
	default:
		return fmt.Errorf("alert %s is of the node itself: it closes by itself, or is about lost data and can be closed: %w", system.ID, futurejobs.ErrJobEnded)
	}
}
