package events

import "time"

// advanceInterval is the interval at which the cursor of a quiet stream advances past unmatched messages.
const advanceInterval = 10 * time.Second

// advanceSchedule determines when the cursor of a quiet stream advances past unmatched messages.
type advanceSchedule struct {
	nextAt   time.Time
	lastAt   time.Time // time of the last advance; zero: none
	firstSeq uint64    // first sequence of the stream at the last advance
}

// isDue reports whether the cursor must advance.
func (s *advanceSchedule) isDue(now time.Time) bool { return !now.Before(s.nextAt) }

// advanceAtOnce makes the next advance due.
func (s *advanceSchedule) advanceAtOnce() { s.nextAt = time.Time{} }

// schedule sets the time of the next advance, from the state of the stream at this one.
func (s *advanceSchedule) schedule(now time.Time, info Info) {
	s.nextAt = now.Add(s.interval(now, info))
}

// interval returns the delay until the next advance of the cursor: shorter if the stream drops its first messages so
// fast that they would reach the cursor earlier. Messages dropped after the cursor are indistinguishable from lost
// events.
func (s *advanceSchedule) interval(now time.Time, info Info) time.Duration {
	dropped, took := info.FirstSeq-min(info.FirstSeq, s.firstSeq), now.Sub(s.lastAt)
	first := s.lastAt.IsZero()
	s.firstSeq, s.lastAt = info.FirstSeq, now
	if first || dropped == 0 || took <= 0 {
		return advanceInterval
	}
	kept := info.LastSeq - min(info.LastSeq, info.FirstSeq)
	return max(pollTimeout, min(advanceInterval, time.Duration(float64(took)*float64(kept)/float64(2*dropped))))
}

// correctFuture replaces times in the future.
func (s *advanceSchedule) correctFuture(now time.Time) {
	if s.nextAt.Sub(now) > advanceInterval || s.lastAt.After(now) {
		s.nextAt, s.lastAt = now, time.Time{}
	}
}
