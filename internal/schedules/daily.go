package schedules

import (
	"fmt"
	"regexp"
	"time"

	"deadman/internal/configfile"
)

// daily is a crontab that does not tick in every hour. A tick is a date and a time of day and occurs once: when the
// local time first reaches it. If clocks are set forward, all skipped ticks occur at the change, as one tick.
type daily struct {
	crontab
	zone *time.Location
}

var _ Schedule = daily{}

// Next returns the instant at which the next minute not yet reached is reached.
func (d daily) Next(after time.Time) (time.Time, bool) {
	w, ok := d.next(shown(d.zone, secondOf(after)))
	if !ok {
		return time.Time{}, false
	}
	return instantOf(reached(d.zone, w))
}

// Between counts the reached minutes, from change to change.
func (d daily) Between(after, through time.Time) (n int, last time.Time) {
	from, by := secondOf(after)+1, secondOf(through)
	latest := shown(d.zone, from-1)
	for s := range zoneIntervals(d.zone, from) {
		if s.from > by {
			break
		}
		start := max(latest, s.localAt(s.from))
		end := max(start, s.localAt(min(by, s.to-1)))
		n += min(1, d.between(latest, start)) + d.between(start, end)
		latest = end
	}
	if n == 0 {
		return 0, time.Time{}
	}
	return n, time.Unix(reached(d.zone, d.last(latest)), 0).UTC()
}

// From returns the same schedule.
func (d daily) From(time.Time) Schedule { return d }

var timeOfDay = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)

// TimeOfDay returns the first instant, not before a tick, at which the local time first reaches a time of day such as
// "09:00", or passes it if it is skipped. A nil zone is UTC. The error describes the form of a time of day.
func TimeOfDay(tick time.Time, clock string, zone *time.Location) (time.Time, error) {
	if !timeOfDay.MatchString(clock) {
		return time.Time{}, fmt.Errorf(`%q is not a time of day; write it like "09:00"`, configfile.Truncate(clock, quoted))
	}
	zone = orUTC(zone)
	before := shown(zone, tick.Add(-1).Unix())
	w := civilTimeAt(before.day(), digits(clock[:2])*hourMinutes+digits(clock[3:]))
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
