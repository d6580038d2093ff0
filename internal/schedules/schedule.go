// Package schedules knows when a schedule ticks: by a crontab, every so often, or once. It is
// pure: no clock, no I/O.
//
// Of robfig/cron the parser is used, and not its Next, which leaves out ticks where a clock is
// put forward, takes a clock change for a whole hour, and gives up after five years.
package schedules

import "time"

// Schedule says when to tick. Ticks are whole seconds and are given in UTC. A schedule never
// changes and is safe for concurrent use.
type Schedule interface {
	// Next is the first tick after an instant; false: there is none before the year 10000.
	Next(after time.Time) (time.Time, bool)

	// Between is how many ticks lie after one instant and not after another, and the last of
	// them; without any it is zero. The work grows with the days between the two, and with
	// nothing for @every: ticks are not walked.
	Between(after, through time.Time) (n int, last time.Time)

	// Shortest is the shortest time from one tick to the next, as a clock shows it that is
	// never changed; 0: it ticks once.
	Shortest() time.Duration

	// From is the schedule of somebody who begins at anchor: @every counts from there, in whole
	// seconds, and first ticks one span later. Without it the beginning is 1970. For all others
	// nothing changes.
	From(anchor time.Time) Schedule
}

// Ticks lie in the years 1 to 9999: the seconds since 1970 of the first instant, and of the
// last.
var (
	firstSecond = time.Time{}.Unix()
	lastSecond  = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC).Unix()
)

// secondOf is the full second of t since 1970, rounded down, and kept where ticks lie.
func secondOf(t time.Time) int64 { return min(max(t.Unix(), firstSecond), lastSecond) }

// instantOf is the tick at a second since 1970, if ticks lie there.
func instantOf(second int64) (time.Time, bool) {
	if second > lastSecond {
		return time.Time{}, false
	}
	return time.Unix(second, 0).UTC(), true
}
