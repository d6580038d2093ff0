package futurejobs

import (
	"encoding/json"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// Start creates a job, unless one is pending.
type Start struct {
	Job           Job         // NextCheckAt: zero if the first check is at FirstCheckAt
	Restart       bool        // a pending job ends, and a new one begins
	Early         bool        // its end may have been remembered before
	OrderedByTime bool        // other events have other streams: the job records their order
	ByHand        bool        // started by a person
	Named         bool        // the key is in the text of the rule, or was saved with it: no quota refuses the job
	Close         CloseAlert  // for the job that ends
	ExpiredAlert  CloseAlert  // alert for the job that ends if it was due and not checked; nil: none
	Sets          []AddMember // the rule's sets, for members that were received before

	Merge func(known json.RawMessage) Merging // begins the merging of updates received before; nil: none are remembered
	Next  func(Job) time.Time                 // as of Resume, for resumes received before; may be nil

	instead bool // replaces a job that ended just now
	paid    bool // the bytes it writes of its event are already counted
}

// first returns the slot of the first check.
func (a Start) first() time.Time {
	if a.Job.NextCheckAt.IsZero() {
		return a.Job.FirstCheckAt
	}
	return a.Job.NextCheckAt
}

func (a Start) play(f *fold, e Effect, s *foldedJob) {
	if s != nil {
		if !a.Restart {
			f.net.Kept++
			switch {
			case e.Event == nil:
				f.net.AlreadyPending = append(f.net.AlreadyPending, f.place)
			case a.OrderedByTime:
				f.order.keep(a, e, s)
			}
			return
		}
		if err := a.afford(f, e); err != nil {
			f.deadLetter(e, Triggers, err)
			return
		}
		f.net.Restarted++
		f.order.release(e, s, nil)
		f.end(e, s, a.endOfPrevious(s, f.now))
	}
	after := s != nil
	job := a.Job
	job.Ref, job.CreatedAt = e.Ref, f.now
	if e.Event != nil {
		job.Origin = alerts.OriginOf(e.Event.At, e.Event.Seq)
	}
	f.order.setOrder(a, e, &job, after)
	if !after && f.order.isCovered(a, e, &job) {
		f.net.Kept++
		return
	}
	if !after && !a.Named && !a.instead {
		err := f.usage.refuse(e.Rule)
		if err == nil {
			err = a.afford(f, e)
		}
		if err != nil {
			f.order.turnedAway(e, f.deadLetter(e, Triggers, err))
			return
		}
	}
	job.NextCheckAt = e.Rule.notBeforeNextSlot(a.first(), f.now)
	f.net.Created++
	s = f.track(e.Ref, foldedJob{job: job, isNew: true})
	f.usage.start(e.Rule, s)
	if e.Event != nil && e.Event.Trace != nil {
		e.Event.Trace.Started = append(e.Event.Trace.Started, StartedJob{e.Rule.Name, e.Ref.Key})
	}

	if a.Early || e.OutOfOrder && f.order.early.wasTurnedAway(e.Ref) {
		f.order.recall(a, e, s)
	}
}

// afford returns the reason why the start may not store its event, or nil if it may.
func (a Start) afford(f *fold, e Effect) error {
	if a.paid {
		return nil
	}
	return f.usage.afford(e, int64(len(a.Job.Event)))
}

// Heartbeat is the action of a heartbeat, a signal that must recur.
type Heartbeat struct {
	// Play returns the effect of the heartbeat on the job; nil: no job is pending.
	Play func(*Job) (HeartbeatResult, error)
	// Bare is Play without the body of the heartbeat's event; nil: same as Play.
	Bare func(*Job) (HeartbeatResult, error)
	// Paused: a key without a job gets none, because the rule is paused or not enabled.
	Paused bool
}

// HeartbeatResult is the effect of a heartbeat on a job. The zero value changes nothing.
type HeartbeatResult struct {
	Job       *Job      // the job as it continues
	Next      time.Time // the next check; zero: unchanged
	MustWrite bool      // the job must be written even if its next check is unchanged

	End   *End // ends the job
	Begin *Job // begins a job after the pending one has ended
}

// isCoalesced reports whether the heartbeat changes nothing that is worth a write.
func (to HeartbeatResult) isCoalesced(e Effect, s *foldedJob) bool {
	return to.Job == nil || !to.MustWrite && !s.isNew && !s.changed && (to.Next.IsZero() || e.Rule.afterSnooze(s.job, to.Next).Equal(s.job.due()))
}

// play coalesces heartbeats: one that leaves the next check at its slot is not worth a write, unless the job is
// written anyway. If the tenant's quota has no capacity for its body, the heartbeat counts without it: otherwise it
// would cause a false alert.
func (a Heartbeat) play(f *fold, e Effect, s *foldedJob) {
	var pending *Job
	if s != nil {
		pending = &s.job
		if pending.Since.Sub(f.now) > ahead { // set by a clock that was ahead: this heartbeat is newer
			present := *pending
			present.Since = f.now.Add(-ahead)
			pending = &present
		}
	}
	to, err := a.Play(pending)
	if a.Bare != nil && e.Event != nil && err == nil && (to.Begin != nil || !to.isCoalesced(e, s)) &&
		f.usage.afford(e, int64(len(e.Event.Data))) != nil {
		to, err = a.Bare(pending)
	}
	switch {
	case err != nil:
		f.deadLetter(e, Triggers, err)
	case to.Begin != nil:
		if to.End != nil {
			f.end(e, s, *to.End)
		}
		Start{Job: *to.Begin, instead: to.End != nil, paid: true}.play(f, e, nil)
	case to.Job == nil && s == nil:
		f.net.Missed++
	case to.isCoalesced(e, s):
		f.net.Coalesced++
	default:
		s.job = *to.Job
		if !to.Next.IsZero() {
			s.job.reschedule(e.Rule.notBeforeNextSlot(e.Rule.afterSnooze(s.job, to.Next), f.now))
		}
		s.changed = true
		f.net.Postponed++
	}
}

// endOfPrevious returns the end of the pending job. A job that was due and not checked in time expires, instead of
// being restarted silently.
func (a Start) endOfPrevious(s *foldedJob, now time.Time) End {
	if a.ExpiredAlert != nil && !s.isNew && s.job.isDue(now) {
		return End{Outcome: checks.Expired, Reason: "it was due and unchecked when a trigger restarted it", Alert: a.ExpiredAlert}
	}
	return End{Outcome: checks.Restarted, Close: a.Close}
}

// RestartsDueJob reports whether an effect would restart a job that is due and not yet checked.
func RestartsDueJob(effects []Effect, known FoldInput, now time.Time) bool {
	return slices.ContainsFunc(effects, func(e Effect) bool {
		start, isStart := e.Action.(Start)
		if expired, lapses := e.Action.(StartExpired); lapses {
			start, isStart = expired.Start, true
		}
		j, pending := known.job(e.Ref)
		return isStart && start.Restart && pending && j.isDue(now)
	})
}
