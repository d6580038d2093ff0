package schedules

import (
	"iter"
	"math"
	"time"

	"deadman/internal/timezones"
)

// civilTime is local time in seconds since 1970-01-01 00:00 local time. It has no zone.
type civilTime int64

const (
	daySeconds  = 24 * 60 * 60
	dayMinutes  = 24 * 60
	hourMinutes = 60
)

// day returns the number of days since 1970-01-01.
func (w civilTime) day() int64 {
	d := int64(w) / daySeconds
	if int64(w)%daySeconds < 0 {
		d--
	}
	return d
}

// minute returns the minute of the day, from 0.
func (w civilTime) minute() int { return int((int64(w) - w.day()*daySeconds) / 60) }

// civilTimeAt returns the local time at a minute of a day.
func civilTimeAt(day int64, minute int) civilTime {
	return civilTime(day*daySeconds + int64(minute)*60)
}

// zoneInterval is a period with a constant UTC offset: its first second since 1970, its end (exclusive), and the offset
// in seconds.
type zoneInterval struct{ from, to, ahead int64 }

// localAt returns the local time at a second of the interval.
func (s zoneInterval) localAt(second int64) civilTime { return civilTime(second + s.ahead) }

// at returns the second at which the offset of the interval gives w; it may be outside the interval.
func (s zoneInterval) at(w civilTime) int64 { return int64(w) - s.ahead }

// never is after everything, with room for additions.
const never = math.MaxInt64 / 4

// zoneIntervals yields consecutive intervals from a second on, without end. Neighbours may have the same offset.
func zoneIntervals(zone *time.Location, from int64) iter.Seq[zoneInterval] {
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

// nextChange returns a second until which the offset at t is valid.
func nextChange(t time.Time) int64 {
	if change := timezones.NextChange(t); !change.IsZero() {
		return change.Unix()
	}
	return never
}

// maxZoneOffset is an upper bound of the difference of two zones: each is less than 25 hours from UTC.
const maxZoneOffset = 50 * 60 * 60

// shown returns the latest local time that a zone has reached by a second. After clocks were set back, it is later than
// the current local time.
func shown(zone *time.Location, by int64) civilTime {
	latest := civilTime(math.MinInt64)
	for s := range zoneIntervals(zone, by-maxZoneOffset) {
		if s.from > by {
			break
		}
		latest = max(latest, s.localAt(min(by, s.to-1)))
	}
	return latest
}

// reached returns the first second at which the local time of a zone is w or later: if w is skipped, the second of the
// change; if w occurs twice, its first occurrence. It is monotonic in w, and reached(w) > second exactly if w >
// shown(second).
func reached(zone *time.Location, w civilTime) int64 {
	for s := range zoneIntervals(zone, int64(w)-maxZoneOffset) {
		if at := max(s.from, s.at(w)); at < s.to {
			return at
		}
	}
	return never
}
