package futurejobs

import (
	"encoding/json"
	"time"
)

// Update merges a patch into the state of a job.
type Update struct {
	// Merge returns the state after the patch. nil: Begin is used.
	Merge func(known json.RawMessage) (json.RawMessage, error)
	// Begin parses the state, for Patch and for later updates of the same run.
	Begin func(known json.RawMessage) Merging
	Patch json.RawMessage
	Sets  []AddMember // the rule's sets: a patch may contain the number of their members
}

// changing is an action that changes a job, and may change a job that a kept trigger would have begun.
type changing interface {
	Action
	// change changes a job; known may be ahead of the job's State.
	change(f *fold, e Effect, j *Job, known *knowledge)
}

func (a Update) play(f *fold, e Effect, s *foldedJob) {
	if s == nil {
		f.miss(e)
		return
	}
	err := f.usage.afford(e, int64(len(a.Patch)))
	if err == nil {
		err = a.merge(&s.job, &s.known)
	}
	if err != nil {
		f.deadLetter(e, Updates, err)
		return
	}
	for _, patch := range f.order.newer(e, &s.job) {
		again := a
		again.Patch = patch
		_ = again.merge(&s.job, &s.known) // they were merged before without an error
	}
	s.updated = true
	f.order.changeKept(e, s, a)
	f.order.note(e, s)
	f.addTrail(e, s, Updated)
	f.net.Updated++
	for _, set := range a.Sets {
		if s.job.Members.count(set.Set) == 0 {
			continue // an empty set is not complete
		}
		if s.put(); f.complete(e, s, set) {
			return
		}
	}
}

func (a Update) change(_ *fold, _ Effect, j *Job, known *knowledge) {
	_ = a.merge(j, known) // without the patch, the state of a kept trigger is still valid
}

// merge merges the patch into the state.
func (a Update) merge(j *Job, known *knowledge) error {
	if a.Begin == nil {
		known.put(&j.State)
		state, err := a.Merge(j.Known())
		if err == nil {
			j.State, known.merging = state, nil
		}
		return err
	}
	if known.merging == nil {
		known.merging = a.Begin(j.Known())
	}
	err := known.merging.Merge(a.Patch)
	known.isAhead = known.isAhead || err == nil
	return err
}

// knowledge is the state of a job during a run of updates.
type knowledge struct {
	merging Merging // nil: the state is in the job
	isAhead bool    // merging is ahead of the job
}

// put stores the state after the updates so far.
func (k *knowledge) put(state *json.RawMessage) {
	if k.isAhead {
		*state, k.isAhead = k.merging.Text(), false
	}
}

// Merging is a parsed state, so that many updates of a run cost little more than one.
type Merging interface {
	// Merge merges the patch. On an error, the state is unchanged.
	Merge(patch json.RawMessage) error
	// Text returns the current state.
	Text() json.RawMessage
}

// Pause pauses a job.
type Pause struct{}

func (a Pause) play(f *fold, e Effect, s *foldedJob) {
	if s == nil {
		f.miss(e)
		return
	}
	f.order.changeKept(e, s, a)
	f.order.note(e, s)
	if !s.job.PausedAt().IsZero() {
		f.net.Missed++
		return
	}
	s.job.pause(f.eventTime(e))
	if o := s.job.Order; o != nil && o.Resumed.After(f.eventTime(e)) { // its resume was read first
		s.job.NextCheckAt = e.Rule.notBeforeNextSlot(e.Rule.afterSnooze(s.job, e.Rule.Grid.Up(s.job.resume(o.Resumed))), f.now)
	}
	s.changed = true
	f.addTrail(e, s, Paused)
	f.net.Paused++
}

func (Pause) change(f *fold, e Effect, j *Job, _ *knowledge) {
	if j.PausedAt().IsZero() {
		j.pause(f.eventTime(e))
	}
}

// Resume ends a pause.
type Resume struct {
	// Apart means that pauses are in several streams, so that a pause may be read after its resume.
	Apart bool
	// Next returns the next check after the longer pause; zero: the old time plus the pause. It may be nil.
	Next func(Job) time.Time
}

func (a Resume) play(f *fold, e Effect, s *foldedJob) {
	if s == nil {
		f.miss(e)
		return
	}
	f.order.changeKept(e, s, a)
	f.order.note(e, s)
	switch at := f.eventTime(e); {
	case s.job.PausedAt().IsZero():
		if a.Apart && (s.job.Order == nil || at.After(s.job.Order.Resumed)) {
			s.reorder().Resumed = at
		}
		f.net.Missed++
		return
	case a.Apart && at.Before(s.job.PausedAt()):
		f.net.Missed++
		return
	}
	a.resume(f, e, &s.job)
	s.changed = true
	f.addTrail(e, s, Resumed)
	f.net.Resumed++
}

func (a Resume) change(f *fold, e Effect, j *Job, _ *knowledge) {
	if !j.PausedAt().IsZero() {
		a.resume(f, e, j)
	}
}

// resume ends the pause of a job.
func (a Resume) resume(f *fold, e Effect, j *Job) {
	next := j.resume(f.eventTime(e))
	if a.Next != nil {
		if at := a.Next(*j); !at.IsZero() {
			next = at
		}
	}
	j.NextCheckAt = e.Rule.notBeforeNextSlot(e.Rule.afterSnooze(*j, e.Rule.Grid.Up(next)), f.now)
}

// Snooze delays the next check until the given time; only another snooze moves it forward again. A later check stays
// at its time.
type Snooze struct {
	Until time.Time
	By    string // the person; empty: unknown
}

func (a Snooze) play(f *fold, e Effect, s *foldedJob) {
	if s == nil {
		f.net.Missed++
		return
	}
	next := e.Rule.notBeforeNextSlot(e.Rule.Grid.Up(a.Until), f.now)
	if !e.Rule.SnoozeDelays(s.job, a.Until) {
		next = e.Rule.notBeforeNextSlot(s.job.due(), f.now)
	}
	s.job.SnoozedUntil = a.Until
	s.job.reschedule(next)
	s.changed = true
	f.addTrail(e, s, Snoozed)
	f.net.Changed++
}

// Reschedule determines the next check of a job again, at its own version: something that the rule reads changed. The
// rule of the effect is that version; a job of another version is missed.
type Reschedule struct {
	// Steps returns how many of its steps the job has taken; nil: as many as before.
	Steps func(Job) int
	// Next returns the next check; zero: unchanged.
	Next func(Job) time.Time
}

func (a Reschedule) play(f *fold, e Effect, s *foldedJob) {
	if s == nil || s.job.Version != e.Rule.Version {
		f.net.Missed++
		return
	}
	before, step := s.job.due(), s.job.Step
	a.change(f, e, &s.job, &s.known)
	f.order.changeKeptThat(e, s, a, func(k *Kept) bool { return k.Version == e.Rule.Version })
	if s.kept == nil && s.job.due().Equal(before) && s.job.Step == step {
		return
	}
	s.changed = true
	f.addTrail(e, s, Rescheduled)
	f.net.Changed++
}

func (a Reschedule) change(f *fold, e Effect, j *Job, _ *knowledge) {
	if a.Steps != nil {
		j.Step = a.Steps(*j)
	}
	if at := a.Next(*j); !at.IsZero() {
		j.reschedule(e.Rule.notBeforeNextSlot(e.Rule.afterSnooze(*j, at), f.now))
	}
}

// MoveToVersion moves a job to the version of the effect's rule.
type MoveToVersion struct {
	// Steps returns how many steps of that version a job of another version has taken; nil: as many as before.
	Steps func(Job) int
	// Next returns the next check at that version; zero: unchanged.
	Next func(Job) time.Time
}

func (a MoveToVersion) play(f *fold, e Effect, s *foldedJob) {
	if s == nil || s.job.Version >= e.Rule.Version {
		f.net.Missed++
		return
	}
	a.change(f, e, &s.job, &s.known)
	f.order.moveKept(e, s, a)
	s.changed = true
	f.addTrail(e, s, Moved)
	f.net.Changed++
}

func (a MoveToVersion) change(f *fold, e Effect, j *Job, _ *knowledge) {
	if a.Steps != nil {
		j.Step = a.Steps(*j)
	}
	j.Version = e.Rule.Version
	if a.Next == nil {
		return
	}
	if at := a.Next(*j); !at.IsZero() {
		j.reschedule(e.Rule.notBeforeNextSlot(e.Rule.afterSnooze(*j, at), f.now))
	}
}
