package futurejobs

import (
	"encoding/json"
	"time"

	"deadman/alerts"
)

// Start begins a wait, unless there is one.
type Start struct {
	Job     Job         // NextCheckAt: zero, where it is first looked at when FirstCheckAt says
	Restart bool        // one that is there ends, and another begins
	Early   bool        // something may have happened before
	Orders  bool        // other events come by other streams: the job remembers what puts them in order
	ByHand  bool        // a person begins it
	Named   bool        // the text of the rule names the key, or was saved with it: no quota refuses the job
	Close   CloseAlert  // of the one that ends
	Unsaid  CloseAlert  // what is said of the one that ends where it was due, and nobody looked; nil: nothing
	Sets    []AddMember // the rule's sets, for members that came before

	Merge func(known json.RawMessage) Merging // begins the merging of updates that came before; nil: none are remembered
	Next  func(Job) time.Time                 // as of Resume, for resumes that came before; may be nil

	instead bool // of a job that ended just now
	paid    bool // what it writes of its event is counted
}

// first is the slot of the first look.
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
			case a.Orders:
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
	f.order.begin(a, e, &job, after)
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
			f.deadLetter(e, Triggers, err)
			f.order.turnedAway(e)
			return
		}
	}
	job.NextCheckAt = e.Rule.notBeforeNextSlot(a.first(), f.now)
	f.net.Created++
	s = f.track(e.Ref, foldedJob{job: job, isNew: true})
	f.usage.begin(e.Rule, s)

	if a.Early || e.Late && f.order.wasTurnedAway(e.Ref) {
		f.order.recall(a, e, s)
	}
}

// afford returns why the start may not write of its event, if it may not.
func (a Start) afford(f *fold, e Effect) error {
	if a.paid {
		return nil
	}
	return f.usage.afford(e, int64(len(a.Job.Event)))
}

// Beat says that came what has to come again and again.
type Beat struct {
	// Play returns what the beat makes of the job that waits for it; nil: none does.
	Play func(*Job) (BeatResult, error)
	// Bare is Play without the body of the beat's event; nil: as Play.
	Bare func(*Job) (BeatResult, error)
}

// BeatResult is what a beat makes of a job. Without anything in it the beat changes nothing.
type BeatResult struct {
	Job  *Job      // the job as it goes on
	Next time.Time // when it is looked at next; zero: when it was
	News bool      // it has to be written even if that is when it was looked at anyway

	End   *End // the wait is over
	Begin *Job // a wait begins, once the one that is there is over
}

// isCoalesced reports whether the beat changes nothing that is worth a write.
func (to BeatResult) isCoalesced(e Effect, s *foldedJob) bool {
	return to.Job == nil || !to.News && !s.isNew && !s.changed && (to.Next.IsZero() || e.Rule.afterSnooze(s.job, to.Next).Equal(s.job.due()))
}

// play coalesces beats: one that leaves the next look at its slot is not worth a write, unless the
// job is written anyway. One that the rules of a tenant have no room to keep counts without its body: otherwise there would be a false alarm.
func (a Beat) play(f *fold, e Effect, s *foldedJob) {
	var pending *Job
	if s != nil {
		pending = &s.job
		if pending.Since.Sub(f.now) > ahead { // by a clock that was ahead: this beat is newer
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
		f.net.Beaten++
	}
}
