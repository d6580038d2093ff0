package futurejobs

import (
	"encoding/json"
	"time"

	"deadman/checks"
)

// End ends a job because its expected event happened.
type End struct {
	Outcome checks.Outcome
	Reason  string
	Note    string // the reason of the person who ends it, for the audit log
	Close   CloseAlert
	Alert   CloseAlert      // replaces Close: the alert to raise even if the job raised none before
	Early   time.Duration   // how long the end is remembered if no job is pending
	State   json.RawMessage // the state that the alert reports; nil: the job's state
	Begin   *Job            // begins after the job has ended; nil: none
}

func (a End) play(f *fold, e Effect, s *foldedJob) {
	switch {
	case s != nil:
		f.order.finish(e, s, a)
		if a.Begin != nil {
			Start{Job: *a.Begin, instead: true, paid: true}.play(f, e, nil)
		}
	case e.Event != nil && (a.Early > 0 || f.order.early.wasTurnedAway(e.Ref)):
		f.order.early.add(e.Ref, f.eventTime(e), a.Early).add(Ending{At: f.eventTime(e), Outcome: a.Outcome})
		f.net.Remembered++
	default:
		f.net.Missed++
	}
}

// AddMember adds a member to a set, and ends the job once the set is complete.
type AddMember struct {
	Set    uint8 // index of the rule's set
	Member string
	Need   func(Job) (int, error) // number of members that complete the set; 0: not known yet
	End    End
}

func (a AddMember) play(f *fold, e Effect, s *foldedJob) {
	switch {
	case s != nil:
		members, more := s.job.Members.add(a.Set, a.Member)
		if more && s.job.Members.full(a.Set) {
			f.deadLetter(e, Resolves, errFull)
			return
		}
		f.order.changeKept(e, s, a)

		if more {
			s.job.Members, s.updated = members, true
			f.addTrail(e, s, Updated)
		}
		f.net.Updated++
		f.complete(e, s, a)
	case e.Event != nil && (a.End.Early > 0 || f.order.early.wasTurnedAway(e.Ref)):
		early := f.order.early.add(e.Ref, f.eventTime(e), a.End.Early)
		f.net.Remembered++
		members, more := early.Members.add(a.Set, a.Member)
		if more && early.Members.full(a.Set) {
			f.deadLetter(e, Resolves, errFull)
			return
		}
		early.Members = members
	default:
		f.net.Missed++
	}
}

func (a AddMember) change(_ *fold, _ Effect, j *Job, _ *knowledge) {
	if members, more := j.Members.add(a.Set, a.Member); more && !j.Members.full(a.Set) {
		j.Members = members
	}
}
