package calendars

import "time"

// date is a day of the calendar, by how many days it is after 1970-01-01. It has no zone.
type date int64

const daySeconds = 24 * 60 * 60

// dateAt is the date of that many seconds after the beginning of 1970-01-01, on a clock that
// never changes.
func dateAt(seconds int64) date {
	d := seconds / daySeconds
	if seconds%daySeconds < 0 {
		d--
	}
	return date(d)
}

func dateOf(year int, month time.Month, day int) date {
	return dateAt(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix())
}

// seconds is what dateAt made d of, at midnight.
func (d date) seconds() int64 { return int64(d) * daySeconds }

func (d date) weekday() time.Weekday {
	return time.Weekday(((d+date(time.Thursday))%7 + 7) % 7) // 1970-01-01 was a Thursday
}

// civil is d in UTC, for its year, month and day.
func (d date) civil() time.Time { return time.Unix(d.seconds(), 0).UTC() }
