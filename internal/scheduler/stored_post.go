package scheduler

import (
	"context"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/failpoints"
)

// post posts the events of planned ticks until held ends, and records the result of each. An event that was not accepted is
// posted again after a pause, until its attempts are used up: then its tick ends as failed, and an alert reports that. The
// error is that of a webhook that accepted none of them, so that the rule waits. An event that a shutdown interrupted, or that
// was not posted in time, stays planned: another node posts it when its claim expires.
func (u unit) post(ctx, held context.Context, planned []futurejobs.PlannedTick, events []futurejobs.Emission) error {
	if err := held.Err(); err != nil {
		return err
	}
	results := u.Poster.PostTicks(held, u.webhook.Channel, events)
	failpoints.Point("stored.posted")
	var emitted, refused, failed []futurejobs.PlannedTick
	for i, t := range planned {
		if results[i] == nil {
			emitted = append(emitted, t)
			continue
		}
		if ctx.Err() != nil {
			continue
		}
		t.Reason, t.RetryAt = results[i].Error(), time.Time{}
		if pause, again := u.webhook.Pause(t.Attempts); again {
			t.RetryAt = u.Now().Add(pause)
		} else {
			failed = append(failed, t)
		}
		refused = append(refused, t)
	}
	err := errors.Join(u.markEmitted(ctx, emitted), u.putOff(ctx, refused, failed))
	if len(emitted) == 0 {
		err = errors.Join(results[0], err)
	}
	return err
}

// putOff records ticks whose events were not accepted. An alert reports those that failed before their record says so.
func (u unit) putOff(ctx context.Context, refused, failed []futurejobs.PlannedTick) error {
	if len(refused) == 0 {
		return nil
	}
	noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), storedMarkLimit)
	defer cancel()
	if len(failed) > 0 {
		if err := u.Announce(noting, u.rule.Undelivered(failed)); err != nil {
			return err
		}
	}
	if err := u.Store.PutOffTicks(noting, refused); err != nil {
		return err
	}
	if len(failed) > 0 {
		u.Observer.Ticked(u.rule.Name(), futurejobs.TickFailed, len(failed))
		for _, t := range failed {
			u.Loads.Ticked(t.RuleID, t.At, t.Missed, 0)
		}
	}
	return nil
}
