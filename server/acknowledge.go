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
)

// Acknowledge suppresses the steps of an alert's job until a.Until, and returns the job. It returns
// futurejobs.ErrNotFound for an unknown alert and futurejobs.ErrJobEnded if the job has ended.
func (n *node) Acknowledge(ctx context.Context, id alerts.ID, a futurejobs.Ack) (futurejobs.ListedJob, error) {
	a.Alert, a.By = id, access.ActorOf(ctx).Name
	return n.setAck(ctx, access.AlertAck, a)
}

// Unacknowledge removes the acknowledgement. It is not an error if the job was not acknowledged.
func (n *node) Unacknowledge(ctx context.Context, id alerts.ID) (futurejobs.ListedJob, error) {
	return n.setAck(ctx, access.AlertUnack, futurejobs.Ack{Alert: id})
}

func (n *node) setAck(ctx context.Context, what access.Action, a futurejobs.Ack) (futurejobs.ListedJob, error) {
	said, err := n.store.Alert(ctx, a.Alert)
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	err = n.applyToJob(ctx, what, said.Rule, said.Key, func(r *futurejobs.Rule, j futurejobs.Job) (*futurejobs.Effect, error) {
		if !slices.Contains(j.Alerts, a.Alert) {
			return nil, futurejobs.ErrNotFound
		}
		return &futurejobs.Effect{Rule: r, Ref: j.Ref, Action: futurejobs.Acknowledge{Ack: a}}, nil
	})
	if errors.Is(err, futurejobs.ErrNotFound) {
		return futurejobs.ListedJob{}, n.jobEndedError(ctx, said)
	}
	if err != nil {
		return futurejobs.ListedJob{}, err
	}
	job, err := n.store.Job(ctx, said.Rule, said.Key)
	if err == nil && !slices.Contains(job.Alerts, a.Alert) || errors.Is(err, futurejobs.ErrNotFound) {
		return futurejobs.ListedJob{}, n.jobEndedError(ctx, said) // it ended this moment
	}
	return job, err
}

// jobEndedError returns the reason that an alert can't be acknowledged, with the end time and outcome of its job if
// history still has them.
func (n *node) jobEndedError(ctx context.Context, said futurejobs.ListedAlert) error {
	if said.Rule == alerts.SystemRule {
		return fmt.Errorf("alert %s is of the node itself and closes by itself: %w", said.ID, futurejobs.ErrJobEnded)
	}
	if futurejobs.IsOutage(said.Alert) {
		return fmt.Errorf("alert %s is about an outage, and closes by itself once %s can be asked again: %w", said.ID, said.Source, futurejobs.ErrJobEnded)
	}
	f := futurejobs.Filter{Rule: said.Rule, Entity: said.Entity, Key: said.Key, After: said.DecidedAt, Limit: futurejobs.MaxLimit}
	page, err := n.store.History(ctx, f)
	if err != nil {
		return err
	}
	for _, e := range page.Items {
		if slices.Contains(e.Alerts, said.ID) {
			return fmt.Errorf("alert %s: that is over since %s (%s): %w", said.ID, e.EndedAt.UTC().Format(time.RFC3339), e.Outcome, futurejobs.ErrJobEnded)
		}
	}
	return fmt.Errorf("alert %s: that is over: %w", said.ID, futurejobs.ErrJobEnded)
}
