package futurejobs

import "time"

// How long a node that was unfit holds no shards, in leases. It cannot prove that it is fit without holding some, so
// each relapse doubles the rest: a node that stays broken costs a lease's time of lateness once in restMost.
const (
	restLeast = 2
	restMost  = 40
)

// fitness decides whether a node is to hold shards. It is used by Owner.Run alone.
type fitness struct {
	lease time.Duration

	reason    string        // why the node is unfit, or rests after it was; empty: it is fit
	shed      bool          // it has held no shards since it became unfit, so that nothing proves it fit
	rest      time.Duration // after the last reason; zero: the node was never unfit
	until     time.Time     // it rests until then, by the local clock
	recovered time.Time     // when it was last found fit again
}

// judge takes in why the node is unfit at the moment, empty where it is not, and returns why it is to hold no shards:
//
//  1. a reason counts at once, and the rest after it begins anew;
//  2. without one, a node that kept its shards has proved itself and is fit;
//  3. one that gave its shards away rests first.
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

// relapse chooses the rest: twice the last one where the node was fit for less than that, and the least otherwise.
func (f *fitness) relapse(now time.Time) {
	if f.rest > 0 && now.Sub(f.recovered) < max(f.rest, restMost*f.lease/2) {
		f.rest = min(2*f.rest, restMost*f.lease)
		return
	}
	f.rest = restLeast * f.lease
}
