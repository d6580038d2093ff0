// Package calendars knows working time: when a calendar is open, when it opens next, and how
// much open time lies between two instants. It is pure: no clock, no I/O.
package calendars

import (
	"iter"
	"time"
)

// MaxSearch is how far from its first instant a question looks. A calendar that Parse accepts
// opens in every year, so only spans of open time that take most of a century get there.
const MaxSearch = 100 * 366 * 24 * time.Hour

// Calendar says which time counts. It is open while a clock on the wall in its zone shows a
// time within its hours: an hour that a clock change repeats counts twice, and one that it
// leaves out does not count. It never changes and is safe for concurrent use. The nil calendar
// is always open.
type Calendar struct {
	name     string
	zone     *time.Location
	week     [7]day // by time.Weekday
	holidays holidays
}

// Name is what rules know the calendar by; the nil calendar has none.
func (c *Calendar) Name() string {
	if c == nil {
		return ""
	}
	return c.name
}

// Open reports whether the calendar is open at t. It is at the instant at which it opens, and
// is not at the one at which it closes.
func (c *Calendar) Open(t time.Time) bool {
	return c == nil || c.Between(t, t.Add(1)) > 0
}

// Next is t where the calendar is open, and otherwise when it opens next.
func (c *Calendar) Next(t time.Time) time.Time {
	if c == nil {
		return t
	}
	end := t.Add(MaxSearch)
	for opens := range c.spans(t, end) {
		return opens
	}
	return end
}

// Add is the first instant by which that much open time has passed since t: what is used up
// when the calendar closes is used up then, not when it opens again. Add(t, 0) is t, and less
// than nothing counts as nothing. It is never later than t.Add(Reach).
func (c *Calendar) Add(t time.Time, open time.Duration) time.Time {
	switch {
	case c == nil:
		return t.Add(open)
	case open <= 0:
		return t
	}
	end := t.Add(MaxSearch)
	for opens, closes := range c.spans(t, end) {
		span := closes.Sub(opens)
		if span >= open {
			return opens.Add(open)
		}
		open -= span
	}
	return end
}

// Between is how much open time lies between two instants: none where the second is not after
// the first. No more than Reach is looked at.
func (c *Calendar) Between(from, to time.Time) time.Duration {
	switch {
	case !to.After(from):
		return 0
	case c == nil:
		return to.Sub(from)
	}
	if end := from.Add(MaxSearch); to.After(end) {
		to = end
	}
	var open time.Duration
	for opens, closes := range c.spans(from, to) {
		open += closes.Sub(opens)
	}
	return open
}

// spans yields the open time from one instant to another in order: when it opens and when it
// closes. Between two changes of the zone's clock a local day is a fixed number of seconds, so
// it goes from change to change, and from day to day in between.
func (c *Calendar) spans(from, to time.Time) iter.Seq2[time.Time, time.Time] {
	return func(yield func(opens, closes time.Time) bool) {
		for from.Before(to) {
			local := from.In(c.zone)
			_, offset := local.Zone()
			change := nextChange(local)
			if change.IsZero() || change.After(to) {
				change = to
			}
			if !c.unchanged(from, change.In(from.Location()), int64(offset), yield) {
				return
			}
			from = change.In(from.Location())
		}
	}
}

// nextChange is until when the clock surely stays as it is at t; the zero time: for good.
//
// ZoneBounds (of Go 1.26, too) ends every year after the last that a zone's file lists with its
// 365th day. On the 366th that is past; nothing changes until its end.
func nextChange(t time.Time) time.Time {
	_, change := t.ZoneBounds()
	if change.IsZero() || change.After(t) {
		return change
	}
	return t.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
}

// unchanged yields the spans of a time in which the zone is offset seconds ahead of UTC. It
// reports whether more are wanted.
func (c *Calendar) unchanged(from, to time.Time, offset int64, yield func(opens, closes time.Time) bool) bool {
	for d := dateAt(from.Unix() + offset); ; d++ {
		midnight := d.seconds() - offset
		if midnight > to.Unix() {
			return true
		}
		for _, s := range c.hours(d) {
			opens := latest(from, time.Unix(midnight+s.from, 0).In(from.Location()))
			closes := earliest(to, time.Unix(midnight+s.to, 0).In(from.Location()))
			if opens.Before(closes) && !yield(opens, closes) {
				return false
			}
		}
	}
}

// hours are the spans of a date, from its midnight. On a holiday there are none, and what
// begins on one does not go on after midnight either.
func (c *Calendar) hours(d date) []span {
	switch {
	case c.holidays.on(d):
		return nil
	case c.holidays.on(d - 1):
		return c.week[d.weekday()].fresh
	}
	return c.week[d.weekday()].whole
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

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
