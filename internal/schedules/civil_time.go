package schedules

import (
	"iter"
	"math"
	"time"
)

// civilTime is what a clock on the wall shows: seconds since 1970-01-01 00:00 on it. It has no zone.
type civilTime int64

const (
	daySeconds  = 24 * 60 * 60
	dayMinutes  = 24 * 60
	hourMinutes = 60
)

// day is how many days after 1970-01-01 the clock shows.
func (w civilTime) day() int64 {
	d := int64(w) / daySeconds
	if int64(w)%daySeconds < 0 {
		d--
	}
	return d
}

// minute is the minute of the day, from 0.
func (w civilTime) minute() int { return int((int64(w) - w.day()*daySeconds) / 60) }

// wallAt is what the clock shows at a minute of a day.
func wallAt(day int64, minute int) civilTime { return civilTime(day*daySeconds + int64(minute)*60) }

// zoneInterval is a time in which nobody changes the clocks of a zone: the seconds since 1970 of its
// beginning and of its end, which is no part of it, and how many seconds they are ahead of UTC.
type zoneInterval struct{ from, to, ahead int64 }

// shows is what a clock shows at a second of the stretch.
func (s zoneInterval) shows(second int64) civilTime { return civilTime(second + s.ahead) }

// at is the second at which a clock of this stretch shows w; it may lie outside of it.
func (s zoneInterval) at(w civilTime) int64 { return int64(w) - s.ahead }

// never is after everything, and can still be added to.
const never = math.MaxInt64 / 4

// stretches yields what follows on each other from a second on, without end. Two may be equally
// far ahead of UTC.
func stretches(zone *time.Location, from int64) iter.Seq[zoneInterval] {
	return func(yield func(zoneInterval) bool) {
		for from < never {
			local := time.Unix(from, 0).In(zone)
			_, ahead := local.Zone()
			s := zoneInterval{from: from, to: nextChange(local), ahead: int64(ahead)}
			if !yield(s) {
				return
			}
			from = s.to
		}
	}
}

// nextChange is the second until which the clock surely stays as it is at t.
//
// ZoneBounds (of Go 1.26, too) ends every year after the last that a zone's file lists with its
// 365th day. On the 366th that is past; nothing changes until its end.
func nextChange(t time.Time) int64 {
	_, change := t.ZoneBounds()
	switch {
	case change.IsZero():
		return never
	case !change.After(t):
		return (t.Unix()/daySeconds + 1) * daySeconds
	}
	return change.Unix()
}

// maxZoneOffset is more than any two clocks on earth may be: both are less than 25 hours from UTC.
const maxZoneOffset = 50 * 60 * 60

// shown is the latest that the clocks of a zone have shown by a second. Where they were put
// back it is more than they show.
func shown(zone *time.Location, by int64) civilTime {
	latest := civilTime(math.MinInt64)
	for s := range stretches(zone, by-maxZoneOffset) {
		if s.from > by {
			break
		}
		latest = max(latest, s.shows(min(by, s.to-1)))
	}
	return latest
}

// reached is the first second at which the clocks of a zone show w or something later: where
// they leave w out, it is when they are put forward; where they show it twice, it is the first.
// A later w is never reached earlier, and reached(w) > second exactly if w > shown(second).
func reached(zone *time.Location, w civilTime) int64 {
	for s := range stretches(zone, int64(w)-maxZoneOffset) {
		if at := max(s.from, s.at(w)); at < s.to {
			return at
		}
	}
	return never
}
