package futurejobs

import (
	"encoding/json"
	"slices"
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
func Fold(effects []Effect, known Known, now time.Time) Net {
	f := &fold{now: now, known: known, at: make(map[Ref]*standing, len(effects)), early: make(map[Ref]*Early)}
	f.order = make([]*standing, 0, len(effects))
	for i, e := range effects {
		f.place = i
		s := f.find(e.Ref)
		if s != nil && e.Rev != nil && *e.Rev != s.job.Rev {
			s = nil
		}
		if s != nil && f.isOlder(e, &s.job) {
			f.net.Missed++
			continue
		}
		if _, isUpdate := e.Ask.(Update); s != nil && !isUpdate {
			s.put()
			s.merging = nil // what follows may change what is known
		}
		e.Ask.play(f, e, s)
	}
	return f.sum()
}

// fold is a run of effects being played.
type fold struct {
	now   time.Time
	known Known
	place int               // of the effect that is played
	fresh []standing        // room for those to come: a bulk has thousands
	at    map[Ref]*standing // jobs as they stand; nil: ended
	order []*standing       // the jobs of at, and those that ended, as they were met
	early map[Ref]*Early    // what was remembered in this run, or used up (nil)
	net   Net
}

// standing is a job in the middle of a run.
type standing struct {
	job     Job
	isNew   bool // it is not in the table yet
	gone    bool
	changed bool // its rev has to grow
	updated bool
	merging Merging // what is known, while updates follow each other; nil: it is in job
	isAhead bool    // merging knows more than job

	reordered bool // what it remembers of the order of events has changed

	ack *AckOf // nil: no acknowledgement was made or taken back
}

func (f *fold) find(ref Ref) *standing {
	if s, met := f.at[ref]; met {
		return s
	}
	job, pending := f.known.Pending[ref]
	if !pending {
		return nil
	}
	return f.stand(ref, standing{job: job})
}

// standAtOnce is for how many jobs room is made at once. The runtime has no spare room of more than 32 kB, and clears
// such room anew.
const standAtOnce = 48

func (f *fold) stand(ref Ref, as standing) *standing {
	if len(f.fresh) == 0 {
		f.fresh = make([]standing, min(standAtOnce, cap(f.order)-len(f.order)+1))
	}
	s := &f.fresh[0]
	f.fresh = f.fresh[1:]
	*s = as
	f.at[ref] = s
	f.order = append(f.order, s)
	return s
}

// sum is the net effect once all is played.
func (f *fold) sum() Net {
	creates := 0
	for _, s := range f.order {
		if s.isNew && !s.gone {
			creates++
		}
	}
	if creates > 0 {
		f.net.Create = make([]*Job, 0, creates)
	}
	for _, s := range f.order {
		s.put()
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
	for ref, early := range f.early {
		if early != nil {
			f.net.Remember = append(f.net.Remember, *early)
		} else if _, stored := f.known.Early[ref]; stored {
			f.net.Forget = append(f.net.Forget, ref)
		}
	}
	return f.net
}

// refuse makes a dead letter of the event. What a person asks is refused before it comes
// here.
func (f *fold) refuse(e Effect, part Part, err error) {
	f.net.Refused++
	if e.Event != nil {
		f.net.Letters = append(f.net.Letters, DeadLetter{
			Event: *e.Event, Rule: e.Rule.Name, Part: part, Reason: clip(err.Error()), At: f.now,
		})
	}
}

func (a Start) play(f *fold, e Effect, s *standing) {
	if s != nil {
		if !a.Restart {
			f.net.Kept++
			switch {
			case e.Event == nil:
				f.net.Stood = append(f.net.Stood, f.place)
			case a.Orders:
				f.keep(e, s, a.Job)
			}
			return
		}
		f.net.Restarted++
		f.end(e, s, a.before(s, f.now))
	}
	after := s != nil
	job := a.Job
	job.Ref, job.CreatedAt = e.Ref, f.now
	if e.Event != nil {
		job.Origin = alerts.OriginOf(e.Event.At, e.Event.Seq)
	}
	a.place(&job, f.when(e), after)
	if !after && a.Orders && !a.Restart && e.Event != nil {
		if early := f.remembered(e.Ref); early != nil && early.covers(job.beganAt()) {
			f.net.Kept++
			return
		}
	}
	if job.NextCheckAt.IsZero() {
		job.NextCheckAt = job.FirstCheckAt
	}
	job.NextCheckAt = e.Rule.notBehind(job.NextCheckAt, f.now)
	f.net.Created++
	s = f.stand(e.Ref, standing{job: job, isNew: true})

	if !a.Early {
		return
	}
	f.recall(a, e, s)
}

// place puts a job in the order of events, where its Since does not: after is whether another job of the key was open
// until now.
func (a Start) place(j *Job, at time.Time, after bool) {
	o := Order{ByHand: a.ByHand}
	if a.Orders {
		o.After = after
		if at.Before(j.Since) {
			o.At = at
		}
	}
	if o.ByHand || o.After || !o.At.IsZero() {
		placed := o // o itself would be allocated for each job
		j.Order = &placed
	}
}

// recall has what happened before a trigger was read end the job, or gives it the members of its sets.
func (f *fold) recall(a Start, e Effect, s *standing) {
	early := f.remembered(e.Ref)
	if early == nil {
		return
	}
	began, skew := s.job.beganAt(), time.Duration(0)
	if a.Orders {
		skew = ClockSkew
	}
	if i := early.find(began, skew); i >= 0 {
		end := early.Ends[i]
		f.early[e.Ref] = nil
		if a.Orders { // another trigger before the end may be read later
			rest := *early
			rest.Ends = slices.Clone(early.Ends)
			rest.Ends[i].From = began
			f.early[e.Ref] = &rest
		}
		f.end(e, s, End{Outcome: end.Outcome, Reason: "it happened before the trigger came"})
		return
	}
	if len(early.Members) == 0 || early.At.Add(skew).Before(began) {
		return
	}
	s.job.Members = early.Members
	f.early[e.Ref] = nil
	if len(early.Ends) > 0 {
		rest := *early
		rest.Members = nil
		f.early[e.Ref] = &rest
	}
	for _, set := range a.Sets {
		if !f.complete(e, s, set) {
			continue
		}
		if a.Orders {
			rest := *early
			rest.Members = nil
			rest.add(Ending{At: early.At, Outcome: set.End.Outcome, From: began})
			f.early[e.Ref] = &rest
		}
		return
	}
}

// play coalesces beats: one that leaves the next look at its slot is not worth a write, unless the
// job is written anyway.
func (a Beat) play(f *fold, e Effect, s *standing) {
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
	switch {
	case err != nil:
		f.refuse(e, Triggers, err)
	case to.Begin != nil:
		if to.End != nil {
			f.end(e, s, *to.End)
		}
		Start{Job: *to.Begin}.play(f, e, nil)
	case to.Job == nil && s == nil:
		f.net.Missed++
	case to.Job == nil, !to.News && !s.isNew && !s.changed && (to.Next.IsZero() || e.Rule.rested(s.job, to.Next).Equal(s.job.due())):
		f.net.Coalesced++
	default:
		s.job = *to.Job
		if !to.Next.IsZero() {
			s.job.reschedule(e.Rule.notBehind(e.Rule.rested(s.job, to.Next), f.now))
		}
		s.changed = true
		f.net.Beaten++
	}
}

func (a End) play(f *fold, e Effect, s *standing) {
	switch {
	case s != nil:
		f.finish(e, s, a)
	case a.Early > 0 && e.Event != nil:
		f.remember(e, a.Early).add(Ending{At: f.when(e), Outcome: a.Outcome})
		f.net.Remembered++
	default:
		f.net.Missed++
	}
}

func (a Gather) play(f *fold, e Effect, s *standing) {
	switch {
	case s != nil:
		members, more := s.job.Members.add(a.Set, a.Member)
		if more && s.job.Members.full(a.Set) {
			f.refuse(e, Resolves, errFull)
			return
		}
		f.changeKept(e, s, func(j *Job) {
			if members, more := j.Members.add(a.Set, a.Member); more && !j.Members.full(a.Set) {
				j.Members = members
			}
		})
		if more {
			s.job.Members, s.updated = members, true
			f.trace(e, s, Updated)
		}
		f.net.Updated++
		f.complete(e, s, a)
	case a.End.Early > 0 && e.Event != nil:
		early := f.remember(e, a.End.Early)
		f.net.Remembered++
		members, more := early.Members.add(a.Set, a.Member)
		if more && early.Members.full(a.Set) {
			f.refuse(e, Resolves, errFull)
			return
		}
		early.Members = members
	default:
		f.net.Missed++
	}
}

// complete ends a wait whose set has all its members, and reports whether it did.
func (f *fold) complete(e Effect, s *standing, a Gather) bool {
	need, err := a.Need(s.job)
	if err != nil {
		f.refuse(e, Resolves, err)
		return false
	}
	if need == 0 || s.job.Members.count(a.Set) < need {
		return false
	}
	f.finish(e, s, a.End)
	return true
}

func (a Update) play(f *fold, e Effect, s *standing) {
	if s == nil {
		f.net.Missed++
		return
	}
	if err := a.merge(s); err != nil {
		f.refuse(e, Updates, err)
		return
	}
	s.updated = true
	f.changeKept(e, s, func(j *Job) {
		if state, err := a.merged(j.Known()); err == nil {
			j.State = state
		}
	})
	f.trace(e, s, Updated)
	f.net.Updated++
	for _, set := range a.Sets {
		if s.job.Members.count(set.Set) == 0 {
			continue // it is not complete, however many it needs
		}
		if s.put(); f.complete(e, s, set) {
			return
		}
	}
}

// merge merges the news into what is known.
func (a Update) merge(s *standing) error {
	if a.Begin == nil {
		s.put()
		state, err := a.Merge(s.job.Known())
		if err == nil {
			s.job.State, s.merging = state, nil
		}
		return err
	}
	if s.merging == nil {
		s.merging = a.Begin(s.job.Known())
	}
	err := s.merging.Merge(a.News)
	s.isAhead = s.isAhead || err == nil
	return err
}

// merged returns what is known after the news, from what was known before.
func (a Update) merged(known json.RawMessage) (json.RawMessage, error) {
	if a.Begin == nil {
		return a.Merge(known)
	}
	m := a.Begin(known)
	err := m.Merge(a.News)
	return m.Text(), err
}

// put gives the job what is known after the updates so far.
func (s *standing) put() {
	if s.isAhead {
		s.job.State, s.isAhead = s.merging.Text(), false
	}
}

func (Pause) play(f *fold, e Effect, s *standing) {
	if s == nil {
		f.net.Missed++
		return
	}
	f.changeKept(e, s, func(j *Job) {
		if j.PausedAt().IsZero() {
			j.pause(f.when(e))
		}
	})
	if !s.job.PausedAt().IsZero() {
		f.net.Missed++
		return
	}
	s.job.pause(f.when(e))
	if o := s.job.Order; o != nil && o.Resumed.After(f.when(e)) { // its resume was read first
		s.job.NextCheckAt = e.Rule.notBehind(e.Rule.rested(s.job, e.Rule.Grid.Up(s.job.resume(o.Resumed))), f.now)
	}
	s.changed = true
	f.trace(e, s, Paused)
	f.net.Paused++
}

func (a Resume) play(f *fold, e Effect, s *standing) {
	if s == nil {
		f.net.Missed++
		return
	}
	f.changeKept(e, s, func(j *Job) {
		if !j.PausedAt().IsZero() {
			a.resume(f, e, j)
		}
	})
	switch at := f.when(e); {
	case s.job.PausedAt().IsZero():
		if a.Apart && (s.job.Order == nil || at.After(s.job.Order.Resumed)) {
			s.order().Resumed = at
		}
		f.net.Missed++
		return
	case a.Apart && at.Before(s.job.PausedAt()):
		f.net.Missed++
		return
	}
	a.resume(f, e, &s.job)
	s.changed = true
	f.trace(e, s, Resumed)
	f.net.Resumed++
}

// resume lets time go on for a job.
func (a Resume) resume(f *fold, e Effect, j *Job) {
	next := j.resume(f.when(e))
	if a.Next != nil {
		if at := a.Next(*j); !at.IsZero() {
			next = at
		}
	}
	j.NextCheckAt = e.Rule.notBehind(e.Rule.rested(*j, e.Rule.Grid.Up(next)), f.now)
}

func (a Snooze) play(f *fold, e Effect, s *standing) {
	if s == nil {
		f.net.Missed++
		return
	}
	next := e.Rule.notBehind(e.Rule.Grid.Up(a.Until), f.now)
	if due := s.job.due(); due.After(next) && !e.Rule.putOff(s.job) {
		next = due
	}
	s.job.SnoozedUntil = a.Until
	s.job.reschedule(next)
	s.changed = true
	f.trace(e, s, Snoozed)
	f.net.Changed++
}

func (a Move) play(f *fold, e Effect, s *standing) {
	if s == nil || s.job.Version >= e.Rule.Version {
		f.net.Missed++
		return
	}
	s.job.Version = e.Rule.Version
	if a.Next != nil {
		if at := a.Next(s.job); !at.IsZero() {
			s.job.reschedule(e.Rule.notBehind(e.Rule.rested(s.job, at), f.now))
		}
	}
	s.changed = true
	f.trace(e, s, Moved)
	f.net.Changed++
}

// rested is a slot or, where somebody snoozed the job until after it, the first one after that.
func (r *Rule) rested(j Job, slot time.Time) time.Time {
	if slot.Before(j.SnoozedUntil) {
		return r.Grid.Up(j.SnoozedUntil)
	}
	return slot
}

// putOff reports whether the next look of a job is where a snooze put it: nobody knows when it would
// be else.
func (r *Rule) putOff(j Job) bool {
	return !j.SnoozedUntil.IsZero() && j.due().Equal(r.Grid.Up(j.SnoozedUntil))
}

// notBehind is a slot that the sweep is still to come to.
func (r *Rule) notBehind(slot, now time.Time) time.Time {
	if slot.After(now) {
		return slot
	}
	return r.Grid.After(now)
}

// when is when it happened what asks for an effect.
func (f *fold) when(e Effect) time.Time {
	if e.Event == nil {
		return f.now
	}
	return e.Event.At.UTC().Truncate(time.Microsecond)
}

// remembered is what is remembered of a ref, nil if nothing is.
func (f *fold) remembered(ref Ref) *Early {
	if early, met := f.early[ref]; met {
		return early
	}
	if early, stored := f.known.Early[ref]; stored && early.Until.After(f.now) {
		if early.Ends == nil && early.Outcome != "" {
			early.Ends = []Ending{{At: early.At, Outcome: early.Outcome}}
		}
		return &early
	}
	return nil
}

// remember notes that something happened that nobody waits for.
func (f *fold) remember(e Effect, keep time.Duration) *Early {
	early := f.remembered(e.Ref)
	if early == nil {
		early = &Early{Ref: e.Ref}
	}
	f.early[e.Ref] = early
	if at := f.when(e); at.After(early.At) {
		early.At = at
	}
	early.Until = f.now.Add(keep)
	return early
}

// end takes a job away. Of a rule that was deleted nothing is said any more.
func (f *fold) end(e Effect, s *standing, a End) {
	s.gone = true
	f.at[e.Ref] = nil
	f.net.Ended++
	d := Decision{Job: s.job, Outcome: a.Outcome, Reason: a.Reason}
	if s.isNew {
		f.net.Born = append(f.net.Born, d)
		return
	}
	said := a.Say
	if said == nil && len(s.job.Alerts) > 0 {
		said = a.Close
	}
	if said != nil && !e.Rule.Deleted {
		d.close(e.Rule, said(s.job), f.decidedAt(e), f.now)
	}
	d.know(a.State)
	f.net.End = append(f.net.End, d)
}

// decidedAt is when an effect was decided: when the stream took in its event, or the time of its
// tick. What a person asks is decided now.
func (f *fold) decidedAt(e Effect) time.Time {
	var began alerts.Origin
	switch ask := e.Ask.(type) {
	case Start:
		began = ask.Job.Origin
	case Lapse:
		began = ask.Job.Origin
	}
	if e.Event == nil && began != 0 {
		return began.At()
	}
	return f.when(e)
}

// close adds the alert that resolves the open ones. at is when that was decided.
func (d *Decision) close(rule *Rule, draft alerts.Draft, at, now time.Time) {
	planned := now
	if d.Job.Origin != 0 {
		planned = at
	}
	said := rule.say(&d.Job, 0, now, planned, now, []alerts.Draft{draft})
	if len(said) == 0 {
		return // the job has the alert already
	}
	before := d.Job.Alerts
	said[0].Closes = before
	d.Alerts = said
	d.Job.Alerts = append(before[:len(before):len(before)], said[0].ID)
}
