package events

import (
	"time"

	futurejobs "deadman/future_jobs"
)

// farAhead is the tolerance for times of the reader that are ahead of now.
const farAhead = 2 * time.Second

// readMark is the mark of a line: the time through which it is recorded as read, and the target of the next mark.
type readMark struct {
	at     time.Time
	target markTarget
	stale  bool // the time is from before a clock step, and the line must be marked again
}

// markTarget is the end to be applied for the stream to be read through a time. A busy stream is never empty, but it
// passes its recorded end.
type markTarget struct {
	through time.Time // zero: no target
	end     uint64
}

// dueAt returns the time of the next mark on a grid.
func (m *readMark) dueAt(grid futurejobs.Grid) time.Time {
	if m.stale {
		return m.at
	}
	return grid.After(m.at)
}

// reachTarget records that the line is marked as read through the target.
func (m *readMark) reachTarget() { *m = readMark{at: m.target.through} }

// correctFuture replaces times that are far ahead of now. The line is then marked again, so that no mark is delayed
// until the clock reaches those times.
func (m *readMark) correctFuture(now time.Time) {
	if m.at.Sub(now) > farAhead || m.target.through.Sub(now) > farAhead {
		*m = readMark{at: now, stale: true}
	}
}
