// Package calendars computes working time: whether a calendar is open, when it opens next, and how much open time lies
// between two instants. It is pure: no clock, no I/O.
package calendars

import (
	"iter"
	"time"

	"deadman/internal/timezones"
)

// MaxSearch is the maximum distance from the first instant that a calculation covers. Calendars accepted by Parse open
// in every year, so only spans of open time that take most of a century reach it.
const MaxSearch = 100 * 366 * 24 * time.Hour

// Calendar is a set of working hours. It is open while the local time in its zone is within its hours: an hour repeated
// by a clock change counts twice, and a skipped one does not count. It never changes and is safe for concurrent use.
// The nil calendar is always open.
type Calendar struct {
	name     string
	zone     *time.Location
	begins   [7][]span // by time.Weekday, as written
	week     [7]day    // by time.Weekday
	holidays holidays
	months   monthSums
}

// Name returns the name used by rules; the nil calendar has none.
func (c *Calendar) Name() string {
	if c == nil {
		return ""
	}
	return c.name
}

// Open reports whether the calendar is open at t. The instant of opening counts as open, the instant of closing as
// closed.
func (c *Calendar) Open(t time.Time) bool {
	return c == nil || c.Between(t, t.Add(1)) > 0
}

// Next returns t if the calendar is open, and the next instant of opening otherwise.
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

// Add returns the first instant by which the given open time has passed since t: open time that is used up when the
// calendar closes ends there, not at the next opening. Add(t, 0) is t, and a negative duration counts as 0. The result
// is never later than t.Add(MaxSearch).
func (c *Calendar) Add(t time.Time, open time.Duration) time.Time {
	switch {
	case c == nil:
		return t.Add(open)
	case open <= 0:
		return t
	}
	end := t.Add(MaxSearch)
	if n, isKnown := monthAfter(t); isKnown {
		begin := monthBegin(n).In(t.Location())
		at, left := c.add(t, begin, open)
		if left == 0 {
			return at
		}
		t, open = c.skip(n, begin, left)
	}
	if at, left := c.add(t, end, open); left == 0 {
		return at
	}
	return end
}

// add returns the first instant by which the given open time has passed since t, and 0; or the open time that is left at an
// end.
func (c *Calendar) add(t, end time.Time, open time.Duration) (at time.Time, left time.Duration) {
	for opens, closes := range c.spans(t, end) {
		span := closes.Sub(opens)
		if span >= open {
			return opens.Add(open), 0
		}
		open -= span
	}
	return end, open
}

// Between returns the open time between two instants: 0 if the second is not after the first. It covers at most
// MaxSearch.
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
	n, isKnown := monthAfter(from)
	last, isLastKnown := monthAfter(to)
	if last--; !isKnown || !isLastKnown || last <= n+1 {
		return c.search(from, to)
	}
	sums := c.openUntil()
	return c.search(from, monthBegin(n)) + sums[last] - sums[n] + c.search(monthBegin(last), to)
}

// search returns the open time between two instants, day by day.
func (c *Calendar) search(from, to time.Time) (open time.Duration) {
	for opens, closes := range c.spans(from, to) {
		open += closes.Sub(opens)
	}
	return open
}

// spans yields the open spans between two instants in order. Between two changes of the zone's offset a local day has a
// fixed number of seconds, so it iterates over changes, and over days in between.
func (c *Calendar) spans(from, to time.Time) iter.Seq2[time.Time, time.Time] {
	return func(yield func(opens, closes time.Time) bool) {
		for from.Before(to) {
			local := from.In(c.zone)
			_, offset := local.Zone()
			change := timezones.NextChange(local)
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

// unchanged yields the open spans of a period in which the zone is offset seconds ahead of UTC. It reports whether the
// caller wants more.
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

// hours returns the spans of a date in seconds from its midnight. A holiday has none, and a span that begins on a
// holiday does not continue after midnight.
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

// date is a day of the calendar, as the number of days since 1970-01-01. It has no zone.
type date int64

const daySeconds = 24 * 60 * 60

// dateAt returns the date of a number of seconds after the start of 1970-01-01, with a fixed offset.
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

// seconds returns the midnight of d; it is the inverse of dateAt.
func (d date) seconds() int64 { return int64(d) * daySeconds }

func (d date) weekday() time.Weekday {
	return time.Weekday(((d+date(time.Thursday))%7 + 7) % 7) // 1970-01-01 was a Thursday
}

// civil returns d in UTC, for its year, month and day.
func (d date) civil() time.Time { return time.Unix(d.seconds(), 0).UTC() }
