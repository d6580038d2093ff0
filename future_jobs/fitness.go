package futurejobs

import "time"

// Rest periods of a node that was unfit, in leases. A node cannot prove its fitness without holding shards, so each
// relapse doubles the rest: a permanently broken node causes one lease of lateness in every restMost.
const (
	restLeast = 2
	restMost  = 40
)

// fitness decides whether a node should hold shards. It is used by Owner.Run alone.
type fitness struct {
	lease time.Duration

	reason    string        // why the node is unfit, or rests afterwards; empty: it is fit
	shed      bool          // it has held no shards since it became unfit, so that nothing proves its fitness
	rest      time.Duration // after the last reason; zero: the node was never unfit
	until     time.Time     // end of the rest, by the local clock
	recovered time.Time     // when the node last became fit
}

// judge takes the current reason against the node's fitness, if any, and returns the reason why it should hold no
// shards:
//
//  1. a reason counts at once, and restarts the rest;
//  2. without one, a node that kept its shards has proved itself and is fit;
//  3. a node that gave its shards away rests first.
func (f *fitness) judge(now time.Time, reason string, holds bool) string {
	if reason != "" {
		if f.reason == "" {
			f.relapse(now)
		}
		f.reason, f.until = reason, now.Add(f.rest)
	}
	if f.reason == "" {
		return ""
	}
	f.shed = f.shed || !holds
	if reason == "" && (!f.shed || !now.Before(f.until)) {
		f.reason, f.shed, f.recovered = "", false, now
	}
	return f.reason
}

// relapse sets the rest: twice the last one if the node became unfit soon again, and the minimum otherwise.
func (f *fitness) relapse(now time.Time) {
	if f.rest > 0 && now.Sub(f.recovered) < max(f.rest, restMost*f.lease/2) {
		f.rest = min(2*f.rest, restMost*f.lease)
		return
	}
	f.rest = restLeast * f.lease
}
