package rules

import (
	"time"

	"deadman/rules/document"
)

// guardCompiler validates the guards of a rule.
type guardCompiler struct{ *compiler }

// guards validates the guards: each within its limits, and none below what the steps need.
func (c guardCompiler) guards() {
	d := c.document
	g := d.Guards
	if g.Timeout <= 0 || g.Timeout > longestCheck {
		c.problem("/guards/timeout", "%s is not between 1ms and %s", g.Timeout, longestCheck)
	}
	if g.Attempts < 1 || g.Attempts > document.MaxAttempts {
		c.problem("/guards/attempts", "%d is not between 1 and %d", g.Attempts, document.MaxAttempts)
	}
	if g.Interval < 0 || g.Interval > longestRetry {
		c.problem("/guards/interval", "%s is not between 0 and %s", g.Interval, longestRetry)
	}
	if g.Jitter < 0 || g.Jitter > longestRetry {
		c.problem("/guards/jitter", "%s is not between 0 and %s", g.Jitter, longestRetry)
	}
	if g.Horizon <= 0 || g.Horizon > document.MaxDuration {
		c.problem("/guards/horizon", "%s is not between 1s and %s", g.Horizon, document.MaxDuration)
	}
	need, why := d.StepCount(), ""
	if d.IsHeld() {
		need, why = need+1, " and the end of the hold"
	}
	switch {
	case g.MaxChecks > document.MaxChecks:
		c.problem("/guards/max_checks", "%d is more than %d", g.MaxChecks, document.MaxChecks)
	case g.MaxChecks < need:
		c.problem("/guards/max_checks", "%d checks are fewer than the %d that the steps%s take; write %d or more", g.MaxChecks, need, why, need)
	}
	c.retries()
}

// retries refuses attempts that may take longer than the time between two checks: no check would get an answer before
// the next one.
func (c guardCompiler) retries() {
	if h := c.document.Trigger.Heartbeat; h != nil && h.Every > 0 {
		c.checkSpacing(h.Every)
	}
	worst := longestAttempts(c.document)
	if c.closest == 0 || worst < c.closest {
		return
	}
	c.problem("/guards", "%d attempts may take %s, but checks are only %s apart; lower attempts, interval, jitter or timeout",
		c.document.Guards.Attempts, atMost(worst), c.closest)
}

// longestAttempts returns the longest time that all attempts of one check may take: the intervals between them, each twice
// the one before, and, for a lookup or a handler, their timeouts and the time until the full second of the next attempt.
func longestAttempts(d document.Document) document.Duration {
	g := d.Guards
	var worst, each, up document.Duration
	if d.Lookup != nil || d.Handler != "" {
		each, up = min(g.Timeout, longestCheck), document.Duration(time.Second)
	}
	wait := min(g.Interval, document.MaxDuration)
	for i := range min(g.Attempts, document.MaxAttempts) {
		worst += each
		if i == 0 {
			continue
		}
		worst = min(worst+wait+g.Jitter+up, document.MaxDuration+1)
		wait = min(wait*2, document.MaxDuration)
	}
	return worst
}

// atMost returns a span that was only added up until it was too long.
func atMost(d document.Duration) string {
	if d > document.MaxDuration {
		return "more than " + document.MaxDuration.String()
	}
	return d.String()
}
