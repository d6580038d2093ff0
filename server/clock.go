package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// corrected is a store that tells the time that the engine goes by, and not what its clock shows.
type corrected struct{ *store.Store }

// Now implements futurejobs.GapStore.
func (c corrected) Now(ctx context.Context) (time.Time, error) { return c.Time(ctx) }

// place is when an event happened that the broker says happened at an instant. A broker in this process has the same
// clock as the database in its folder.
func (n *node) place(at time.Time) time.Time {
	if n.server != nil && n.store.SingleProcess() {
		return n.clock.PlaceShared(context.Background(), at) // it waits for a second at the most
	}
	return n.clock.Place(at, false)
}

// learnTime has the clock begin with the time of the nodes that run. A step that they follow meanwhile is learned with them.
func (n *node) learnTime(ctx context.Context) error {
	nodes := n.store.Nodes
	if n.store.SingleProcess() {
		nodes = func(context.Context) ([]futurejobs.Node, error) { return nil, nil }
	}
	for isNew := true; isNew; {
		if err := n.clock.Learn(ctx, nodes, n.owner.Interval()); err != nil {
			return err
		}
		var err error
		if isNew, err = n.store.KnowSteps(ctx); err != nil {
			return err
		}
	}
	return nil
}

// follow records a step before the engine goes by it, and finds out which jobs are to be moved.
func (n *node) follow(ctx context.Context, by time.Duration, isBack bool) error {
	if err := n.store.FollowStep(ctx, by, isBack); err != nil {
		return err
	}
	return n.shifter.Refresh(ctx)
}

// listening returns nil once what the node could not hear of is in the database, and the jobs that seem to be due are.
func (n *node) listening(ctx context.Context) error {
	if err := n.shifter.Ready(); err != nil {
		return err
	}
	return n.hearing.Flush(ctx)
}

// shifting says that jobs are moved by a step of the clock.
func shifting(open []futurejobs.Shift) string {
	jobs := int64(0)
	for _, s := range open {
		jobs += s.Jobs
	}
	return fmt.Sprintf("the database's clock stepped by %s, and jobs are moved by as much: %d so far, %d shards to go",
		open[0].By.Round(time.Millisecond), jobs, len(open))
}

const (
	// clockTopic is what remarks about the database's clock are about.
	clockTopic = "clock"
	// watchEvery is how often it is asked whether the clock stepped. It is memory that is asked.
	watchEvery = 500 * time.Millisecond
	// stepOld is how long after a step a node that takes over still reports it: later, another node has.
	stepOld = 5 * time.Second
)

// clockWatch alerts when the database's clock steps, and when it runs evenly again. The node that does the upkeep says
// it for all.
type clockWatch struct {
	clock      *futurejobs.Clock
	shifts     *futurejobs.Shifter
	holds      func() bool                          // the upkeep's shard
	moved      func(context.Context) (int64, error) // jobs, by the last step that was followed
	begin, end func(context.Context, alerts.SystemAlert) (alerts.Alert, bool, error)
	said       func(alerts.Alert, bool, error) error
	log        *slog.Logger

	logged   int64     // steps that were logged
	loggedAt time.Time // by the clock of this process: the database's stepped
	seen     int64     // steps that were looked at
	ended    bool      // no alert is open, as far as this node knows
}

// Run looks until ctx ends.
func (w *clockWatch) Run(ctx context.Context) error {
	r := rounds{
		every: watchEvery, atOnce: true, do: w.step, log: w.log, level: slog.LevelError,
		failed: "an alert about the database's clock cannot be written", works: "alerts about the database's clock are written again",
	}
	return r.Run(ctx)
}

// step raises an alert for a step that is new, and resolves it once the clock runs evenly.
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
		if err := w.said(w.begin(ctx, stepped(last, alerts.Firing))); err != nil {
			return err
		}
		w.seen, w.ended = seen, false
	}
	if w.ended || w.clock.InDoubt() || len(w.shifts.Open()) > 0 {
		return nil
	}
	moved, err := w.moved(ctx)
	if err != nil {
		return err
	}
	r := stepped(last, alerts.Resolved)
	if last.Believed && moved > 0 {
		r.Text += fmt.Sprintf("; %d jobs were moved by as much", moved)
	}
	if err := w.said(w.end(ctx, r)); err != nil {
		return err
	}
	if last.Over {
		w.log.Info("the database's clock runs evenly", "steps", seen, "followed", last.Believed, "jobs_moved", moved)
	}
	w.ended = true
	return nil
}

// stepped is the remark about a step.
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
