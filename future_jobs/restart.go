package futurejobs

import (
	"slices"
	"time"

	"deadman/checks"
)

// endOfPrevious returns the end of the pending job. A job that was due and not checked in time expires, instead of
// being restarted silently.
func (a Start) endOfPrevious(s *foldedJob, now time.Time) End {
	if a.ExpiredAlert != nil && !s.isNew && s.job.isDue(now) {
		return End{Outcome: checks.Expired, Reason: "it was due and nobody had looked when it began anew", Alert: a.ExpiredAlert}
	}
	return End{Outcome: checks.Restarted, Close: a.Close}
}

// RestartsDueJob reports whether an effect would restart a job that is due and not yet checked.
func RestartsDueJob(effects []Effect, known FoldInput, now time.Time) bool {
	return slices.ContainsFunc(effects, func(e Effect) bool {
		start, begins := e.Action.(Start)
		if lapse, lapses := e.Action.(StartExpired); lapses {
			start, begins = lapse.Start, true
		}
		j, pending := known.Pending[e.Ref]
		return begins && start.Restart && pending && j.isDue(now)
	})
}

// isDue reports whether the job's slot has come.
func (j Job) isDue(now time.Time) bool { return j.PausedAt().IsZero() && !j.NextCheckAt.After(now) }
