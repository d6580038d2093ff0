package futurejobs

import (
	"errors"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// ErrJobEnded means that an alert is not of a job that is pending: there is nothing to acknowledge.
var ErrJobEnded = errors.New("only an alert of a wait that goes on can be acknowledged")

// Ack is that somebody knows of what was said about a job: its steps stay unsaid until an instant.
type Ack struct {
	Alert alerts.ID // which one was acknowledged
	By    string
	At    time.Time // zero, until it is applied
	Until time.Time // checks.Forever: for good
	Note  string
}

// Active reports whether the acknowledgement is for good.
func (a Ack) Active() bool { return a.Until.Equal(checks.Forever) }

// Holds reports whether steps stay unsaid at an instant. One that is over is kept until the job's
// next look, and means nothing.
func (a Ack) Holds(now time.Time) bool { return now.Before(a.Until) }

// AckOf is what became of the acknowledgement of a job.
type AckOf struct {
	Shard int16
	JobID int64
	Ack   *Ack // nil: it was taken back
}

// Acknowledge keeps the steps of a job unsaid until an instant, in the place of what was
// acknowledged before, with its note and its name; or lets them speak again, where Until is zero. To take
// back what was not acknowledged changes nothing. A job that did not say the alert is missed.
type Acknowledge struct{ Ack Ack }

func (a Acknowledge) play(f *fold, e Effect, s *foldedJob) {
	if s == nil || !slices.Contains(s.job.Alerts, a.Ack.Alert) {
		f.net.Missed++
		return
	}
	if a.Ack.Until.IsZero() && s.job.AckedUntil.IsZero() {
		return
	}
	s.job.AckedUntil, s.changed = a.Ack.Until, true
	s.ack = &AckOf{Shard: s.job.Shard, JobID: s.job.ID}
	if !a.Ack.Until.IsZero() {
		ack := a.Ack
		ack.At = f.now
		s.ack.Ack = &ack
	}
	kind := Acknowledged
	if a.Ack.Until.IsZero() {
		kind = Reopened
	}
	if e.Rule.Upcoming != nil {
		s.job.advanceNextCheck(e.Rule, e.Rule.Upcoming(s.job, f.now), f.now)
	}
	f.addTrail(e, s, kind)
	f.net.Changed++
}

// advanceNextCheck looks at a job at a slot, or at the first after now, unless that is after it is
// looked at anyway; zero leaves it.
func (j *Job) advanceNextCheck(r *Rule, slot, now time.Time) {
	if slot.IsZero() {
		return
	}
	if slot = r.notBeforeNextSlot(r.afterSnooze(*j, slot), now); slot.Before(j.due()) {
		j.reschedule(slot)
	}
}
