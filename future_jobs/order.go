package futurejobs

import (
	"encoding/json"
	"slices"
	"time"

	"deadman/alerts"
)

// ClockSkew is the maximum difference between the clocks of two sources of events: of the leaders of two streams, or
// of such a leader and the database. Events of two sources that are further apart are ordered by their times. An
// event that seems older than its trigger by no more than this belongs to the trigger, unless another job was open
// until the trigger, as the event may belong to that job as well.
const ClockSkew = 100 * time.Millisecond

// ordering sorts events of several streams, as streams are read at different speeds. Each rule of the order is a method;
// add new rules here:
//
//	isOlder     An event that is older than a job does not apply to it.
//	precede     A trigger that is older than the job, and is read after the job's own, replaces the job's trigger.
//	begin       A job's place in the order is that of its trigger.
//	isCovered   A trigger that arrived during a job, and is read after the end of that job, is ignored.
//	recall      Events after a trigger that were read before it are played once the trigger is read.
//	keep        An ignored trigger is kept with the job that it would have begun.
//	changeKept  A change of a job also changes the jobs of older kept triggers.
//	moveKept    A move to a version also moves the jobs of kept triggers of older versions.
//	note        A change is stored for an older trigger that is read later.
//	newer       Patches that are older than patches of another stream are merged below them.
//	finish      An end that is older than a kept trigger leaves the job of that trigger.
//	missed      An end or a change that finds no job is stored for a trigger that is read later.
//
// The order is stored with the job (Order) or, without a job, for the key (EarlyEvent).
type ordering struct {
	fold      *fold
	early     earlyEvents
	replaying bool // a remembered change is played, which the jobs of kept triggers have already
}

// isOlder reports whether the event of an effect is older than the job, so that it does not apply. Events of the
// trigger's own stream are read in order, and never older.
func (o *ordering) isOlder(e Effect, j *Job) bool {
	at := o.fold.eventTime(e)
	if e.OutOfOrder && at.Before(j.Since) {
		return true
	}
	if e.Event == nil || !e.Apart && (j.Order == nil || !j.Order.ByHand) {
		return false
	}
	if j.beganAt().Sub(o.fold.now) > ahead { // set by a clock that was ahead, and the job is not moved yet
		return false
	}
	by := j.beganAt().Sub(at)
	return by > ClockSkew || by > 0 && j.Order != nil && j.Order.After
}

// setOrder sets the order of a new job, unless its Since determines it. after reports whether another job of the key was
// open until now.
func (o *ordering) setOrder(a Start, e Effect, j *Job, after bool) {
	order := Order{ByHand: a.ByHand}
	if a.OrderedByTime {
		order.After = after
		if at := o.fold.eventTime(e); at.Before(j.Since) {
			order.At = at
		}
	}
	if e.Event != nil && e.Event.Trace != nil {
		order.Trace = e.Event.Trace.Parent
	}
	if order.ByHand || order.After || !order.At.IsZero() || order.Trace != "" {
		placed := order // order itself would be allocated for each job
		j.Order = &placed
	}
}

// isCovered reports whether a trigger arrived during a job that has ended by now, so that it begins none.
func (o *ordering) isCovered(a Start, e Effect, j *Job) bool {
	if !a.OrderedByTime || a.Restart || e.Event == nil {
		return false
	}
	early := o.early.of(e.Ref)
	return early != nil && early.covers(j.beganAt())
}

// recall applies remembered events to a job with a trigger that was read after them.
func (o *ordering) recall(a Start, e Effect, s *foldedJob) {
	early := o.early.of(e.Ref)
	if early == nil {
		return
	}
	startedAt, skew := s.job.beganAt(), time.Duration(0)
	if a.OrderedByTime {
		skew = ClockSkew
	}
	switch i := early.find(startedAt, skew); {
	case i >= 0:
		o.recallEnd(a, e, s, *early, i)
	case len(early.Members) > 0 && !early.At.Add(skew).Before(startedAt) && o.recallMembers(a, e, s, *early):
	case s.job.Order != nil && s.job.Order.After:
		o.recallChanges(a, e, s, startedAt)
	default:
		o.recallChanges(a, e, s, startedAt.Add(-skew))
	}
}

// recallEnd ends a job by the i-th remembered end.
func (o *ordering) recallEnd(a Start, e Effect, s *foldedJob, early EarlyEvent, i int) {
	end := early.Ends[i]
	o.early.store(e.Ref, nil)
	if a.OrderedByTime || early.TurnedAway { // another trigger before the end may be read later, or retried
		early.Ends = slices.Clone(early.Ends)
		early.Ends[i].From = s.job.beganAt()
		early.Changes = early.Changes.since(end.At)
		o.early.store(e.Ref, &early)
	}
	o.fold.end(e, s, End{Outcome: end.Outcome, Reason: "the end arrived before the trigger"})
}

// recallMembers adds remembered members to the job's sets, and reports whether they end the job.
func (o *ordering) recallMembers(a Start, e Effect, s *foldedJob, early EarlyEvent) bool {
	s.job.Members, early.Members = early.Members, nil
	o.early.put(e.Ref, early)
	for _, set := range a.Sets {
		if !o.fold.complete(e, s, set) {
			continue
		}
		if a.OrderedByTime || early.TurnedAway {
			early.add(Ending{At: early.At, Outcome: set.End.Outcome, From: s.job.beganAt()})
			o.early.store(e.Ref, &early)
		}
		return true
	}
	return false
}

// recallChanges plays the remembered changes since a time.
func (o *ordering) recallChanges(a Start, e Effect, s *foldedJob, since time.Time) {
	early := o.early.of(e.Ref)
	if early == nil || a.Merge == nil {
		return
	}
	changes := early.Changes.since(since)
	if len(changes) == 0 {
		return
	}
	rest := *early
	rest.Changes = early.Changes[:len(early.Changes)-len(changes)]
	o.early.put(e.Ref, rest)
	for i := range changes {
		if s.gone { // an update completed a set
			o.early.addChange(e.Ref, changes[i], e.Rule.Early)
			continue
		}
		o.replay(changes[i].effect(a, e), s)
	}
}

// replay plays a remembered change on a job. The jobs of its kept triggers have the change already, or began after it.
func (o *ordering) replay(e Effect, s *foldedJob) {
	s.endRun()
	o.replaying = true
	defer func() { o.replaying = false }()
	e.Action.play(o.fold, e, s)
}

// precede replaces the trigger of a job by an older one that is read later, and keeps the job's own. It returns false
// if it does not: the job was checked, or the job of the older trigger had ended before.
func (o *ordering) precede(a Start, e Effect, s *foldedJob) bool {
	f, j, at, startedAt := o.fold, &s.job, o.fold.eventTime(e), s.job.beganAt()
	if a.Restart || !a.OrderedByTime || e.OutOfOrder || j.CheckCount+j.UndeterminedChecks > 0 || j.Order != nil && (j.Order.ByHand || j.Order.Forgot) {
		return false
	}
	if early := o.early.of(e.Ref); early != nil {
		if i := early.find(at, 0); i >= 0 && early.Ends[i].At.Before(startedAt) {
			return false
		}
	}
	s.endRun()
	order := s.reorder()
	order.keep(Kept{
		At: startedAt, Since: j.Since, First: j.FirstCheckAt, Next: j.NextCheckAt, Version: j.Version, Origin: j.Origin, Event: j.Event, State: j.State,
		Pauses: j.Pauses, PausedNext: j.PausedNext, Members: j.Members,
	})
	changes := order.Changes
	order.At, order.After, order.Changes, order.Trace = time.Time{}, false, nil, e.Event.parent()
	if at.Before(a.Job.Since) {
		order.At = at
	}
	j.Since, j.Event, j.Version, j.State, j.Pauses, j.PausedNext = a.Job.Since, a.Job.Event, a.Job.Version, nil, nil, time.Time{}
	j.NextCheckAt = e.Rule.notBeforeNextSlot(e.Rule.afterSnooze(*j, a.first()), f.now)
	s.changed = true
	f.net.Kept++
	o.recallChanges(a, e, s, at)
	for i := range changes {
		o.replay(changes[i].effect(a, e), s)
	}
	return true
}

// keep stores a trigger that changed nothing in the job's Order.
func (o *ordering) keep(a Start, e Effect, s *foldedJob) {
	job := a.Job
	kept := Kept{At: o.fold.eventTime(e), Since: job.Since, First: job.FirstCheckAt, Next: a.first(), Version: job.Version, Event: job.Event}
	if e.Event != nil {
		kept.Origin = alerts.OriginOf(e.Event.At, e.Event.Seq)
	}
	s.endRun()
	order, known := s.reorder(), knowledge{}
	for _, c := range order.Changes.since(kept.At) {
		by := c.effect(a, e)
		kept.change(e.Ref, func(j *Job) { by.Action.(changing).change(o.fold, by, j, &known) })
	}
	known.put(&kept.State)
	order.keep(kept)
}

// changeKept applies an event to the jobs that earlier kept triggers would have begun.
func (o *ordering) changeKept(e Effect, s *foldedJob, by changing) {
	if e.Event == nil || o.replaying {
		return
	}
	o.changeKeptThat(e, s, by, func(k *Kept) bool { return !e.Apart || !k.At.After(o.fold.eventTime(e)) })
}

// moveKept moves the jobs of kept triggers of older versions to the version of a move.
func (o *ordering) moveKept(e Effect, s *foldedJob, by MoveToVersion) {
	o.changeKeptThat(e, s, by, func(k *Kept) bool { return k.Version < e.Rule.Version })
}

// changeKeptThat changes the jobs of the kept triggers for which is returns true.
func (o *ordering) changeKeptThat(e Effect, s *foldedJob, by changing, is func(*Kept) bool) {
	if s.job.Order == nil || len(s.job.Order.Kept) == 0 {
		return
	}
	order := s.reorder()
	if s.kept == nil {
		order.Kept, s.kept = slices.Clone(order.Kept), make([]knowledge, len(order.Kept))
	}
	for i := range order.Kept {
		if k := &order.Kept[i]; is(k) {
			k.change(e.Ref, func(j *Job) { by.change(o.fold, e, j, &s.kept[i]) })
		}
	}
}

// note stores a change in the job's Order.
func (o *ordering) note(e Effect, s *foldedJob) {
	c, ok := changeOf(e, o.fold.eventTime(e))
	if !ok {
		return
	}
	order := s.reorder()
	changes, forgot := order.Changes.add(c)
	order.Changes, order.Forgot = changes, order.Forgot || forgot
}

// newer returns the patches of other streams in the job's Order that are newer than the effect.
func (o *ordering) newer(e Effect, j *Job) (patches []json.RawMessage) {
	if !e.Apart || e.Event == nil || j.Order == nil {
		return nil
	}
	at := o.fold.eventTime(e)
	for _, c := range j.Order.Changes {
		if c.Kind == Updated && c.At.After(at) && c.Stream != e.Event.Stream {
			patches = append(patches, c.Patch)
		}
	}
	return patches
}

// finish ends a job by an event, and begins the job of the first kept trigger that is newer than the event.
func (o *ordering) finish(e Effect, s *foldedJob, a End) {
	f, newer := o.fold, []Kept(nil)
	if e.Event != nil && (e.Apart && a.Early > 0 || o.early.wasTurnedAway(e.Ref)) {
		o.early.add(e.Ref, f.eventTime(e), a.Early).add(Ending{At: f.eventTime(e), Outcome: a.Outcome, From: s.job.beganAt()})
	}
	if e.Apart && e.Event != nil && s.job.Order != nil {
		newer = s.job.Order.newerThan(f.eventTime(e))
	}
	o.release(e, s, newer)
	f.end(e, s, a)
	if len(newer) == 0 {
		return
	}
	job := newer[0].job(e.Ref)
	job.CreatedAt = f.now
	if job.PausedAt().IsZero() {
		job.NextCheckAt = e.Rule.notBeforeNextSlot(job.NextCheckAt, f.now)
	}
	job.Order = &Order{After: true, Kept: slices.Clone(newer[1:]), Changes: s.job.Order.Changes.since(newer[0].At), Forgot: s.job.Order.Forgot}
	if newer[0].At.Before(job.Since) {
		job.Order.At = newer[0].At
	}
	f.net.Created++
	f.usage.start(e.Rule, f.track(e.Ref, foldedJob{job: job, isNew: true}))
}

// release remembers the changes of an ending job that are newer than its end. The job of the first kept trigger has
// the changes that are newer than that trigger.
func (o *ordering) release(e Effect, s *foldedJob, kept []Kept) {
	if e.Event == nil || e.Rule.Early <= 0 || s.job.Order == nil {
		return
	}
	for _, c := range s.job.Order.Changes.since(o.fold.eventTime(e)) {
		if len(kept) == 0 || e.Rule.Scattered && c.At.Before(kept[0].At) {
			o.early.addChange(e.Ref, c, e.Rule.Early)
		}
	}
}

// missed remembers a change that finds no job, or an end or a change that is older than the job, and reports whether
// it did. An end or a change that is older than the job matters only if triggers are in several streams: an older
// trigger may be read later.
func (o *ordering) missed(e Effect) bool {
	if c, ok := changeOf(e, o.fold.eventTime(e)); ok {
		o.early.addChange(e.Ref, c, e.Rule.Early)
		return true
	}
	end, ok := e.Action.(End)
	if !ok || !e.Apart || e.Event == nil || end.Early <= 0 {
		return false
	}
	at := o.fold.eventTime(e)
	o.early.add(e.Ref, at, end.Early).add(Ending{At: at, Outcome: end.Outcome})
	return true
}

// turnedAway records a job refused by a quota. It is remembered if its event has a dead letter, which may be retried.
func (o *ordering) turnedAway(e Effect, hasLetter bool) {
	gone := Unbegun{Ref: e.Ref, At: o.fold.eventTime(e)}
	if hasLetter {
		gone.Until = o.early.rememberRefused(e.Ref)
	}
	o.fold.net.Unbegun = append(o.fold.net.Unbegun, gone)
}

// older plays an effect that is older than the job.
func (o *ordering) older(e Effect, s *foldedJob) {
	if e.Rule.Scattered && !e.OutOfOrder {
		if a, isStart := e.Action.(Start); isStart && o.precede(a, e, s) {
			return
		}
		if o.missed(e) {
			o.fold.net.Remembered++
			return
		}
	}
	o.fold.net.Missed++
}
