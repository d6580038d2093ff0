package futurejobs

import (
	"slices"
	"time"

	"deadman/checks"
)

// EarlyEvent stores events of a key that arrived without a pending job: an outcome, members of sets, or changes.
type EarlyEvent struct {
	Ref
	At      time.Time      // time of the last event that is not a change
	Until   time.Time      // it is stored until then
	Outcome checks.Outcome // of the last end
	Members Members
	Ends    []Ending // oldest first; nil: the only end is Outcome at At, if Outcome is set
	Changes Changes

	TurnedAway bool // a quota refused a job of the key, and its event may be retried
}

// Size returns the bytes of bodies and sets.
func (e *EarlyEvent) Size() int { return len(e.Members) + e.Changes.size() }

// isEmpty reports whether nothing is stored.
func (e *EarlyEvent) isEmpty() bool {
	return e.Outcome == "" && len(e.Members)+len(e.Ends)+len(e.Changes) == 0 && !e.TurnedAway
}

// Ending is an end with a trigger that may be read later.
type Ending struct {
	At      time.Time      `json:"at"`
	Outcome checks.Outcome `json:"outcome"`
	From    time.Time      `json:"from,omitzero"` // start of the job that it ended; zero: it found no job
}

// add stores an end. Beyond maxEndings, the oldest are dropped.
func (e *EarlyEvent) add(end Ending) {
	e.Ends = append(slices.Clone(e.Ends), end)
	slices.SortStableFunc(e.Ends, func(a, b Ending) int { return a.At.Compare(b.At) })
	e.Ends = e.Ends[max(0, len(e.Ends)-maxEndings):]
	e.Outcome = e.Ends[len(e.Ends)-1].Outcome
}

// find returns the index of the first end after a job's beginning; -1: none.
func (e *EarlyEvent) find(startedAt time.Time, skew time.Duration) int {
	return slices.IndexFunc(e.Ends, func(end Ending) bool {
		if !end.From.IsZero() {
			return !end.At.Before(startedAt)
		}
		return !end.At.Add(skew).Before(startedAt)
	})
}

// covers reports whether a trigger arrived during a job that has ended by now.
func (e *EarlyEvent) covers(startedAt time.Time) bool {
	i := e.find(startedAt, 0)
	return i >= 0 && !e.Ends[i].From.IsZero() && !startedAt.Before(e.Ends[i].From)
}

// earlyEvents stores the early events of a run's keys.
type earlyEvents struct {
	now    time.Time
	known  map[Ref]EarlyEvent  // from earlier runs
	stored map[Ref]*EarlyEvent // stored or used up (nil) in this run; nil: none
	away   map[Ref]bool        // keys with a job refused by a quota in this run
}

// add stores an event of a key that arrived before its trigger, for a limited time.
func (s *earlyEvents) add(ref Ref, at time.Time, keep time.Duration) *EarlyEvent {
	early := s.hold(ref, keep)
	if at.After(early.At) || len(early.Ends)+len(early.Members) == 0 {
		early.At = at
	}
	return early
}

// addChange stores a change without a pending job.
func (s *earlyEvents) addChange(ref Ref, c Change, keep time.Duration) {
	early := s.hold(ref, keep)
	if early.At.IsZero() {
		early.At = c.At
	}
	early.Changes, _ = early.Changes.add(c)
}

// hold returns the early event of a key, to be added to.
func (s *earlyEvents) hold(ref Ref, keep time.Duration) *EarlyEvent {
	early := s.of(ref)
	if early == nil {
		early = &EarlyEvent{Ref: ref}
	}
	s.store(ref, early)
	until := s.now.Add(keep)
	switch {
	case s.away[ref]:
		until = s.now.Add(turnedAwayFor)
	case early.TurnedAway && early.Until.After(until):
		until = early.Until
	}
	early.Until = until
	return early
}

// turnedAwayFor is how long a job refused by a quota is remembered: longer than the dead letter of its event is kept,
// by default.
const turnedAwayFor = 30 * Day

// rememberRefused records a job of a key refused by a quota, and returns how long it is remembered: until the dead letter of
// its event can be retried no more.
func (s *earlyEvents) rememberRefused(ref Ref) (until time.Time) {
	if s.away == nil {
		s.away = make(map[Ref]bool)
	}
	s.away[ref] = true
	return s.now.Add(turnedAwayFor)
}

// wasTurnedAway reports whether a quota refused a job of a key, and its event may be retried: ends for the key are
// remembered then.
func (s *earlyEvents) wasTurnedAway(ref Ref) bool {
	if s.away[ref] {
		return true
	}
	early := s.of(ref)
	return early != nil && early.TurnedAway
}

// put replaces the early event of a key.
func (s *earlyEvents) put(ref Ref, early EarlyEvent) {
	if early.isEmpty() {
		s.store(ref, nil)
	} else {
		s.store(ref, &early)
	}
}

// store stores the early event of a key; nil: the event is used up.
func (s *earlyEvents) store(ref Ref, early *EarlyEvent) {
	if s.stored == nil {
		s.stored = make(map[Ref]*EarlyEvent)
	}
	s.stored[ref] = early
}

// of returns the early event of a key; nil: none.
func (s *earlyEvents) of(ref Ref) *EarlyEvent {
	if early, met := s.stored[ref]; met {
		return early
	}
	if early, stored := s.known[ref]; stored && early.Until.After(s.now) {
		if early.Ends == nil && early.Outcome != "" {
			early.Ends = []Ending{{At: early.At, Outcome: early.Outcome}}
		}
		return &early
	}
	return nil
}

// sum adds the stored and the used-up early events to the net effect.
func (s *earlyEvents) sum(net *FoldResult) {
	for ref, early := range s.stored {
		if early != nil {
			net.Remember = append(net.Remember, *early)
		} else if _, stored := s.known[ref]; stored {
			net.Forget = append(net.Forget, ref)
		}
	}
}
