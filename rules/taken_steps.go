package rules

import (
	"context"
	"errors"
	"slices"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// countAgain returns the function that counts the steps of a job again when it moves from its version to a rule. A version
// that no node can read leaves the count as it is; any other error prevents the move.
func countAgain(ctx context.Context, c *Catalog, to *Rule, from int32) (count func(futurejobs.Job) int, err error) {
	v, err := c.version(ctx, c.current.Load(), id{to.engine.ID, from})
	if err != nil && !errors.Is(err, futurejobs.ErrNotFound) {
		return nil, err
	}
	var was *Rule
	if err == nil {
		was, _ = v.compiled()
	}
	return func(j futurejobs.Job) int {
		if was == nil || j.Version != from { // the job of a kept trigger may have another version; it has taken no step
			return j.Step
		}
		return stepsTaken(was.escalation, to.escalation, j)
	}, nil
}

// stepsTaken returns how many steps a job that moves to another version has taken: those of its timeline up to the first
// one still to come. Steps up to the slot of the last step taken are passed, whether they are new, renamed or earlier than
// before, as a check that is late passes all but the highest. A later step is passed if the job has taken it: it is known by
// its name. The turns of a repeated step are known by their slots only. A handler counts its steps itself.
func stepsTaken(was, to *escalation, j futurejobs.Job) int {
	if j.Step == 0 || len(was.steps) == 0 || len(to.steps) == 0 {
		return j.Step
	}
	before, err := was.timeline(contextOf(j))
	if err != nil {
		return j.Step // a check of the job reports the error
	}
	line, err := to.timeline(contextOf(j))
	if err != nil {
		return j.Step // likewise
	}
	taken := before[:min(j.Step, len(before))]
	last := was.grid.Up(taken[len(taken)-1].at)
	return prefix(line, func(s stepTime) bool {
		return !to.grid.Up(s.at).After(last) || s.turns == 1 && slices.ContainsFunc(taken, func(b stepTime) bool { return b.name == s.name })
	})
}

// stepsLeft returns how many steps a job has taken after the calendars of its rule changed. They move the steps that they
// count or postpone, so that a fixed step may come before one that was taken: the job takes it then, and after it the moved
// one again. A lost alert would be worse than a repeated one.
func stepsLeft(e *escalation) func(futurejobs.Job) int {
	return func(j futurejobs.Job) int {
		if j.Step == 0 || e.rising || len(j.Alerts) == 0 {
			return j.Step
		}
		line, err := e.timeline(contextOf(j))
		if err != nil {
			return j.Step // a check of the job reports the error
		}
		last := e.grid.Up(alerts.TimeOf(j.Alerts[len(j.Alerts)-1]))
		return min(j.Step, prefix(line, func(s stepTime) bool {
			return s.isMovable() || s.every || !e.grid.Up(s.at).After(last)
		}))
	}
}

// prefix returns the number of steps at the beginning of a timeline for which is returns true.
func prefix(line []stepTime, is func(stepTime) bool) int {
	if n := slices.IndexFunc(line, func(s stepTime) bool { return !is(s) }); n >= 0 {
		return n
	}
	return len(line)
}
