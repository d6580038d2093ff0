package rules

import (
	"time"

	futurejobs "deadman/future_jobs"
)

// The limits of consecutive restarts because of monitoring gaps. After them the step that is due raises its alert:
// never to know is as bad as a false alert. A job with an interval of a day or more is postponed only once.
const (
	maxGapRestartsDefault = 3
	longInterval          = futurejobs.Day
)

// deadlineAfterGap returns when a heartbeat due at the given time is overdue, if one before it may have been missed in
// a monitoring gap:
//
//  1. The interval restarts at the end of the gap: the next heartbeat may be a whole interval away.
//  2. An alert that was raised stays, and the following steps are counted from it.
//  3. A job that was restarted too often is not postponed any more.
func (r *Rule) deadlineAfterGap(w waitContext, at time.Time) time.Time {
	switch {
	case !w.said.IsZero():
		return latest(at, w.said.Add(-r.lead(w)))
	case w.count >= r.beats.maxGapRestarts(w):
		return at
	}
	return latest(at, r.beats.restartDeadline(w))
}

// maxGapRestarts returns how often the interval may restart.
func (h *heartbeat) maxGapRestarts(w waitContext) int {
	if h.restartDeadline(w).Sub(w.heard) >= longInterval {
		return 1
	}
	return maxGapRestartsDefault
}

// gapLimitReached reports whether a job without an alert is not postponed any more, although a heartbeat may have been
// missed in a gap.
func (r *Rule) gapLimitReached(w waitContext) bool {
	if r.beats == nil || w.count == 0 || w.heard.IsZero() || !w.said.IsZero() {
		return false
	}
	_, since := r.noGapSince(w)
	return w.heard.After(since) && w.count >= r.beats.maxGapRestarts(w)
}

// restartDeadline returns when a heartbeat is overdue if the interval begins at the end of the gap.
func (h *heartbeat) restartDeadline(w waitContext) time.Time {
	if h.ticks == nil {
		return passed(nil, w.heard, h.every+h.grace, w.pauses)
	}
	return passed(nil, h.tick(w.heard), h.grace, w.pauses)
}

// lead returns how long after the deadline the first step of a key is due, unless a calendar counts it.
func (r *Rule) lead(w waitContext) time.Duration {
	if len(r.steps) == 0 {
		return 0
	}
	later := r.later(w.key)
	if first := &r.steps[0]; first.at == nil && first.of == nil {
		if span, err := first.span(w.scope); err == nil { // otherwise the check reports the error
			return span + later
		}
	}
	return later
}
