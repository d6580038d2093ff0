package rules

import (
	"encoding/json"
	"slices"
	"time"
)

// heartbeatState is what is known of a heartbeat beside when it beat last. It is kept in the state of its
// job, as heartbeat, where there is anything to keep.
type heartbeatState struct {
	Kind       Signal    `json:"kind"`                       // of the last beat; a log is none
	At         time.Time `json:"at,omitzero"`                // when it came
	ExitStatus *int      `json:"exit_status,omitempty"`      // what its run ended with; nil: nobody said
	Run        string    `json:"run,omitempty"`              // which run it was of
	Seconds    *float64  `json:"duration_seconds,omitempty"` // how long that took, where its start is known
	Reason     string    `json:"reason,omitempty"`           // why it failed
	OverdueAt  time.Time `json:"overdue_at,omitzero"`        // since when it is overdue, whatever comes but a success; zero: it may not be
	Runs       []run     `json:"runs,omitempty"`             // that have begun and not ended, oldest first
	Dropped    int       `json:"dropped_runs,omitempty"`     // of those how many are not followed any more
	Failed     []string  `json:"failed_runs,omitempty"`      // the runs by name that failed since the last alert, oldest first
}

// run is a run that has begun and not ended. One that begins again goes on: who begins and begins
// and comes to no end is not to be waited for for ever.
type run struct {
	Name  string    `json:"run"`
	At    time.Time `json:"at"`                // when it began first
	Again time.Time `json:"again_at,omitzero"` // when it began last, if that was later
}

// last is when the run began that is going: it is that one whose end says how long it took.
func (r run) last() time.Time { return latest(r.At, r.Again) }

// maxRuns bounds how many runs are followed at a time.
const maxRuns = 16

// heartbeatField is the field of the state that a pulse is kept in.
const heartbeatField = "heartbeat"

// pulseOf is what is kept in a state of a job; nothing where the state is nil. What has another
// form is somebody else's field.
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

// plain reports whether there is nothing to keep.
func (p heartbeatState) plain() bool {
	return (p.Kind == Success || p.Kind == "") && p.Seconds == nil && len(p.Runs) == 0 && p.Dropped == 0
}

// fail has a run fail that has a name. Of many the newest are kept: one is enough to be overdue.
func (p *heartbeatState) fail(name string) {
	if name == "" || slices.Contains(p.Failed, name) {
		return
	}
	p.Failed = append(slices.Clone(p.Failed), name)
	p.Failed = p.Failed[max(0, len(p.Failed)-maxRuns):]
}

// begin begins a run, or again one that is going. Where there are too many, the second oldest is
// dropped: the oldest says when the first of them takes too long.
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

// end ends a run, and returns when it began; the zero time where nobody knows.
func (p *heartbeatState) end(name string) (begun time.Time) {
	i := p.indexOfRun(name)
	if i < 0 {
		return time.Time{}
	}
	begun = p.Runs[i].last()
	p.Runs = slices.Delete(slices.Clone(p.Runs), i, i+1)
	return begun
}

// indexOfRun is the place of a run among those that have not ended; -1 where it is not one of them.
func (p *heartbeatState) indexOfRun(name string) int {
	return slices.IndexFunc(p.Runs, func(r run) bool { return r.Name == name })
}

// runsWithin are the runs that have not been going for longer than a span.
func runsWithin(runs []run, span time.Duration, at time.Time) []run {
	return slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return !r.At.Add(span).After(at) })
}

// mergeInto is the state of a job after a beat: what was known with the beat's body over it, and the
// pulse. It is nil where that says no more than the body does.
func (p heartbeatState) mergeInto(own, event json.RawMessage) (json.RawMessage, error) {
	if own == nil && p.plain() {
		return nil, nil
	}
	state, err := patch(own, event)
	if err != nil {
		return nil, err
	}
	if len(state) > MaxBody {
		state = event // what was known before has to give way
	}
	fields := make(map[string]json.RawMessage)
	if isObject(state) {
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
