package futurejobs

import (
	"time"

	"deadman/checks"
)

// FarFuture is the due time of a paused job. It is a slot of every grid.
var FarFuture = checks.Forever

// maxPauses bounds the pauses that a job stores separately; the oldest are merged.
const maxPauses = 100

// PausedAt returns when the job was paused; zero: it is not paused.
func (j Job) PausedAt() time.Time {
	if n := len(j.Pauses); n > 0 && j.Pauses[n-1].To.IsZero() {
		return j.Pauses[n-1].From
	}
	return time.Time{}
}

// pause suspends the next check.
func (j *Job) pause(at time.Time) {
	before := j.Pauses
	if len(before) >= maxPauses {
		// The second pause is appended to the first: only the sum matters.
		first := before[0]
		first.To = first.To.Add(before[1].To.Sub(before[1].From))
		before = append([]checks.Pause{first}, before[2:]...)
	}
	j.Pauses = append(before[:len(before):len(before)], checks.Pause{From: at})
	j.PausedNext, j.NextCheckAt = j.NextCheckAt, FarFuture
}

// resume ends the pause and returns when the suspended check is due. The caller rounds it to a slot.
func (j *Job) resume(at time.Time) time.Time {
	n := len(j.Pauses) - 1
	p := checks.Pause{From: j.Pauses[n].From, To: at}
	if at.Before(p.From) {
		p.To = p.From
	}
	j.Pauses = append(j.Pauses[:n:n], p)
	next := j.PausedNext.Add(p.To.Sub(p.From))
	j.PausedNext = time.Time{}
	return next
}

// due returns the time of the next check, ignoring a pause.
func (j Job) due() time.Time {
	if j.PausedAt().IsZero() {
		return j.NextCheckAt
	}
	return j.PausedNext
}

// reschedule sets the next check, also of a paused job.
func (j *Job) reschedule(next time.Time) {
	if j.PausedAt().IsZero() {
		j.NextCheckAt = next
	} else {
		j.PausedNext = next
	}
}
