package rules

import "time"

// How often in a row a wait begins anew because deadman could not hear. Then what is due is said:
// not to know for ever is as bad as a word too many. A long wait is put off but once.
const (
	forgivenMost = 3
	longWait     = time.Hour
)

// forgiven is when a beat is overdue that would be at an instant, where one that came after since
// may have gone unheard:
//
//  1. The wait begins anew when deadman hears again: the next beat may be a whole wait away.
//  2. What was said stays, and the steps that follow are counted from it.
//  3. A wait that began anew too often goes on from this look.
func (r *Rule) forgiven(w wait, at, since time.Time) time.Time {
	if !w.heard.After(since) {
		return at
	}
	anew := r.beats.anew(w)
	most := forgivenMost
	if r.beats.long(anew.Sub(w.heard)) {
		most = 1
	}
	switch {
	case !w.said.IsZero():
		return latest(at, w.said.Add(-r.lead()))
	case w.count >= most:
		return latest(at, w.slot.Add(-r.lead()))
	}
	return latest(at, anew)
}

// anew is when a beat is overdue of a wait that begins when deadman hears again.
func (h *heartbeat) anew(w wait) time.Time {
	if h.ticks == nil {
		return passed(nil, w.heard, h.every+h.grace, w.pauses)
	}
	return passed(nil, h.tick(w.heard), h.grace, w.pauses)
}

// long reports whether a wait is so long that it is not to be put off for every restart.
func (h *heartbeat) long(wait time.Duration) bool { return wait > longWait }

// lead is how long after the deadline the first step is, where that is written out.
func (r *Rule) lead() time.Duration {
	if len(r.steps) == 0 || r.steps[0].computed != nil || r.steps[0].at != nil || r.steps[0].of != nil {
		return 0
	}
	return r.steps[0].after
}
