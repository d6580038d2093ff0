package futurejobs

import (
	"time"

	"deadman/alerts"
)

// Fold plays effects in their order over what is known, and returns the net effect. now is
// the database's time.
//
//  1. A start for a key that is waited for is kept out, or ends that wait and begins another.
//  2. A start puts the first check on its slot, or on the first slot after now. One that is
//     not newer than an end that is remembered ends at once.
//  3. An end takes the job away, and closes what was said about it.
//  4. A pause takes the next check away, and a resume puts it back, later by the pause.
//  5. An event that comes late, or by another stream than the trigger, does not apply to a job that began after it happened. An end
//     leaves the wait of a trigger that was kept and came after it.
//  6. A job that was snoozed is not looked at before that is over, whatever comes meanwhile. A snooze
//     brings no look forward but one that another snooze put off.
func Fold(effects []Effect, known FoldInput, now time.Time) FoldResult {
	return FoldWithin(nil, effects, known, now)
}

// FoldWithin is Fold within quotas: a job that one has no room for does not begin, and its event becomes a dead letter of the rule. A
// job that is pending goes on, is changed and ends whatever the quotas say. nil: there are none.
func FoldWithin(quotas Quotas, effects []Effect, known FoldInput, now time.Time) FoldResult {
	f := &fold{now: now, known: known, at: make(map[Ref]*foldedJob, len(effects)), usage: usage{quotas: quotas}}
	f.met = make([]*foldedJob, 0, len(effects))
	f.order = ordering{fold: f, early: make(map[Ref]*EarlyEvent)}
	for i, e := range effects {
		f.place = i
		s := f.lookup(e)
		if s != nil && e.Rev != nil && *e.Rev != s.job.Rev {
			s = nil
		}
		if s != nil && f.order.isOlder(e, &s.job) {
			f.order.older(e, s)
			continue
		}
		if _, isUpdate := e.Action.(Update); s != nil && !isUpdate {
			s.endRun() // what follows may change what is known
		}
		e.Action.play(f, e, s)
	}
	return f.result()
}

// fold is a run of effects being played.
type fold struct {
	now   time.Time
	known FoldInput
	place int                // of the effect that is played
	fresh []foldedJob        // room for those to come: a bulk has thousands
	at    map[Ref]*foldedJob // jobs as they stand; nil: ended
	met   []*foldedJob       // the jobs of at, and those that ended, as they were met
	order ordering
	usage usage
	net   FoldResult
}

// foldedJob is a job in the middle of a run.
type foldedJob struct {
	job     Job
	isNew   bool // it is not in the table yet
	gone    bool
	changed bool // its rev has to grow
	updated bool
	known   knowledge
	kept    []knowledge // of the triggers that job.Order keeps; nil: it is in them

	uses    []*QuotaUse // what the rule of the job counts toward
	counted int64       // bytes of the job that are counted there

	reordered bool // what it remembers of the order of events has changed

	ack *AckOf // nil: no acknowledgement was made or taken back
}

// put gives the job, and the triggers that it keeps, what is known after the updates so far.
func (s *foldedJob) put() {
	s.known.put(&s.job.State)
	for i := range s.kept {
		s.kept[i].put(&s.job.Order.Kept[i].State)
	}
}

// endRun ends a run of updates.
func (s *foldedJob) endRun() {
	s.put()
	s.known, s.kept = knowledge{}, nil
}

// reorder is the job's memory of the order of events, to be changed.
func (s *foldedJob) reorder() *Order {
	o := Order{}
	if s.job.Order != nil {
		o = *s.job.Order
	}
	s.job.Order, s.reordered = &o, true
	return &o
}

func (f *fold) lookup(e Effect) *foldedJob {
	if s, met := f.at[e.Ref]; met {
		return s
	}
	job, pending := f.known.Pending[e.Ref]
	if !pending {
		return nil
	}
	s := f.track(e.Ref, foldedJob{job: job})
	f.usage.meet(e.Rule, s)
	return s
}

// foldAllocChunk is for how many jobs room is made at once. The runtime has no spare room of more than 32 kB, and clears
// such room anew.
const foldAllocChunk = 48

func (f *fold) track(ref Ref, as foldedJob) *foldedJob {
	if len(f.fresh) == 0 {
		f.fresh = make([]foldedJob, min(foldAllocChunk, cap(f.met)-len(f.met)+1))
	}
	s := &f.fresh[0]
	f.fresh = f.fresh[1:]
	*s = as
	f.at[ref] = s
	f.met = append(f.met, s)
	return s
}

// result is the net effect once all is played.
func (f *fold) result() FoldResult {
	creates := 0
	for _, s := range f.met {
		if s.isNew && !s.gone {
			creates++
		}
	}
	if creates > 0 {
		f.net.Create = make([]*Job, 0, creates)
	}
	for _, s := range f.met {
		s.put()
		s.count()
		if s.reordered && !s.gone && !s.isNew {
			f.net.Reorder = append(f.net.Reorder, s.job)
		}
		switch {
		case s.gone:
		case s.isNew:
			f.net.Create = append(f.net.Create, &s.job)
		case s.changed:
			f.net.Change = append(f.net.Change, s.job)
			if s.ack != nil {
				f.net.Acks = append(f.net.Acks, *s.ack)
			}
		case s.updated:
			f.net.Update = append(f.net.Update, s.job)
		}
	}
	f.order.sum(&f.net)
	f.net.Quotas = f.usage.sum()
	return f.net
}

// miss counts an effect that finds no job, and remembers it where that may be read later.
func (f *fold) miss(e Effect) {
	if f.order.missed(e) {
		f.net.Remembered++
	} else {
		f.net.Missed++
	}
}

// deadLetter makes a dead letter of the event. What a person asks is refused before it comes
// here, but for want of room.
func (f *fold) deadLetter(e Effect, part Part, err error) {
	f.net.Refused++
	if e.Event == nil {
		f.net.Over = append(f.net.Over, f.place)
	} else {
		f.net.DeadLetters = append(f.net.DeadLetters, DeadLetter{
			Event: *e.Event, Rule: e.Rule.Name, Part: part, Reason: clip(err.Error()), At: f.now,
		})
	}
}

// eventTime is when it happened what asks for an effect.
func (f *fold) eventTime(e Effect) time.Time {
	if e.Event == nil {
		return f.now
	}
	return e.Event.At.UTC().Truncate(time.Microsecond)
}

// end takes a job away. Of a rule that was deleted nothing is said any more.
func (f *fold) end(e Effect, s *foldedJob, a End) {
	s.gone = true
	f.at[e.Ref] = nil
	f.net.Ended++
	f.usage.end(e.Rule, s)
	d := Decision{Job: s.job, Outcome: a.Outcome, Reason: a.Reason}
	if s.isNew {
		f.net.StartedAndEnded = append(f.net.StartedAndEnded, d)
		return
	}
	said := a.Say
	if said == nil && len(s.job.Alerts) > 0 {
		said = a.Close
	}
	if said != nil && !e.Rule.Deleted {
		d.close(e.Rule, said(s.job), f.decidedAt(e), f.now)
	}
	d.mergeState(a.State)
	f.net.End = append(f.net.End, d)
}

// decidedAt is when an effect was decided: when the stream took in its event, or the time of its
// tick. What a person asks is decided now.
func (f *fold) decidedAt(e Effect) time.Time {
	var began alerts.Origin
	switch ask := e.Action.(type) {
	case Start:
		began = ask.Job.Origin
	case StartExpired:
		began = ask.Job.Origin
	}
	if e.Event == nil && began != 0 {
		return began.At()
	}
	return f.eventTime(e)
}

// close adds the alert that resolves the open ones. at is when that was decided.
func (d *Decision) close(rule *Rule, draft alerts.Draft, at, now time.Time) {
	planned := now
	if d.Job.Origin != 0 {
		planned = at
	}
	said := rule.alertsOf(&d.Job, 0, now, planned, afterCheck(d.Job.Last, now), []alerts.Draft{draft})
	if len(said) == 0 {
		return // the job has the alert already
	}
	before := d.Job.Alerts
	said[0].Closes = before
	d.Alerts = said
	d.Job.Alerts = append(before[:len(before):len(before)], said[0].ID)
}

// checkAhead bounds how much later than the start of an event's transaction a check may end that the transaction waits for.
const checkAhead = 10 * time.Second

// afterCheck returns now, or the instant after the last check of the job where that ended later: the transaction of the
// event began before the check ended, and waited for its settlement. Alerts are published again in the order of their
// decisions. A check that ended later than checkAhead was dated by a clock that has been set back since.
func afterCheck(last CheckTimes, now time.Time) time.Time {
	end := last.EndedAt()
	if end.Before(now) || end.Sub(now) > checkAhead {
		return now
	}
	return end.Add(time.Microsecond)
}
