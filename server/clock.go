package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/periodic"
	"deadman/internal/store"
	"deadman/web"
)

// corrected is a store with the engine's corrected time instead of the database's clock.
type corrected struct{ *store.Store }

// Now implements futurejobs.GapStore.
func (c corrected) Now(ctx context.Context) (time.Time, error) { return c.Time(ctx) }

// shifting describes the progress of moving jobs after a clock step.
func shifting(open []futurejobs.Shift) string {
	jobs := int64(0)
	for _, s := range open {
		jobs += s.Jobs
	}
	return fmt.Sprintf("the database's clock stepped by %s, and jobs are moved by as much: %d so far, %d shards to go",
		open[0].By.Round(time.Millisecond), jobs, len(open))
}

const (
	// clockTopic is the topic of alerts about the database's clock.
	clockTopic = "clock"
	// watchEvery is the interval of the checks for clock steps. They read memory only.
	watchEvery = 500 * time.Millisecond
	// stepOld is the age up to which a node that takes over still reports a step: an older one was reported by
	// another node.
	stepOld = 5 * time.Second
)

// clockWatch raises an alert when the database's clock steps, and resolves it when the clock runs evenly again. The
// maintenance node reports for all nodes.
type clockWatch struct {
	clock                 *futurejobs.Clock
	shifts                *futurejobs.Shifter
	holds                 func() bool                          // the maintenance shard
	shiftedJobs           func(context.Context) (int64, error) // jobs, by the last followed step
	openAlert, closeAlert func(context.Context, alerts.SystemAlert) (alerts.Alert, bool, error)
	noteAlert             func(alerts.Alert, bool, error) error
	log                   *slog.Logger

	logged   int64     // number of logged steps
	loggedAt time.Time // by the clock of this process, as the database's stepped
	seen     int64     // number of processed steps
	ended    bool      // no alert is open, as far as known to this node
}

// Run runs steps until ctx ends.
func (w *clockWatch) Run(ctx context.Context) error {
	return periodic.Run(ctx, watchEvery, w.log, "clock watch", w.step)
}

// step raises an alert for a new clock step, and resolves it once the clock runs evenly.
func (w *clockWatch) step(ctx context.Context) error {
	last, seen := w.clock.Latest()
	isNew := seen != w.seen
	if seen != w.logged {
		w.logged, w.loggedAt = seen, time.Now()
		w.log.Warn("the database's clock stepped", "from", last.From, "to", last.To, "by", last.By(), "steps", seen)
	}
	if !w.holds() {
		w.ended = false // another node may have raised one
		if isNew && time.Since(w.loggedAt) > stepOld {
			w.seen = seen
		}
		return nil
	}
	if isNew {
		if err := w.noteAlert(w.openAlert(ctx, stepped(last, alerts.Firing))); err != nil {
			return err
		}
		w.seen, w.ended = seen, false
	}
	if w.ended || w.clock.InDoubt() || len(w.shifts.Open()) > 0 {
		return nil
	}
	moved, err := w.shiftedJobs(ctx)
	if err != nil {
		return err
	}
	r := stepped(last, alerts.Resolved)
	if last.Believed && moved > 0 {
		r.Text += fmt.Sprintf("; %d jobs were moved by as much", moved)
	}
	if err := w.noteAlert(w.closeAlert(ctx, r)); err != nil {
		return err
	}
	if last.Over {
		w.log.Info("the database clock runs evenly", "steps", seen, "followed", last.Believed, "jobs_moved", moved)
	}
	w.ended = true
	return nil
}

// stepped returns the alert about a clock step.
func stepped(s futurejobs.Step, status alerts.Status) alerts.SystemAlert {
	r := alerts.SystemAlert{Topic: clockTopic, Step: "step", Status: status, Severity: alerts.Error, Since: s.At}
	what := fmt.Sprintf("the database's clock stepped by %s, from %s to %s",
		s.By().Round(time.Millisecond), s.From.Format(time.RFC3339), s.To.Format(time.RFC3339))
	switch {
	case status == alerts.Firing:
		r.Text = what + "; checks go by the time that passed until the clock is back, or the step has lasted 10 s"
	case s.Believed:
		r.Text = "the database's clock runs evenly; checks follow it: " + what
	default:
		r.Text = "the database's clock runs evenly and is back; checks did not follow it: " + what
	}
	return r
}

// condition returns the condition of the database's clock.
func (w *clockWatch) condition() web.Condition {
	err := w.clock.Err()
	c := condition("clock", err, "the database clock runs evenly", "")
	open := w.shifts.Open()
	switch {
	case err != nil:
		c.Detail = err.Error()
	case len(open) > 0:
		c.OK, c.Detail = false, shifting(open)
	}
	return c
}
