package rules

import (
	"time"

	futurejobs "deadman/future_jobs"
)

// How often in a row a wait begins anew because deadman could not hear. Then what is due is said:
// not to know for ever is as bad as a word too many. A wait of a day or more is put off but once.
const (
	maxGapRestartsDefault = 3
	longInterval          = futurejobs.Day
)

// deadlineAfterGap is when a beat is overdue that would be at an instant, where one that came before may
// have gone unheard:
//
//  1. The wait begins anew when deadman hears again: the next beat may be a whole wait away.
//  2. What was said stays, and the steps that follow are counted from it.
//  3. A wait that began anew too often is put off no more.
func (r *Rule) deadlineAfterGap(w waitContext, at time.Time) time.Time {
	switch {
	case !w.said.IsZero():
		return latest(at, w.said.Add(-r.lead(w)))
	case w.count >= r.beats.maxGapRestarts(w):
		return at
	}
	return latest(at, r.beats.restartDeadline(w))
}

// maxGapRestarts is how often a wait begins anew.
func (h *heartbeat) maxGapRestarts(w waitContext) int {
	if h.restartDeadline(w).Sub(w.heard) >= longInterval {
		return 1
	}
	return maxGapRestartsDefault
}

// gapLimitReached reports whether a wait of which nothing was said is put off no more, though a beat may
// have gone unheard.
func (r *Rule) gapLimitReached(w waitContext) bool {
	if r.beats == nil || w.count == 0 || w.heard.IsZero() || !w.said.IsZero() {
		return false
	}
	_, since := r.noGapSince(w)
	return w.heard.After(since) && w.count >= r.beats.maxGapRestarts(w)
}

// restartDeadline is when a beat is overdue of a wait that begins when deadman hears again.
func (h *heartbeat) restartDeadline(w waitContext) time.Time {
	if h.ticks == nil {
		return passed(nil, w.heard, h.every+h.grace, w.pauses)
	}
	return passed(nil, h.tick(w.heard), h.grace, w.pauses)
}

// lead is how long after the deadline the first step is taken of a key, as far as no calendar
// counts it.
func (r *Rule) lead(w waitContext) time.Duration {
	if len(r.steps) == 0 {
		return 0
	}
	later := r.later(w.key)
	if first := &r.steps[0]; first.at == nil && first.of == nil {
		if span, err := first.span(w.scope); err == nil { // else the look says so
			return span + later
		}
	}
	return later
}
