package futurejobs

import (
	"slices"
	"time"

	"deadman/alerts"
)

// ClockSkew is how far the clocks of two sources of events may be apart: of the servers that lead two streams, or
// of such a server and the database. Events of two sources that are further apart are put in the order of their
// times. An event that seems to be older than its trigger by no more than this belongs to the trigger, unless another
// job was open until the trigger came, which the event may belong to as well.
const ClockSkew = 100 * time.Millisecond

// ordering puts events in order that come by several streams, which are read at different speeds. Each rule of the
// order is a method of it; a new rule belongs here:
//
//	isOlder     An event that is older than a job says nothing of it.
//	begin       A job's place in the order is that of its trigger.
//	isCovered   A trigger that is read after the end of the job that it came in is kept out.
//	recall      What happened after a trigger, and was read before it, is played once the trigger is read.
//	keep        A trigger that was kept out leaves the job that would have begun with it.
//	changeKept  What changes a job changes the jobs that would have begun with the triggers before it, too.
//	finish      An end that is older than a kept trigger leaves the job of that trigger.
//	remember    An end that finds no job is remembered for a trigger that is read later.
//
// What the rules rest on is remembered beside the job (Order) or, where there is none, for the key (Early).
type ordering struct {
	fold  *fold
	early map[Ref]*Early // what was remembered in this run, or used up (nil)
}

// isOlder reports whether the event of an effect came before the job began, so that it does not apply to the job.
// Events of the trigger's own stream are read in their order, and never older.
func (o *ordering) isOlder(e Effect, j *Job) bool {
	at := o.fold.when(e)
	if e.Late && at.Before(j.Since) {
		return true
	}
	if e.Event == nil || !e.Apart && (j.Order == nil || !j.Order.ByHand) {
		return false
	}
	if j.beganAt().Sub(o.fold.now) > ahead { // by a clock that was ahead, and the job is not moved yet
		return false
	}
	by := j.beganAt().Sub(at)
	return by > ClockSkew || by > 0 && j.Order != nil && j.Order.After
}

// begin puts a job in the order of events, where its Since does not: after is whether another job of the key was open
// until now.
func (o *ordering) begin(a Start, e Effect, j *Job, after bool) {
	order := Order{ByHand: a.ByHand}
	if a.Orders {
		order.After = after
		if at := o.fold.when(e); at.Before(j.Since) {
			order.At = at
		}
	}
	if order.ByHand || order.After || !order.At.IsZero() {
		placed := order // order itself would be allocated for each job
		j.Order = &placed
	}
}

// isCovered reports whether a trigger came while a job was open that has ended by now, so that it begins none.
func (o *ordering) isCovered(a Start, e Effect, j *Job) bool {
	if !a.Orders || a.Restart || e.Event == nil {
		return false
	}
	early := o.remembered(e.Ref)
	return early != nil && early.covers(j.beganAt())
}

// recall has what happened before a trigger was read end the job, or gives it the members of its sets.
func (o *ordering) recall(a Start, e Effect, s *standing) {
	early := o.remembered(e.Ref)
	if early == nil {
		return
	}
	began, skew := s.job.beganAt(), time.Duration(0)
	if a.Orders {
		skew = ClockSkew
	}
	if i := early.find(began, skew); i >= 0 {
		end := early.Ends[i]
		o.early[e.Ref] = nil
		if a.Orders { // another trigger before the end may be read later
			rest := *early
			rest.Ends = slices.Clone(early.Ends)
			rest.Ends[i].From = began
			o.early[e.Ref] = &rest
		}
		o.fold.end(e, s, End{Outcome: end.Outcome, Reason: "it happened before the trigger came"})
		return
	}
	if len(early.Members) == 0 || early.At.Add(skew).Before(began) {
		return
	}
	s.job.Members = early.Members
	o.early[e.Ref] = nil
	if len(early.Ends) > 0 {
		rest := *early
		rest.Members = nil
		o.early[e.Ref] = &rest
	}
	for _, set := range a.Sets {
		if !o.fold.complete(e, s, set) {
			continue
		}
		if a.Orders {
			rest := *early
			rest.Members = nil
			rest.add(Ending{At: early.At, Outcome: set.End.Outcome, From: began})
			o.early[e.Ref] = &rest
		}
		return
	}
}

// keep has the job remember a trigger that changed nothing.
func (o *ordering) keep(e Effect, s *standing, begins Job) {
	next := begins.NextCheckAt
	if next.IsZero() {
		next = begins.FirstCheckAt
	}
	kept := Kept{At: o.fold.when(e), Since: begins.Since, First: begins.FirstCheckAt, Next: next, Version: begins.Version, Event: begins.Event}
	if e.Event != nil {
		kept.Origin = alerts.OriginOf(e.Event.At, e.Event.Seq)
	}
	s.reorder().keep(kept)
}

// changeKept has an event change the jobs that would have begun with the triggers before it.
func (o *ordering) changeKept(e Effect, s *standing, by func(*Job)) {
	if e.Event == nil || s.job.Order == nil || len(s.job.Order.Kept) == 0 {
		return
	}
	at, order := o.fold.when(e), s.reorder()
	order.Kept = slices.Clone(order.Kept)
	for i := range order.Kept {
		if k := &order.Kept[i]; !e.Apart || !k.At.After(at) {
			k.change(e.Ref, by)
		}
	}
}

// finish ends a job by an event, and begins the job of the first trigger that was kept and is newer than the event.
func (o *ordering) finish(e Effect, s *standing, a End) {
	f, newer := o.fold, []Kept(nil)
	if e.Apart && e.Event != nil {
		if a.Early > 0 {
			o.remember(e, a.Early).add(Ending{At: f.when(e), Outcome: a.Outcome, From: s.job.beganAt()})
		}
		if s.job.Order != nil {
			newer = s.job.Order.newerThan(f.when(e))
		}
	}
	f.end(e, s, a)
	if len(newer) == 0 {
		return
	}
	job := newer[0].job(e.Ref)
	job.CreatedAt = f.now
	if job.PausedAt().IsZero() {
		job.NextCheckAt = e.Rule.notBehind(job.NextCheckAt, f.now)
	}
	job.Order = &Order{After: true, Kept: slices.Clone(newer[1:])}
	if newer[0].At.Before(job.Since) {
		job.Order.At = newer[0].At
	}
	f.net.Created++
	f.stand(e.Ref, standing{job: job, isNew: true})
}

// remember notes that something happened that no job waits for.
func (o *ordering) remember(e Effect, keep time.Duration) *Early {
	early := o.remembered(e.Ref)
	if early == nil {
		early = &Early{Ref: e.Ref}
	}
	o.early[e.Ref] = early
	if at := o.fold.when(e); at.After(early.At) {
		early.At = at
	}
	early.Until = o.fold.now.Add(keep)
	return early
}

// remembered is what is remembered of a key, nil if nothing is.
func (o *ordering) remembered(ref Ref) *Early {
	if early, met := o.early[ref]; met {
		return early
	}
	if early, stored := o.fold.known.Early[ref]; stored && early.Until.After(o.fold.now) {
		if early.Ends == nil && early.Outcome != "" {
			early.Ends = []Ending{{At: early.At, Outcome: early.Outcome}}
		}
		return &early
	}
	return nil
}

// sum adds what is remembered of keys once all is played, and what is forgotten.
func (o *ordering) sum(net *Net) {
	for ref, early := range o.early {
		if early != nil {
			net.Remember = append(net.Remember, *early)
		} else if _, stored := o.fold.known.Early[ref]; stored {
			net.Forget = append(net.Forget, ref)
		}
	}
}
