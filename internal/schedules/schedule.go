// Package schedules knows when a schedule ticks: by a crontab, every so often, or once. It is
// pure: no clock, no I/O.
//
// Of robfig/cron the parser is used, and not its Next, which leaves out ticks where a clock is
// put forward, takes a clock change for a whole hour, and gives up after five years.
package schedules

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"
)

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

// once ticks at one instant.
type once struct{ at time.Time }

var _ Schedule = once{}

// Next is the tick, until it is past.
func (o once) Next(after time.Time) (time.Time, bool) {
	if o.at.After(after) {
		return o.at, true
	}
	return time.Time{}, false
}

// Between counts one or none.
func (o once) Between(after, through time.Time) (n int, last time.Time) {
	if o.at.After(after) && !o.at.After(through) {
		return 1, o.at
	}
	return 0, time.Time{}
}

// Shortest is 0: no tick follows.
func (once) Shortest() time.Duration { return 0 }

// From is the same.
func (o once) From(time.Time) Schedule { return o }

// every ticks each span after its anchor, both in seconds. No clock change concerns it.
type every struct{ anchor, span int64 }

var _ Schedule = every{}

// Next is the next multiple of the span, counted from the anchor: nothing drifts.
func (e every) Next(after time.Time) (time.Time, bool) {
	return instantOf(e.tick(e.ticks(after) + 1))
}

// Between divides.
func (e every) Between(after, through time.Time) (n int, last time.Time) {
	before, all := e.ticks(after), e.ticks(through)
	if all <= before {
		return 0, time.Time{}
	}
	return int(all - before), time.Unix(e.tick(all), 0).UTC()
}

// Shortest is the span.
func (e every) Shortest() time.Duration { return time.Duration(e.span) * time.Second }

// From counts from another anchor.
func (e every) From(anchor time.Time) Schedule { return every{anchor: secondOf(anchor), span: e.span} }

// ticks is how many ticks there were by t.
func (e every) ticks(t time.Time) int64 { return max(0, secondOf(t)-e.anchor) / e.span }

// tick is the second of the nth tick, from 1.
func (e every) tick(n int64) int64 { return e.anchor + n*e.span }

// spread is the value that "?" stands for in a column: the same one for the same seed, always,
// and among many seeds each value as often as any other. That many rules say "? 3 * * *" then
// does not make a herd at three.
func spread(seed string, c cronField) string {
	sum := sha256.Sum256([]byte(c.name + "\x00" + seed))
	n := binary.BigEndian.Uint64(sum[:]) % uint64(c.most-c.least+1)
	return strconv.Itoa(c.least + int(n))
}
