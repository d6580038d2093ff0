package schedules

import "time"

// daily is a crontab that leaves out some hours of the day. What it names is a date and a time
// of day, and comes once: when a clock on the wall first shows it, or something later. Where a
// clock is put forward, all that it leaves out comes then, as one tick.
type daily struct {
	crontab
	zone *time.Location
}

var _ Schedule = daily{}

// Next is when the next minute is reached that was not by then.
func (d daily) Next(after time.Time) (time.Time, bool) {
	w, ok := d.next(shown(d.zone, secondOf(after)))
	if !ok {
		return time.Time{}, false
	}
	return instantOf(reached(d.zone, w))
}

// Between counts the minutes that clocks reached, from change to change.
func (d daily) Between(after, through time.Time) (n int, last time.Time) {
	from, by := secondOf(after)+1, secondOf(through)
	latest := shown(d.zone, from-1)
	for s := range stretches(d.zone, from) {
		if s.from > by {
			break
		}
		begin := max(latest, s.shows(s.from))
		end := max(begin, s.shows(min(by, s.to-1)))
		n += min(1, d.between(latest, begin)) + d.between(begin, end)
		latest = end
	}
	if n == 0 {
		return 0, time.Time{}
	}
	return n, time.Unix(reached(d.zone, d.last(latest)), 0).UTC()
}

// From is the same.
func (d daily) From(time.Time) Schedule { return d }
