package rules

import (
	"encoding/json"
	"slices"
	"time"
)

// shifts tells the engine the times of a job that move when the database's clock is set: times relative to the
// beginning of the job, and the times of a heartbeat. A wall-clock time is computed again.
func (r *Rule) shifts() {
	r.engine.NamesSince = r.trigger.since != nil
	r.engine.NamesTimes = r.engine.NamesSince || r.beats != nil && r.beats.ticks != nil || slices.ContainsFunc(r.steps, func(s step) bool {
		return s.at != nil || s.clock != nil || s.of != nil || s.within != nil
	})
	if r.beats != nil {
		r.engine.ShiftState = shiftPulse
	}
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
	shift(&p.At)
	shift(&p.OverdueAt)
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
