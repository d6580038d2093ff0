// Package schedules computes the ticks of a schedule: a crontab, a fixed interval, or a single instant. It is pure: no
// clock, no I/O.
//
// It uses the parser of robfig/cron, but not its Next, which skips ticks when clocks are set forward, assumes that a
// clock change is a whole hour, and gives up after five years.
package schedules

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"
)

// Schedule is a series of ticks. Ticks are whole seconds and are returned in UTC. A schedule never changes and is safe
// for concurrent use.
type Schedule interface {
	// Next returns the first tick after an instant; false: none before the year 10000.
	Next(after time.Time) (time.Time, bool)

	// Between returns the number of ticks after one instant and not after another, and the last of them; zero if there
	// are none. The time grows with the days between the two, and is constant for @every: it does not iterate over
	// ticks.
	Between(after, through time.Time) (n int, last time.Time)

	// Shortest returns the shortest time between two ticks in local time without clock changes; 0: the schedule ticks
	// once.
	Shortest() time.Duration

	// From returns the schedule started at anchor: @every counts from there, in whole seconds, and first ticks one span
	// later. The default anchor is 1970. Other schedules do not change.
	From(anchor time.Time) Schedule
}

// Ticks are in the years 1 to 9999: the seconds since 1970 of the first and of the last instant.
var (
	firstSecond = time.Time{}.Unix()
	lastSecond  = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC).Unix()
)

// secondOf returns the full second of t since 1970, rounded down and limited to the range of ticks.
func secondOf(t time.Time) int64 { return min(max(t.Unix(), firstSecond), lastSecond) }

// instantOf returns the tick at a second since 1970; false: outside the range of ticks.
func instantOf(second int64) (time.Time, bool) {
	if second > lastSecond {
		return time.Time{}, false
	}
	return time.Unix(second, 0).UTC(), true
}

// oneTime ticks at one instant.
type oneTime struct{ at time.Time }

var _ Schedule = oneTime{}

// Next returns the tick, unless it is past.
func (o oneTime) Next(after time.Time) (time.Time, bool) {
	if o.at.After(after) {
		return o.at, true
	}
	return time.Time{}, false
}

// Between returns 1 or 0.
func (o oneTime) Between(after, through time.Time) (n int, last time.Time) {
	if o.at.After(after) && !o.at.After(through) {
		return 1, o.at
	}
	return 0, time.Time{}
}

// Shortest returns 0: no tick follows.
func (oneTime) Shortest() time.Duration { return 0 }

// From returns the same schedule.
func (o oneTime) From(time.Time) Schedule { return o }

// every ticks each span after its anchor, both in seconds. Clock changes do not affect it.
type every struct{ anchor, span int64 }

var _ Schedule = every{}

// Next returns the next multiple of the span, counted from the anchor, so ticks do not drift.
func (e every) Next(after time.Time) (time.Time, bool) {
	return instantOf(e.tick(e.ticks(after) + 1))
}

// Between divides by the span.
func (e every) Between(after, through time.Time) (n int, last time.Time) {
	before, all := e.ticks(after), e.ticks(through)
	if all <= before {
		return 0, time.Time{}
	}
	return int(all - before), time.Unix(e.tick(all), 0).UTC()
}

// Shortest returns the span.
func (e every) Shortest() time.Duration { return time.Duration(e.span) * time.Second }

// From returns the schedule with another anchor.
func (e every) From(anchor time.Time) Schedule { return every{anchor: secondOf(anchor), span: e.span} }

// ticks returns the number of ticks until t.
func (e every) ticks(t time.Time) int64 { return max(0, secondOf(t)-e.anchor) / e.span }

// tick returns the second of the nth tick, from 1.
func (e every) tick(n int64) int64 { return e.anchor + n*e.span }

// spread returns the value of "?" in a field: always the same one for a seed, and evenly distributed over seeds. So
// many rules with "? 3 * * *" do not tick all at once.
func spread(seed string, c cronField) string {
	sum := sha256.Sum256([]byte(c.name + "\x00" + seed))
	n := binary.BigEndian.Uint64(sum[:]) % uint64(c.most-c.least+1)
	return strconv.Itoa(c.least + int(n))
}
