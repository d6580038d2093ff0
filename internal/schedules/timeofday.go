package schedules

import (
	"fmt"
	"regexp"
	"time"

	"deadman/internal/configfile"
)

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
