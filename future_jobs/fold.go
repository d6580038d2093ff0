package futurejobs

import (
	"slices"
	"sync"
	"time"

	"deadman/alerts"
)

// Fold plays effects in order over known jobs, and returns the net effect. now is the database's time.
//
//  1. A start for a key with a pending job is ignored, or restarts the job.
//  2. A start puts the first check on its slot, or on the first slot after now. A start that is not newer
//     than a remembered end ends at once.
//  3. An end removes the job and closes its alerts.
//  4. A pause suspends the next check, and a resume restores it, later by the length of the pause.
//  5. An event that is late, or from another stream than the trigger, does not apply to a job that began after it.
//     An end leaves the job of a kept trigger that is newer.
//  6. A snoozed job is not checked before the end of the snooze, even after further events. A snooze moves no check
//     forward, except one that another snooze delayed.
func Fold(effects []Effect, known FoldInput, now time.Time) FoldResult {
	return FoldWithin(Bounds{}, effects, known, now)
}

// Bounds bound a run of effects.
type Bounds struct {
	Quotas  Quotas     // nil: none
	Letters LetterRoom // nil: all dead letters are stored
}

// FoldWithin is Fold within bounds. A job beyond a quota does not begin, and its event becomes a dead letter of the
// rule. A pending job continues, changes and ends in any case. Dead letters beyond the room are summarized.
func FoldWithin(within Bounds, effects []Effect, known FoldInput, now time.Time) FoldResult {
	f := folds.Get().(*fold) //nolint:forcetypeassert // the pool has no other type
	defer f.release()
	f.now, f.known, f.usage.quotas, f.room = now, known, within.Quotas, within.Letters
	f.met = slices.Grow(f.met, len(effects))
	f.order = ordering{fold: f, early: earlyEvents{now: now, known: known.Early}}
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
			s.endRun() // later effects may change the state
		}
		e.Action.play(f, e, s)
	}
	return f.result()
}

// folds has runs for reuse: the memory of a run costs more than a run of one effect.
var folds = sync.Pool{New: func() any { return new(fold) }}

// maxReusedJobs bounds the jobs of a run that is used again.
const maxReusedJobs = 64

// release gives back a run. Its result has no reference to it.
func (f *fold) release() {
	if cap(f.met) > maxReusedJobs {
		return
	}
	met := f.met
	clear(met)
	*f = fold{met: met[:0]}
	folds.Put(f)
}

// fold is a run of effects being played.
type fold struct {
	now    time.Time
	known  FoldInput
	place  int                // of the current effect
	first  foldedJob          // the first one of met
	fresh  []foldedJob        // preallocated for later jobs: a bulk has thousands
	met    []*foldedJob       // in the order of their first effect; the last one of a ref is current, unless it is gone
	at     map[Ref]*foldedJob // the last ones of met, if they are many; otherwise nil
	order  ordering
	usage  usage
	room   LetterRoom // nil: unlimited
	beyond Summaries  // refused events without room
	net    FoldResult
}

// foldedJob is a job in the middle of a run.
type foldedJob struct {
	ref     Ref
	job     Job
	isNew   bool // it is not in the table yet
	gone    bool
	changed bool // its rev has to increase
	updated bool
	known   knowledge
	kept    []knowledge // of the triggers in job.Order.Kept; nil: stored there already

	uses    []*QuotaUse // quotas of the job's rule
	counted int64       // bytes of the job counted there

	reordered bool // the job's Order has changed

	ack *AckOf // nil: no acknowledgement was added or removed
}

// put stores the state after the updates so far in the job and in its kept triggers.
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

// reorder returns the job's Order, to be changed.
func (s *foldedJob) reorder() *Order {
	o := Order{}
	if s.job.Order != nil {
		o = *s.job.Order
	}
	s.job.Order, s.reordered = &o, true
	return &o
}

// count counts the growth of a job since the last call.
func (s *foldedJob) count() {
	if s.uses == nil {
		return
	}
	size := int64(s.job.Size())
	for _, use := range s.uses {
		use.add(0, size-s.counted)
	}
	s.counted = size
}

// lookup returns the pending job of an effect; nil: no job is pending.
func (f *fold) lookup(e Effect) *foldedJob {
	if s := f.last(e.Ref); s != nil {
		if s.gone {
			return nil
		}
		return s
	}
	job, pending := f.known.job(e.Ref)
	if !pending {
		return nil
	}
	s := f.track(e.Ref, foldedJob{job: job})
	f.usage.meet(e.Rule, s)
	return s
}

// last returns the last job of a ref in the run, also one that ended; nil: the run has none yet.
func (f *fold) last(ref Ref) *foldedJob {
	if f.at != nil {
		return f.at[ref]
	}
	for _, s := range slices.Backward(f.met) {
		if s.ref == ref {
			return s
		}
	}
	return nil
}

const (
	// foldAllocChunk is the number of jobs allocated at once. Go caches no allocations above 32 kB, and clears each of
	// them.
	foldAllocChunk = 48
	// fewJobs is the number of jobs up to which a search is faster than a map.
	fewJobs = 8
)

func (f *fold) track(ref Ref, as foldedJob) *foldedJob {
	s := &f.first
	if len(f.met) > 0 {
		if len(f.fresh) == 0 {
			f.fresh = make([]foldedJob, max(1, min(foldAllocChunk, cap(f.met)-len(f.met))))
		}
		s, f.fresh = &f.fresh[0], f.fresh[1:]
	}
	as.ref = ref
	*s = as
	if f.at == nil && len(f.met) == fewJobs {
		f.at = make(map[Ref]*foldedJob, cap(f.met))
		for _, before := range f.met {
			f.at[before.ref] = before
		}
	}
	if f.at != nil {
		f.at[ref] = s
	}
	f.met = append(f.met, s)
	return s
}

// result returns the net effect after all effects.
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
			job := &s.job
			if s == &f.first {
				own := s.job
				job = &own
			}
			f.net.Create = append(f.net.Create, job)
		case s.changed:
			f.net.Change = append(f.net.Change, s.job)
			if s.ack != nil {
				f.net.Acks = append(f.net.Acks, *s.ack)
			}
		case s.updated:
			f.net.Update = append(f.net.Update, s.job)
		}
	}
	f.order.early.sum(&f.net)
	f.net.Quotas, f.net.quotas = f.usage.sum(), f.usage.quotas
	for i := range f.net.End {
		f.net.End[i].keepAlerts(f.usage.quotas)
	}
	f.net.DeadLetters = append(f.net.DeadLetters, f.beyond.All()...)
	return f.net
}

// miss counts an effect that finds no job, and remembers it if its trigger may be read later.
func (f *fold) miss(e Effect) {
	if f.order.missed(e) {
		f.net.Remembered++
	} else {
		f.net.Missed++
	}
}

// deadLetter turns the event into a dead letter, and reports whether there is one: without room, the event is
// summarized. A person's action is validated earlier, and is refused here only by quotas; it has no letter.
func (f *fold) deadLetter(e Effect, part Part, err error) bool {
	f.net.Refused++
	if e.Event == nil {
		f.net.Over = append(f.net.Over, f.place)
		return false
	}
	l := NewDeadLetter(*e.Event, Refusal{Rule: e.Rule.Name, Part: part, Reason: clip(err.Error())}, f.now)
	if f.room != nil && !f.room.Take(l.Rule) {
		f.beyond.Add(l)
		return false
	}
	f.net.DeadLetters = append(f.net.DeadLetters, l)
	return true
}

// eventTime returns the time of the effect's event, or now for a person's action.
func (f *fold) eventTime(e Effect) time.Time {
	if e.Event == nil {
		return f.now
	}
	return e.Event.At.UTC().Truncate(time.Microsecond)
}

// end removes a job. A deleted rule raises no alert.
func (f *fold) end(e Effect, s *foldedJob, a End) {
	s.gone = true
	f.net.Ended++
	f.usage.end(e.Rule, s)
	d := Decision{Job: s.job, Outcome: a.Outcome, Reason: a.Reason}
	if s.isNew {
		f.net.StartedAndEnded = append(f.net.StartedAndEnded, d)
		return
	}
	closing := a.Alert
	if closing == nil && len(s.job.Alerts) > 0 {
		closing = a.Close
	}
	if closing != nil && !e.Rule.Deleted {
		d.resolveAlerts(e.Rule, closing(s.job), f.decidedAt(e), f.now)
	}
	d.mergeState(a.State)
	f.net.End = append(f.net.End, d)
}

// decidedAt returns when an effect was decided: when the stream stored its event, or the time of its tick. A person's
// action is decided now.
func (f *fold) decidedAt(e Effect) time.Time {
	var origin alerts.Origin
	switch start := e.Action.(type) {
	case Start:
		origin = start.Job.Origin
	case StartExpired:
		origin = start.Job.Origin
	}
	if e.Event == nil && origin != 0 {
		return origin.At()
	}
	return f.eventTime(e)
}

// complete ends a job with a complete set, and reports whether it did.
func (f *fold) complete(e Effect, s *foldedJob, a AddMember) bool {
	need, err := a.Need(s.job)
	if err != nil {
		f.deadLetter(e, Resolves, err)
		return false
	}
	if need == 0 || s.job.Members.count(a.Set) < need {
		return false
	}
	f.order.finish(e, s, a.End)
	return true
}

// addTrail records an effect in the trail of its job. Of several effects in one run the last is kept.
func (f *fold) addTrail(e Effect, s *foldedJob, kind EntryKind) {
	entry := Entry{Kind: kind, At: f.eventTime(e)}
	if kind != Updated && s.job.PausedAt().IsZero() {
		entry.Next = s.job.NextCheckAt
	}
	if e.Event != nil {
		entry.By = e.Event.Subject
	}
	switch a := e.Action.(type) {
	case Acknowledge:
		entry.By = a.Ack.By
	case Snooze:
		entry.By = a.By
	}
	s.job.Trail = entry.Trail()
}
