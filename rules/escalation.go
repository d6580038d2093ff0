package rules

import (
	"fmt"
	"slices"
	"time"

	"deadman/rules/document"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
)

// escalation computes when the steps of a job are due, and when it is checked in between. It is safe for concurrent use.
type escalation struct {
	rule      string // the rule's name
	grid      futurejobs.Grid
	horizon   time.Duration
	heartbeat *heartbeat  // nil: another trigger
	steps     []step      // each repetition of a step is one
	recheck   *expression // nil: no check in between

	conditional bool // a condition resolves the jobs
	rising      bool // the steps are taken in the order of the document, except those repeated until a user acknowledges
	spread      int  // over how many slots the steps of different keys are spread; 1: they are not
	// offsets are the offsets of the steps of a heartbeat within a slot; nil: they are not literal.
	offsets []time.Duration
}

// newEscalation completes the compiled steps of a document.
func newEscalation(d document.Document, grid futurejobs.Grid, e escalation) *escalation {
	e.rule, e.grid, e.horizon = d.Name, grid, time.Duration(d.Guards.Horizon)
	e.conditional = d.While != ""
	e.spread = max(1, int(time.Duration(d.Spread)/time.Duration(grid)))
	e.rising = e.hasLiteralTimes()
	if e.heartbeat != nil {
		e.offsets = e.offsetsOf()
	}
	return &e
}

// CalendarOf returns the calendar whose open time counts for a step; nil: all time counts.
func (e *escalation) CalendarOf(step string) *calendars.Calendar {
	for _, s := range e.steps {
		if s.name == step {
			return s.of
		}
	}
	return nil
}

// stepTime is a step with the time when it is due.
type stepTime struct {
	*step
	at  time.Time
	due time.Time // before it is postponed until its calendar opens, and spread
}

// timeline returns when each step is due, in this order: computed steps may come before others that are written before
// them. The result is the same at each check, except for pauses since the last, and for monitoring gaps.
func (e *escalation) timeline(w jobContext) ([]stepTime, error) {
	return e.timelineOf(w, len(e.steps))
}

// timelineTo returns the timeline up to the step at an index; further, if a later step may come before it. A heartbeat
// needs the first of a thousand.
func (e *escalation) timelineTo(w jobContext, place int) ([]stepTime, error) {
	n := min(place+1, len(e.steps))
	again := func(s step) bool { return s.nags && s.turn > 1 } // a step written after it may come between its repetitions
	if !e.rising || slices.ContainsFunc(e.steps[:n], again) {
		n = len(e.steps)
	}
	return e.timelineOf(w, n)
}

// timelineOf returns the timeline of the first n steps. A first step that was postponed too often by monitoring gaps
// is taken.
func (e *escalation) timelineOf(w jobContext, n int) ([]stepTime, error) {
	w.from = e.begins(w)
	line, err := e.stepTimes(w, n)
	if err != nil || !e.heartbeat.gapLimitReached(w) || e.due(line, w.slot) == 0 {
		return line, err
	}
	// The first step was postponed and is taken now, and the steps after it are counted from it.
	w.alertedAt = w.slot
	w.from = e.begins(w)
	line, err = e.stepTimes(w, n)
	if err == nil {
		line[0].at = earliest(line[0].at, w.slot)
	}
	return line, err
}

// stepTimes returns the timeline of the first n steps, counted from w.from.
func (e *escalation) stepTimes(w jobContext, n int) ([]stepTime, error) {
	line := make([]stepTime, 0, n)
	before := w.from
	for i := range e.steps[:n] {
		s := &e.steps[i]
		at, err := s.when(w, before)
		if err != nil {
			return nil, fmt.Errorf("escalate, step %s: %w", s.name, err)
		}
		before = at
		line = append(line, stepTime{s, e.spreadSlot(w, s, s.within.Next(at)), at})
	}
	slices.SortStableFunc(line, func(a, b stepTime) int { return a.at.Compare(b.at) })
	return line, nil
}

// begins returns from when the steps of a job are counted: from its beginning; for a heartbeat, from when it is
// overdue.
func (e *escalation) begins(w jobContext) time.Time {
	if e.heartbeat == nil {
		return w.since
	}
	return e.deadline(w)
}

// firstCheck returns the slot of the first check. A step further ahead of the event, or of the time when a heartbeat is
// overdue, than the horizon is refused: no user would notice that the job is never checked.
func (e *escalation) firstCheck(w jobContext, at time.Time) (time.Time, error) {
	begins := e.begins(w)
	line, err := e.timelineTo(w, 0)
	if err != nil || len(line) == 0 {
		return e.grid.Up(begins), err
	}
	horizon := e.horizon
	if last := lastPlanned(line); !e.rising && last.at.After(latest(at, begins).Add(horizon)) {
		return time.Time{}, fmt.Errorf("step %s would be at %s, beyond the horizon, %s; raise guards.horizon",
			last.name, last.at.Format(time.RFC3339), document.Duration(horizon))
	}
	return e.earlierRecheck(w.scope, latest(at, w.since), e.grid.Up(line[0].at)), nil
}

// lastPlanned returns the last step of a timeline, with only the first repetition of a step that is repeated until a
// user acknowledges: an acknowledgement is expected long before its last.
func lastPlanned(line []stepTime) stepTime {
	last := len(line) - 1
	for last > 0 && line[last].nags && line[last].turn > 1 {
		last--
	}
	return line[last]
}

// earlierRecheck returns the slot of the rule's recheck between two times; to, if it has none.
func (e *escalation) earlierRecheck(s scope, from, to time.Time) time.Time {
	at, err := e.between(s, from, to)
	if err != nil {
		return to // the check reports the error
	}
	return at
}

// between returns the slot of the rule's recheck between two times; to, if it has none. A recheck outside of the two
// times changes nothing.
func (e *escalation) between(s scope, from, to time.Time) (time.Time, error) {
	if e.recheck == nil {
		return to, nil
	}
	at, err := e.recheck.instantOrNone(s)
	if err != nil {
		return to, fmt.Errorf("recheck: %w", err)
	}
	if at = e.grid.Up(at); at.After(from) && at.Before(to) {
		return at, nil
	}
	return to, nil
}

// hasLiteralTimes reports whether the times of all steps are literal, so that they were compared with each other, and with the
// horizon, when the rule was saved.
func (e *escalation) hasLiteralTimes() bool {
	return !slices.ContainsFunc(e.steps, func(s step) bool {
		return s.isMovable() || s.clock != nil
	})
}

// upcoming returns the slot of the next possible alert, given the number of steps taken and the time until when the
// alert is acknowledged; the zero time if none is possible. A step that is due by at and suppressed raises its alert
// once the acknowledgement is over. The job is checked at later steps all the same, because the condition may not hold
// any more by then. Without a condition, steps that are repeated until a user acknowledges are skipped if the
// acknowledgement is permanent.
func (e *escalation) upcoming(line []stepTime, step int, at, ackedUntil time.Time) time.Time {
	if step >= len(line) {
		return time.Time{}
	}
	good := ackedUntil.Equal(checks.Forever)
	held := at.Before(ackedUntil) && !e.grid.Up(line[step].at).After(at)
	var next time.Time
	if held && !good {
		next = e.grid.Up(ackedUntil)
	}
	for _, m := range line[step:] {
		slot := e.grid.Up(m.at)
		if good && m.nags && !e.conditional || held && !slot.After(at) {
			continue
		}
		if next.IsZero() || slot.Before(next) {
			return slot
		}
		break
	}
	return next
}

// upcomingOf returns upcoming for a job; also the zero time if the timeline is undetermined.
func (e *escalation) upcomingOf(j futurejobs.Job, now time.Time) time.Time {
	line, err := e.timeline(contextOf(j))
	if err != nil {
		return time.Time{} // the check reports the error
	}
	return e.upcoming(line, j.Step, now, j.AckedUntil)
}

// stepsMove reports whether a step has another slot after a heartbeat than before, so that the heartbeat has to be
// written although the next check stays. The first step is that check, unless the rule has a recheck before it.
func (e *escalation) stepsMove(was, now futurejobs.Job) (bool, error) {
	if len(e.steps) == 0 || len(e.steps) == 1 && e.recheck == nil {
		return false, nil
	}
	if e.offsets != nil && len(now.Pauses) == 0 {
		before, after := e.begins(contextOf(was)), e.begins(contextOf(now))
		return slices.ContainsFunc(e.offsets, func(offset time.Duration) bool {
			return !e.grid.Up(before.Add(offset)).Equal(e.grid.Up(after.Add(offset)))
		}), nil
	}
	before, err := e.timeline(contextOf(was))
	if err != nil {
		return false, err
	}
	after, err := e.timeline(contextOf(now))
	if err != nil {
		return false, err
	}
	return !slices.EqualFunc(before, after, func(a, b stepTime) bool {
		return a.step == b.step && e.grid.Up(a.at).Equal(e.grid.Up(b.at))
	}), nil
}

// offsetsOf returns the offsets of the steps within a slot, each once, counted from the time of a first step without
// delay; nil if their times are not all literal.
func (e *escalation) offsetsOf() (offsets []time.Duration) {
	if !e.hasLiteralTimes() {
		return nil
	}
	var at time.Duration
	for _, s := range e.steps {
		if s.every {
			at += s.after
		} else {
			at = s.after
		}
		if offset := at % time.Duration(e.grid); !slices.Contains(offsets, offset) {
			offsets = append(offsets, offset)
		}
	}
	return offsets
}

// slotOf returns the slot from when a job is overdue.
func (e *escalation) slotOf(j futurejobs.Job) time.Time { return e.grid.Up(e.begins(contextOf(j))) }

// due returns how many steps have had their slot.
func (e *escalation) due(line []stepTime, at time.Time) int {
	n := 0
	for n < len(line) && !e.grid.Up(line[n].at).After(at) {
		n++
	}
	return n
}

// deadline returns when a heartbeat is overdue. If deadman did not receive heartbeats while one was due, the deadline
// is later.
func (e *escalation) deadline(w jobContext) time.Time {
	at, since := e.heartbeat.noGapSince(w)
	if !w.receivingSince.After(since) {
		return at
	}
	return e.deadlineAfterGap(w, at)
}

// deadlineAfterGap returns when a heartbeat due at the given time is overdue, if one before it may have been missed in
// a monitoring gap:
//
//  1. The interval restarts at the end of the gap: the next heartbeat may be a whole interval away.
//  2. An alert that was raised stays, and the following steps are counted from it.
//  3. A job that was restarted too often is not postponed any more.
func (e *escalation) deadlineAfterGap(w jobContext, at time.Time) time.Time {
	switch {
	case !w.alertedAt.IsZero():
		return latest(at, w.alertedAt.Add(-e.lead(w)))
	case w.count >= e.heartbeat.maxGapRestarts(w):
		return at
	}
	return latest(at, e.heartbeat.restartDeadline(w))
}

// lead returns how long after the deadline the first step of a key is due, unless a calendar counts it.
func (e *escalation) lead(w jobContext) time.Duration {
	if len(e.steps) == 0 {
		return 0
	}
	later := e.spreadDelay(w.key)
	if first := &e.steps[0]; first.at == nil && first.of == nil {
		if span, err := first.span(w.scope); err == nil { // otherwise the check reports the error
			return span + later
		}
	}
	return later
}

// slotAfter returns the slot of a check that is due at a time, for the job of a tick: a check that is due by the tick
// itself comes a slot later.
func (e *escalation) slotAfter(tick, at time.Time) time.Time {
	return latest(e.grid.Up(at), e.grid.After(tick))
}

// nextOf returns the time of a job's next check: the slot of its next step, or an earlier recheck of the rule; the zero
// time if no step is left or the times are undetermined.
func (e *escalation) nextOf(j futurejobs.Job) time.Time {
	w := contextOf(j)
	line, err := e.timelineTo(w, j.Step)
	if err != nil || j.Step >= len(line) {
		return time.Time{}
	}
	from := j.Since
	if n := len(j.Pauses); n > 0 {
		from = j.Pauses[n-1].To
	}
	return e.earlierRecheck(w.scope, from, e.grid.Up(line[j.Step].at))
}

// spreadSlot returns the slot of a key for a step that is due at the given time for all keys. If the step's calendar
// has closed by then, the slot is when it opens.
func (e *escalation) spreadSlot(w jobContext, s *step, at time.Time) time.Time {
	if later := e.spreadDelay(w.key); later > 0 {
		return s.within.Next(at.Add(later))
	}
	return at
}

// spreadDelay returns the delay of the steps of a key against those of the first: a whole number of slots, so that each slot
// of the spread has about as many keys as any other.
func (e *escalation) spreadDelay(key string) time.Duration {
	return time.Duration(e.spreadIndex(key)) * time.Duration(e.grid)
}

// spreadIndex returns by how many slots the steps of a key are later.
func (e *escalation) spreadIndex(key string) int {
	if e.spread <= 1 {
		return 0
	}
	return futurejobs.SpreadIndex(e.rule, key, e.spread)
}
