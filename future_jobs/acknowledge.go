package futurejobs

import (
	"errors"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// ErrJobEnded means that the alert is not of a pending job, and can be neither acknowledged nor closed.
var ErrJobEnded = errors.New("the alert is not of a pending job")

// Ack is an acknowledgement. The job's steps are suppressed until Until.
type Ack struct {
	Alert alerts.ID // the acknowledged alert
	By    string
	At    time.Time // zero until it is applied
	Until time.Time // checks.Forever: until the job ends
	Note  string
}

// IsUntilResolved reports whether the acknowledgement holds until the job ends.
func (a Ack) IsUntilResolved() bool { return a.Until.Equal(checks.Forever) }

// Holds reports whether steps are suppressed at the given time. An expired acknowledgement is kept until the job's
// next check, without effect.
func (a Ack) Holds(now time.Time) bool { return now.Before(a.Until) }

// AckOf is the change of a job's acknowledgement.
type AckOf struct {
	Shard int16
	JobID int64
	Ack   *Ack // nil: it was removed
}

// Acknowledge suppresses the steps of a job until a given time, and replaces an earlier acknowledgement with its note
// and author. If Until is zero, it removes the acknowledgement. Removing a missing acknowledgement changes nothing.
// If the job did not raise the alert, the effect is missed.
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
