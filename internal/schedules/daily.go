package schedules

import (
	"fmt"
	"regexp"
	"time"

	"deadman/internal/configfile"
)

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

var timeOfDay = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)

// TimeOfDay is the first instant, not before a tick, at which a clock on the wall first shows a
// time of day such as "09:00", or something later where the clock leaves it out. A nil zone is
// UTC. The error says how a time of day is written.
func TimeOfDay(tick time.Time, clock string, zone *time.Location) (time.Time, error) {
	if !timeOfDay.MatchString(clock) {
		return time.Time{}, fmt.Errorf(`%q is not a time of day; write it like "09:00"`, configfile.Truncate(clock, quoted))
	}
	zone = orUTC(zone)
	before := shown(zone, tick.Add(-1).Unix())
	w := wallAt(before.day(), digits(clock[:2])*hourMinutes+digits(clock[3:]))
	if w <= before {
		w += daySeconds
	}
	return time.Unix(reached(zone, w), 0).UTC(), nil
}

func digits(two string) int { return int(two[0]-'0')*10 + int(two[1]-'0') }

func orUTC(zone *time.Location) *time.Location {
	if zone == nil {
		return time.UTC
	}
	return zone
}
