package schedules

import "time"

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
