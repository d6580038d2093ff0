package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"deadman/rules/document"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// heartbeatUpdate is a heartbeat that a rule processes.
type heartbeatUpdate struct {
	*Rule
	ReceivedHeartbeat
	ping      bool                                          // it came as a ping
	event     func(heartbeatState) (json.RawMessage, error) // the data of the heartbeat
	versionOf func(futurejobs.Job) *Rule                    // the version that made a job
}

// effect returns the action of the heartbeat on the job of its key. A reason that would prevent a new job is an error.
func (a heartbeatUpdate) effect() (futurejobs.Heartbeat, error) {
	a.Paused = a.Paused || !a.document.Enabled
	if a.Kind == Log {
		return futurejobs.Heartbeat{Play: a.apply, Paused: a.Paused}, nil
	}
	if _, err := a.newJob(nil); err != nil {
		return futurejobs.Heartbeat{}, err
	}
	return futurejobs.Heartbeat{Play: a.apply, Paused: a.Paused}, nil
}

// apply applies the heartbeat to the job that waits for it.
//
//  1. A log changes nothing, and neither does a heartbeat of a stream that is older than the last one. Pings count in
//     the order in which they are committed: each node has a clock of its own, and every ping answered with OK counts.
//  2. A start opens a run. A job that has alerted or failed stays overdue.
//  3. A failure, or a run that starts or ends too soon, is overdue at once, if it was not before.
//  4. A success postpones the job, unless another run failed that no alert reports yet, or the run is not later than one
//     that started too soon. If an alert was raised, the job ends, and a new one begins.
func (a heartbeatUpdate) apply(j *futurejobs.Job) (futurejobs.HeartbeatResult, error) {
	if a.Kind == Log {
		return futurejobs.HeartbeatResult{}, nil
	}
	if j == nil {
		if a.Paused {
			return futurejobs.HeartbeatResult{}, nil
		}
		begun, err := a.newJob(nil)
		return futurejobs.HeartbeatResult{Begin: begun}, err
	}
	before := pulseOf(j.State)
	if last := latest(j.Since, before.At); before.Kind != Expected && a.At.Before(last) {
		if !a.ping {
			return futurejobs.HeartbeatResult{}, nil
		}
		a.At = last
	}
	known := len(j.Alerts) > 0 || !before.OverdueAt.IsZero() // an alert was raised, or a run failed
	if len(j.Alerts) > 0 {
		before.Failed = nil // an alert reports them
	}
	deadline := a.versionOf(*j).begins(contextOf(*j))
	after, stays := a.pulse(before, a.overdue(deadline, known), before.OverdueAt.IsZero() && !deadline.After(a.At))
	switch {
	case stays:
		next, err := a.stillFailed(*j, after)
		return futurejobs.HeartbeatResult{Job: &next, MustWrite: true}, err
	case after.Kind == Success && len(j.Alerts) > 0:
		return a.resolve(*j, before, after)
	case after.Kind == Success || !known:
		return a.postpone(*j, before, after)
	}
	next, err := a.recordHeartbeat(*j, after)
	return futurejobs.HeartbeatResult{Job: &next, MustWrite: true}, err
}

// overdue returns since when a job with a deadline is overdue at the time of the heartbeat; the zero time if it is not. If
// that is not known yet, a start does not make the job overdue: the cause may be a heartbeat that was not received or
// kept, or a pause that continues.
func (a heartbeatUpdate) overdue(at time.Time, known bool) time.Time {
	if known || a.Kind != Begun && !at.After(a.At) {
		return at
	}
	return time.Time{}
}

// pulse returns the state after the heartbeat; before is the state until then, and overdue since when it was overdue. isLate
// reports whether it was overdue without a failure, and stays whether a success leaves an earlier failure in force.
func (a heartbeatUpdate) pulse(before heartbeatState, overdue time.Time, isLate bool) (p heartbeatState, stays bool) {
	p = heartbeatState{
		Kind: a.Kind, At: a.At, ExitStatus: a.Exit, Run: a.Run, Runs: before.Runs, Dropped: before.Dropped, Failed: before.Failed,
		FailedAt: before.FailedAt, NoSuccess: before.NoSuccess || before.Kind == Expected,
	}
	if a.heartbeat.tooOften > 0 {
		p.runStarts = before.runStarts
	}
	ended, tooSoon := a.runPulse(&p, before, isLate)
	switch {
	case p.Kind == Begun:
		p.OverdueAt, p.Reason = overdue, before.Reason
		return p, false
	case p.Kind == Success:
		return a.succeed(p, before, ended)
	case !tooSoon:
		p.forget()
	}
	p.fail(a.Run)
	p.FailedAt, p.OverdueAt = a.At, a.At
	if !overdue.IsZero() {
		p.OverdueAt = overdue
	}
	if p.Reason == "" {
		p.Reason = a.failure()
	}
	return p, false
}

// runPulse begins or ends the run of the heartbeat, and makes a failure of one that starts or ends too soon. It returns the
// run that ended, and whether it started too soon.
func (a heartbeatUpdate) runPulse(p *heartbeatState, before heartbeatState, isLate bool) (ended run, tooSoon bool) {
	if a.Kind == Begun {
		p.begin(a.Run, a.At)
	} else {
		ended = p.end(a.Run)
	}
	if a.Kind == Begun || a.Kind == Success && ended.At.IsZero() {
		if reason := a.judgeStart(p, before, isLate); reason != "" {
			p.Kind, p.Reason = Failure, reason
			return ended, true
		}
	}
	if !ended.At.IsZero() {
		took := max(a.At.Sub(ended.last()), 0)
		p.Seconds = new(took.Seconds())
		if a.Kind == Success && took < a.heartbeat.min {
			p.Kind, p.Reason = Failure, fmt.Sprintf("took %s, less than %s", document.Duration(took), document.Duration(a.heartbeat.min))
		}
	}
	return ended, false
}

// succeed returns the state after a success. A failed run, or one that started too soon, is reported even if another run
// succeeds: it stays in force.
func (a heartbeatUpdate) succeed(p, before heartbeatState, ended run) (_ heartbeatState, stays bool) {
	p.Failed = slices.DeleteFunc(slices.Clone(p.Failed), func(name string) bool { return name == a.Run })
	if len(p.Failed) > 0 || !p.isLater(ended, a.At, a.heartbeat.tooOften) {
		if before.Kind != Failure { // a run that started since then did not fail
			before.Run = ""
		}
		before.Runs, before.Failed, before.Kind, before.At, before.NoSuccess = p.Runs, p.Failed, Failure, a.At, false
		before.runStarts = p.runStarts
		return before, true
	}
	p.Failed, p.FailedAt, p.NoSuccess, p.TooSoonAt = nil, time.Time{}, false, time.Time{}
	p.Runs, p.Dropped = runsWithin(p.Runs, a.heartbeat.isOld(), a.At), 0
	return p, false
}

// maxFailureLine is the maximum number of characters of a body in the text of a failure.
const maxFailureLine = 200

// failure describes a reported failure, as far as the sender explains it: with the last line of its body that has text,
// because the output of a failed program ends with its error.
func (a heartbeatUpdate) failure() string {
	text, line := "failed", LastLine(a.Body)
	if a.Exit != nil {
		text = fmt.Sprintf("failed with exit status %d", *a.Exit)
	}
	switch {
	case line != "":
		return text + ": " + line
	case a.ping && a.Exit == nil:
		return "failed; the ping had no body with the reason"
	}
	return text
}

// LastLine returns the last line of a text that has visible characters, up to maxFailureLine characters and without control
// characters; empty if there is none.
func LastLine(text string) string {
	clean := func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}
	lines := strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(strings.Map(clean, line)); line != "" {
			return clip(line, maxFailureLine)
		}
	}
	return ""
}

// newJob returns the job that the heartbeat creates; runs are those that continue in it.
func (a heartbeatUpdate) newJob(runs []run) (*futurejobs.Job, error) {
	p, _ := a.pulse(heartbeatState{Runs: runs, NoSuccess: true}, time.Time{}, false)
	return a.started(p)
}

// started returns a job that begins with a heartbeat.
func (a heartbeatUpdate) started(p heartbeatState) (*futurejobs.Job, error) {
	j := futurejobs.Job{Version: a.engine.Version, Since: a.At, Trail: p.failureEntry()}
	var err error
	if j.Event, err = a.event(p); err != nil {
		return nil, err
	}
	if j.State, err = p.mergeInto(nil, j.Event); err != nil {
		return nil, err
	}
	j.FirstCheckAt, err = a.firstCheck(contextOf(j.Of(a.Key)), a.At)
	return &j, err
}

// postpone returns a job that the heartbeat postpones, or brings forward. If the next check stays and nothing else is
// new, nothing is written: heartbeats of one slot count once.
func (a heartbeatUpdate) postpone(was futurejobs.Job, before, after heartbeatState) (futurejobs.HeartbeatResult, error) {
	j, err := a.recordHeartbeat(was, after)
	if err != nil {
		return futurejobs.HeartbeatResult{}, err
	}
	if after.Kind == Success {
		j.Since = a.At
		j.Step, j.UndeterminedChecks, j.CheckCount = 0, 0, 0
	}
	overdue := a.slotOf(j)
	moved := !overdue.Equal(a.versionOf(was).slotOf(was))
	var next time.Time
	switch {
	case after.Kind == Begun && !moved: // as without max: the check stays, and may be forgiven
	case len(a.steps) == 0: // the handler decides the alerts
		next = overdue
	default:
		next = a.nextOf(j)
	}
	if !moved {
		if moved, err = a.versionOf(j).stepsMove(was, j); err != nil {
			return futurejobs.HeartbeatResult{}, err
		}
	}
	mustWrite := moved || !before.plain() || !after.plain() || was.Step != j.Step || was.UndeterminedChecks != j.UndeterminedChecks || was.Version != j.Version
	return futurejobs.HeartbeatResult{Job: &j, Next: next, MustWrite: mustWrite}, nil
}

// stillFailed returns a job after the success of one run while another run has failed: the job continues as it was.
func (a heartbeatUpdate) stillFailed(j futurejobs.Job, after heartbeatState) (_ futurejobs.Job, err error) {
	own := j.State
	if len(a.updates) == 0 {
		own = nil
	}
	j.State, err = after.mergeInto(own, j.Event)
	return j, err
}

// recordHeartbeat returns a job that includes the heartbeat, and belongs to the current rule.
func (a heartbeatUpdate) recordHeartbeat(j futurejobs.Job, after heartbeatState) (_ futurejobs.Job, err error) {
	if j.Version < a.engine.Version {
		j.Step, j.Version = stepsTaken(a.versionOf(j).escalation, a.escalation, j), a.engine.Version
	}
	if entry := after.failureEntry(); entry != "" {
		j.Trail = entry
	}
	if j.Event, err = a.event(after); err != nil {
		return j, err
	}
	own := j.State
	if len(a.updates) == 0 {
		own = nil
	}
	j.State, err = after.mergeInto(own, j.Event)
	return j, err
}

// The ends of the reason of a job that ended with the first success since it began.
const (
	firstHeartbeat = "sent its first heartbeat"
	firstSuccess   = " with its first success"
)

// EndsWithFirstSuccess reports whether the reason of an ended job says that the success that ended it was the first: until
// its first alert nothing was known of the key.
func EndsWithFirstSuccess(reason string) bool {
	return strings.HasSuffix(reason, firstHeartbeat) || strings.HasSuffix(reason, firstSuccess)
}

// resolve ends a job because the overdue heartbeat came.
func (a heartbeatUpdate) resolve(j futurejobs.Job, before, after heartbeatState) (futurejobs.HeartbeatResult, error) {
	begun, err := a.started(after)
	if err != nil {
		return futurejobs.HeartbeatResult{}, err
	}
	missed := max(a.At.Sub(a.heartbeat.missedFrom(before, j.Since)), 0)
	silent := "recovered after " + document.Duration(missed.Truncate(time.Second)).String()
	if before.Kind == Expected && before.At.IsZero() {
		silent = firstHeartbeat
	}
	end := &futurejobs.End{Outcome: checks.Resolved, Reason: "it " + silent}
	if before.NoSuccess {
		end.Reason += firstSuccess
	}
	if !a.document.Quiet {
		end.Close = func(j futurejobs.Job) alerts.Draft {
			w := contextOf(j)
			w.rule = a.engine.Name
			return a.versionOf(j).closeAlert(w, j.Step, fmt.Sprintf("%s %s %s", a.engine.Entity, j.Key, silent))
		}
	}
	return futurejobs.HeartbeatResult{End: end, Begin: begun}, nil
}
