package rules

import (
	"fmt"
	"time"

	"deadman/rules/document"
)

// runStarts has the times that show which runs started too soon after another one. It is empty unless the rule has
// too_often.
type runStarts struct {
	StartedAt time.Time `json:"started_at,omitzero"`  // start of the last run that reported its start
	EndedAt   time.Time `json:"ended_at,omitzero"`    // end of the last run that reported only its end
	TooSoonAt time.Time `json:"too_soon_at,omitzero"` // start of the last run that started too soon, until a later run succeeds
}

// forget forgets when runs started: a run after a failed one is a retry.
func (s *runStarts) forget() { s.StartedAt, s.EndedAt = time.Time{}, time.Time{} }

// isLater reports whether a run that succeeded started after all runs that started too soon. A run without a known start may
// be one of them, unless it ended long enough after them.
func (s *runStarts) isLater(ended run, at time.Time, tooOften time.Duration) bool {
	switch {
	case s.TooSoonAt.IsZero():
		return true
	case ended.At.IsZero():
		return !at.Before(s.TooSoonAt.Add(tooOften))
	case ended.Name != "": // a run with a name that begins again is the same run
		return ended.At.After(s.TooSoonAt)
	}
	return ended.last().After(s.TooSoonAt)
}

// JudgesStarts reports whether the rule limits how often runs start: each success matters, and not only the last one.
func (r *Rule) JudgesStarts() bool { return r.heartbeat != nil && r.heartbeat.tooOften > 0 }

// judgeStart records the start of a run, and returns the reason if it is too soon; empty if it is not.
//
//  1. A signal that repeats an earlier one of its run starts no run.
//  2. Starts are compared with starts. The start of a run that reports only its end is unknown: its end is compared with
//     such ends, unless it may be the end of a run that reported its start.
//  3. No run is too soon while the heartbeat is late without a failure: the rule waits for a run. After a failure, the
//     earlier start is unknown (see forget).
func (a heartbeatUpdate) judgeStart(p *heartbeatState, before heartbeatState, isLate bool) string {
	least := a.heartbeat.tooOften
	if least == 0 || a.isRepeated(before) {
		return ""
	}
	last, verb := &p.StartedAt, "started"
	if a.Kind == Success {
		if a.At.Sub(p.StartedAt) < least {
			return ""
		}
		last, verb = &p.EndedAt, "ended"
	}
	since := a.At.Sub(*last)
	isTooSoon := !isLate && since < least
	*last = a.At
	if !isTooSoon {
		return ""
	}
	if p.TooSoonAt = a.At; since > time.Second {
		since = since.Truncate(time.Second)
	}
	return fmt.Sprintf("%s %s after the previous run, less than %s", verb, document.Duration(since), document.Duration(least))
}

// isRepeated reports whether the heartbeat repeats an earlier one of its run: the start of a named run in progress, the
// success of the named run that reported last, or an event of a stream with the time of the last one. Two runs without
// names cannot be told from a repeated ping.
func (a heartbeatUpdate) isRepeated(before heartbeatState) bool {
	isSameRun := a.Run == before.Run
	switch {
	case isSameRun && !a.ping && a.At.Equal(before.At):
		return true
	case a.Run == "":
		return false
	case a.Kind == Begun:
		return before.indexOfRun(a.Run) >= 0
	}
	return isSameRun
}
