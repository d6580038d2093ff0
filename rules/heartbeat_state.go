package rules

import (
	"encoding/json"
	"slices"
	"time"

	"deadman/rules/bodies"

	futurejobs "deadman/future_jobs"
)

// heartbeatState is the state of a heartbeat beside the time of the last one. It is kept in the state of its job, as
// heartbeat, unless it is empty.
type heartbeatState struct {
	Kind       Signal    `json:"kind"`                       // of the last heartbeat; a log is none
	FailedAt   time.Time `json:"failed_at,omitzero"`         // when the last failure came, until a success
	At         time.Time `json:"at,omitzero"`                // when the last heartbeat came
	ExitStatus *int      `json:"exit_status,omitempty"`      // the exit status of its run; nil: not reported
	Run        string    `json:"run,omitempty"`              // its run
	Seconds    *float64  `json:"duration_seconds,omitempty"` // how long the run took, if its start is known
	Reason     string    `json:"reason,omitempty"`           // why it failed
	OverdueAt  time.Time `json:"overdue_at,omitzero"`        // since when it is overdue, until a success; zero: it may not be
	Runs       []run     `json:"runs,omitempty"`             // that have begun and not ended, oldest first
	Dropped    int       `json:"dropped_runs,omitempty"`     // how many of them are not tracked any more
	Failed     []string  `json:"failed_runs,omitempty"`      // the names of the runs that failed since the last alert, oldest first
	NoSuccess  bool      `json:"no_success,omitempty"`       // no success came since the job began
	runStarts
}

// run is a run that has begun and not ended. A run that begins again continues: a job must not wait for ever for a
// sender that keeps beginning a run without ending it.
type run struct {
	Name  string    `json:"run"`
	At    time.Time `json:"at"`                // when it began first
	Again time.Time `json:"again_at,omitzero"` // when it began last, if that was later
}

// last returns when the current attempt of the run began: its end determines how long it took.
func (r run) last() time.Time { return latest(r.At, r.Again) }

// maxRuns bounds how many runs are tracked at a time.
const maxRuns = 16

// heartbeatField is the field of the state that holds the heartbeatState.
const heartbeatField = "heartbeat"

// pulseOf returns the heartbeat part of a job's state; the zero value if the state is nil. A field of another form
// belongs to the rule's author.
func pulseOf(own []byte) (p heartbeatState) {
	if own == nil {
		return p
	}
	var kept struct {
		Pulse heartbeatState `json:"heartbeat"`
	}
	if err := json.Unmarshal(own, &kept); err != nil {
		return heartbeatState{}
	}
	return kept.Pulse
}

// LastReport returns the last report of a job with a heartbeat, as far as its state has it: the zero value if the last
// report is a plain success.
func LastReport(state []byte) (r futurejobs.HeartbeatReport) {
	p := pulseOf(state)
	if p.Kind == Expected {
		return futurejobs.HeartbeatReport{At: p.At, NoSuccess: true, Awaited: true}
	}
	r = futurejobs.HeartbeatReport{At: p.At, FailedAt: p.FailedAt, NoSuccess: p.NoSuccess}
	if p.Kind == Failure && r.FailedAt.IsZero() { // written by an earlier version
		r.FailedAt = p.At
	}
	if !r.FailedAt.IsZero() {
		r.Failure = p.Reason
	}
	return r
}

// failureEntry returns the entry of the trail if the last heartbeat is a failure; an empty one if it is not. A failure while an
// alert is open raises no further alert by itself, and a later success may forgive one that no alert reports yet.
func (p heartbeatState) failureEntry() futurejobs.Trail {
	if p.Kind != Failure || !p.At.Equal(p.FailedAt) {
		return ""
	}
	reason := p.Reason
	if p.Run != "" {
		reason = "run " + p.Run + " " + reason
	}
	return futurejobs.Entry{Kind: futurejobs.Failed, At: p.At, Reason: reason}.Trail()
}

// plain reports whether the state has nothing to keep.
func (p heartbeatState) plain() bool {
	return (p.Kind == Success || p.Kind == "") && p.Seconds == nil && len(p.Runs) == 0 && p.Dropped == 0 && p.runStarts == runStarts{}
}

// fail records the failure of a named run. The newest maxRuns are kept: one is enough to be overdue.
func (p *heartbeatState) fail(name string) {
	if name == "" || slices.Contains(p.Failed, name) {
		return
	}
	p.Failed = append(slices.Clone(p.Failed), name)
	p.Failed = p.Failed[max(0, len(p.Failed)-maxRuns):]
}

// begin begins a run, or restarts one in progress. Of too many runs the second oldest is dropped: the oldest determines
// when the first of them takes too long.
func (p *heartbeatState) begin(name string, at time.Time) {
	p.Runs = slices.Clone(p.Runs)
	if i := p.indexOfRun(name); i >= 0 {
		p.Runs[i].Again = at
		return
	}
	p.Runs = append(p.Runs, run{Name: name, At: at})
	slices.SortStableFunc(p.Runs, func(a, b run) int { return a.At.Compare(b.At) })
	if over := len(p.Runs) - maxRuns; over > 0 {
		p.Runs = slices.Delete(p.Runs, 1, 1+over)
		p.Dropped += over
	}
}

// end ends a run, and returns it; the zero value if its start is unknown.
func (p *heartbeatState) end(name string) (ended run) {
	i := p.indexOfRun(name)
	if i < 0 {
		return run{}
	}
	ended = p.Runs[i]
	p.Runs = slices.Delete(slices.Clone(p.Runs), i, i+1)
	return ended
}

// indexOfRun returns the index of a run among those that have not ended; -1 if it is not one of them.
func (p *heartbeatState) indexOfRun(name string) int {
	return slices.IndexFunc(p.Runs, func(r run) bool { return r.Name == name })
}

// runsWithin returns the runs that have not been in progress for longer than a span.
func runsWithin(runs []run, span time.Duration, at time.Time) []run {
	return slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return !r.At.Add(span).After(at) })
}

// mergeInto returns the state of a job after a heartbeat: the state before, patched with the heartbeat's body, and the
// heartbeatState. It is nil if it adds nothing to the body.
func (p heartbeatState) mergeInto(own, event json.RawMessage) (json.RawMessage, error) {
	if own == nil && p.plain() {
		return nil, nil
	}
	state, err := bodies.Patch(own, event)
	if err != nil {
		return nil, err
	}
	if len(state) > bodies.MaxBytes {
		state = event // the state before has to give way
	}
	fields := make(map[string]json.RawMessage)
	if bodies.IsObject(state) {
		if err := json.Unmarshal(state, &fields); err != nil {
			return nil, err
		}
	}
	delete(fields, heartbeatField)
	if !p.plain() {
		if fields[heartbeatField], err = json.Marshal(p); err != nil {
			return nil, err
		}
	}
	return json.Marshal(fields)
}

// shiftPulse moves the times in the state of a heartbeat. A state of another form is left as it is.
func shiftPulse(state json.RawMessage, by time.Duration) json.RawMessage {
	var fields map[string]json.RawMessage
	if state == nil || json.Unmarshal(state, &fields) != nil || fields[heartbeatField] == nil {
		return state
	}
	p := pulseOf(state)
	shift := func(t *time.Time) {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	shift(&p.FailedAt)
	shift(&p.At)
	shift(&p.OverdueAt)
	shift(&p.StartedAt)
	shift(&p.EndedAt)
	shift(&p.TooSoonAt)
	p.Runs = slices.Clone(p.Runs)
	for i := range p.Runs {
		shift(&p.Runs[i].At)
		shift(&p.Runs[i].Again)
	}
	var err error
	if fields[heartbeatField], err = json.Marshal(p); err != nil {
		return state
	}
	moved, err := json.Marshal(fields)
	if err != nil {
		return state
	}
	return moved
}
