package rules

import (
	"fmt"
	"slices"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
	"deadman/internal/schedules"
)

// waitContext holds the times that a rule's steps are counted from.
type waitContext struct {
	scope
	from   time.Time // from when steps are counted; set by timeline
	slot   time.Time // of the check
	said   time.Time // the slot of the first alert; zero: none
	heard  time.Time // since when heartbeats have been received without a gap; zero: no relevant gap
	pauses []checks.Pause
}

// waitOfCheck returns the context of a check.
func waitOfCheck(c checks.Check) waitContext {
	event := keptBody(c.Event)
	state := event
	var own []byte
	if c.State != nil && !sameBytes(c.State, c.Event) {
		own, state = c.State, keptBody(c.State)
	}
	if c.Asked {
		state = state.mergeFound(c.Found)
	}
	size := event.size()
	if state != event {
		size += state.size()
	}
	event.spend = budgetFor(size)
	return waitContext{
		scope:  scope{event: event, state: state, key: c.Key, since: c.Since, rule: c.Rule, count: c.Count, own: own, spend: &event.spend},
		slot:   c.Slot,
		said:   c.FirstAlertAt,
		heard:  c.ReceivingSince,
		pauses: c.Pauses,
	}
}

// waitOf returns the context of a job.
func waitOf(j futurejobs.Job) waitContext {
	return waitOfCheck(checks.Check{
		Key: j.Key, Event: j.Event, State: j.Known(), Since: j.Since, Count: j.CheckCount, Pauses: j.Pauses,
	})
}

// sameBytes reports whether two bodies share their memory, to avoid decoding it twice.
func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// stepTime is a step with the time when it is due.
type stepTime struct {
	*step
	at time.Time
}

// Steps returns the largest number of steps that the rule takes; 0: a handler decides that, or a step repeats until a
// user acknowledges.
func (r *Rule) Steps() int {
	if slices.ContainsFunc(r.steps, func(s step) bool { return s.nags }) {
		return 0
	}
	return len(r.steps)
}

// timeline returns when each step is due, in this order: computed steps may come before others that are written before
// them. The result is the same at each check, except for pauses since the last, and for monitoring gaps.
func (r *Rule) timeline(w waitContext) ([]stepTime, error) { return r.hasFixedTimes(w, len(r.steps)) }

// timelineTo returns the timeline up to the step at an index; further, if a later step may come before it. A heartbeat
// needs the first of a thousand.
func (r *Rule) timelineTo(w waitContext, place int) ([]stepTime, error) {
	n := min(place+1, len(r.steps))
	again := func(s step) bool { return s.nags && s.turn > 1 } // a step written after it may come between its repetitions
	if !r.rising || slices.ContainsFunc(r.steps[:n], again) {
		n = len(r.steps)
	}
	return r.hasFixedTimes(w, n)
}

// hasFixedTimes returns the timeline of the first n steps. A first step that was postponed too often by monitoring gaps
// is taken.
func (r *Rule) hasFixedTimes(w waitContext, n int) ([]stepTime, error) {
	w.from = r.begins(w)
	line, err := r.stepTimes(w, n)
	if err != nil || !r.gapLimitReached(w) || r.due(line, w.slot) == 0 {
		return line, err
	}
	// The first step was postponed and is taken now, and the steps after it are counted from it.
	w.said = w.slot
	w.from = r.begins(w)
	line, err = r.stepTimes(w, n)
	if err == nil {
		line[0].at = earliest(line[0].at, w.slot)
	}
	return line, err
}

// stepTimes returns the timeline of the first n steps, counted from w.from.
func (r *Rule) stepTimes(w waitContext, n int) ([]stepTime, error) {
	line := make([]stepTime, 0, n)
	before := w.from
	for i := range r.steps[:n] {
		s := &r.steps[i]
		at, err := s.when(w, before)
		if err != nil {
			return nil, fmt.Errorf("escalate, step %s: %w", s.name, err)
		}
		before = at
		line = append(line, stepTime{s, r.spreadSlot(w, s, s.within.Next(at))})
	}
	slices.SortStableFunc(line, func(a, b stepTime) int { return a.at.Compare(b.at) })
	return line, nil
}

// begins returns from when the steps of a job are counted: from its beginning; for a heartbeat, from when it is
// overdue.
func (r *Rule) begins(w waitContext) time.Time {
	if r.beats == nil {
		return w.since
	}
	return r.deadline(w)
}

// when returns when the step is due, whether or not its calendar is open then. before is the time of the step before
// it.
func (s *step) when(w waitContext, before time.Time) (time.Time, error) {
	switch {
	case s.at != nil:
		return s.at.instant(w.scope)
	case s.clock != nil:
		return schedules.TimeOfDay(w.since, s.clock.shows, s.clock.zone)
	}
	span, err := s.span(w.scope)
	if err != nil {
		return time.Time{}, err
	}
	if s.every {
		return passed(s.of, before, span, w.pauses), nil
	}
	return passed(s.of, w.from, span, w.pauses), nil
}

// span returns how long after the step before the step is due.
func (s *step) span(in scope) (time.Duration, error) {
	if s.computed == nil {
		return s.after, nil
	}
	return s.computed.span(in)
}

// passed returns the time when a span of a calendar's time has passed since the given time. In a pause time is
// suspended.
func passed(of *calendars.Calendar, since time.Time, span time.Duration, pauses []checks.Pause) time.Time {
	for _, p := range pauses {
		if !p.To.After(since) {
			continue
		}
		if p.From.After(since) {
			open := of.Between(since, p.From)
			if open >= span {
				break
			}
			span -= open
		}
		since = p.To
	}
	return of.Add(since, span)
}

// firstCheck returns the slot of the first check. A step further ahead of the event, or of the time when a heartbeat is
// overdue, than the horizon is refused: no user would notice that the job is never checked.
func (r *Rule) firstCheck(w waitContext, at time.Time) (time.Time, error) {
	begins := r.begins(w)
	line, err := r.timelineTo(w, 0)
	if err != nil || len(line) == 0 {
		return r.engine.Grid.Up(begins), err
	}
	horizon := r.engine.Limits.Horizon
	if last := lastPlanned(line); !r.rising && last.at.After(latest(at, begins).Add(horizon)) {
		return time.Time{}, fmt.Errorf("step %s would be at %s, beyond the horizon, %s; raise guards.horizon",
			last.name, last.at.Format(time.RFC3339), Duration(horizon))
	}
	return r.earlierRecheck(w.scope, latest(at, w.since), r.engine.Grid.Up(line[0].at)), nil
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
func (r *Rule) earlierRecheck(s scope, from, to time.Time) time.Time {
	look, err := r.between(s, from, to)
	if err != nil {
		return to // the check reports the error
	}
	return look
}

// between returns the slot of the rule's recheck between two times; to, if it has none. A recheck outside of the two
// times changes nothing.
func (r *Rule) between(s scope, from, to time.Time) (time.Time, error) {
	if r.recheck == nil {
		return to, nil
	}
	look, err := r.recheck.instantOrNone(s)
	if err != nil {
		return to, fmt.Errorf("recheck: %w", err)
	}
	if look = r.engine.Grid.Up(look); look.After(from) && look.Before(to) {
		return look, nil
	}
	return to, nil
}

// written reports whether the times of all steps are literal, so that they were compared with each other, and with the
// horizon, when the rule was saved.
func (r *Rule) written() bool {
	return !slices.ContainsFunc(r.steps, func(s step) bool {
		return s.computed != nil || s.at != nil || s.clock != nil || s.of != nil || s.within != nil
	})
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// HeldForever reports whether a check of a job at next is irrelevant: it only ends the hold of a missing heartbeat,
// which is unlimited. It is for jobs whose first step was taken: every other check of those is within the horizon.
func (r *Rule) HeldForever(next, now time.Time) bool {
	return r.beats != nil && r.document.Hold == longest && next.Sub(now) > r.engine.Limits.Horizon
}

// upcoming returns the slot of the next possible alert, given the number of steps taken and the time until when the
// alert is acknowledged; the zero time if none is possible. A step that is due by at and suppressed raises its alert
// once the acknowledgement is over. The job is checked at later steps all the same, because the condition may not hold
// any more by then. Without a condition, steps that are repeated until a user acknowledges are skipped if the
// acknowledgement is permanent.
func (r *Rule) upcoming(line []stepTime, step int, at, ackedUntil time.Time) time.Time {
	if step >= len(line) {
		return time.Time{}
	}
	good := ackedUntil.Equal(checks.Forever)
	held := at.Before(ackedUntil) && !r.engine.Grid.Up(line[step].at).After(at)
	var next time.Time
	if held && !good {
		next = r.engine.Grid.Up(ackedUntil)
	}
	for _, m := range line[step:] {
		slot := r.engine.Grid.Up(m.at)
		if good && m.nags && r.while == nil || held && !slot.After(at) {
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
func (r *Rule) upcomingOf(j futurejobs.Job, now time.Time) time.Time {
	line, err := r.timeline(waitOf(j))
	if err != nil {
		return time.Time{} // the check reports the error
	}
	return r.upcoming(line, j.Step, now, j.AckedUntil)
}
