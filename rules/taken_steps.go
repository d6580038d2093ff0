package rules

import (
	"context"
	"slices"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// countAgain returns the function that counts the steps that a job of another version has taken when it moves to a rule.
func countAgain(ctx context.Context, c *Catalog, to *Rule) func(futurejobs.Job) int {
	return func(j futurejobs.Job) int {
		was, err := c.version(ctx, c.current.Load(), id{to.engine.ID, j.Version})
		if err != nil {
			return j.Step // no node can read the steps that it has taken
		}
		compiled, err := was.compiled()
		if err != nil {
			return j.Step // likewise
		}
		return stepsTaken(compiled.escalation, to.escalation, j)
	}
}

// stepsTaken returns how many steps a job that moves to another version has taken: those of its timeline up to the first
// step that is still to come. A step of both versions is known by its name and its turn. A step that its version did not
// have, a new or a renamed one, is passed if its slot is not after that of the last step taken. A handler counts its steps
// itself.
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
	taken := min(j.Step, len(before))
	last := was.grid.Up(before[taken-1].at)
	return prefix(line, func(s stepTime) bool {
		i := slices.IndexFunc(before, func(b stepTime) bool { return b.name == s.name && b.turn == s.turn })
		return i >= 0 && i < taken || i < 0 && !to.grid.Up(s.at).After(last)
	})
}

// stepsLeft returns how many steps a job has taken after the calendars of its rule changed. They move the steps that they
// count or postpone, so that another step may come before one that was taken: the job takes it then, and after it the moved
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
			return s.of != nil || s.within != nil || s.every || !e.grid.Up(s.at).After(last)
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
