package schedules

import "time"

// hourly is a crontab with ticks in every hour. It ticks each time that the local time shows one of its minutes: twice
// if clocks are set back, and not at all if the minute is skipped.
type hourly struct {
	crontab
	zone *time.Location
}

var _ Schedule = hourly{}

// Next searches from change to change of the offset.
func (h hourly) Next(after time.Time) (time.Time, bool) {
	for s := range zoneIntervals(h.zone, secondOf(after)+1) {
		w, ok := h.next(s.localAt(s.from - 1))
		if !ok {
			break
		}
		if at := s.at(w); at < s.to {
			return instantOf(at)
		}
	}
	return time.Time{}, false
}

// Between counts the shown minutes, from change to change.
func (h hourly) Between(after, through time.Time) (n int, last time.Time) {
	by := secondOf(through)
	for s := range zoneIntervals(h.zone, secondOf(after)+1) {
		if s.from > by {
			break
		}
		end := s.localAt(min(by, s.to-1))
		if more := h.between(s.localAt(s.from-1), end); more > 0 {
			n, last = n+more, time.Unix(s.at(h.last(end)), 0).UTC()
		}
	}
	return n, last
}

// From returns the same schedule.
func (h hourly) From(time.Time) Schedule { return h }
