package remotehandlers

import (
	"encoding/json"
	"time"

	"deadman/checks"
)

// Request is a check as a service gets it.
type Request struct {
	Rule        string          `json:"rule" jsonschema_description:"The name of the rule."`
	RuleVersion int             `json:"rule_version" jsonschema_description:"The version of the rule that began the wait."`
	Entity      string          `json:"entity" jsonschema_description:"The kind of thing that is watched."`
	Key         string          `json:"key" jsonschema_description:"Which one."`
	JobID       int64           `json:"job_id" jsonschema_description:"The wait. A check that is tried again has the same job_id and count."`
	Event       json.RawMessage `json:"event" jsonschema_description:"The body of the event that began the wait; null: there was none."`
	State       json.RawMessage `json:"state" jsonschema_description:"That body with the updates merged over it."`
	Since       time.Time       `json:"since" jsonschema_description:"When the wait began."`
	Slot        time.Time       `json:"slot" jsonschema_description:"The slot that is looked at."`
	At          time.Time       `json:"at" jsonschema_description:"When it is looked at: at its slot or, where the node was late, after it, but not after the time up to which the rule's streams are read. The time to count with."`
	Count       int             `json:"count" jsonschema_description:"Decided checks before this one."`
	Step        int             `json:"step" jsonschema_description:"Steps taken before this one."`
	Said        int             `json:"said" jsonschema_description:"Alerts about the wait before this one."`
	Pauses      []Pause         `json:"pauses" jsonschema_description:"When time stood still, oldest first."`
	AckedUntil  time.Time       `json:"acknowledged_until,omitzero" jsonschema_description:"Somebody acknowledged what was said: until then nothing more should be, the year 9999 is for good; absent: nobody did."`
	Manual      bool            `json:"manual" jsonschema_description:"A person asks: the answer may end the wait, and takes no step."`
	Deadline    time.Time       `json:"deadline,omitzero" jsonschema_description:"Until when an answer counts, by the clock of the node."`
}

// Pause is a span in which time stood still for a wait.
type Pause struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to,omitzero" jsonschema_description:"Absent: it goes on."`
}

func newRequest(c checks.Check) Request {
	r := Request{
		Rule: c.Rule, RuleVersion: c.RuleVersion, Entity: c.Entity, Key: c.Key, JobID: c.JobID,
		Event: c.Event, State: c.State, Since: c.Since, Slot: c.Slot, At: c.At,
		Count: c.Count, Step: c.Step, Said: c.Said, Pauses: []Pause{}, Manual: c.Manual,
		AckedUntil: c.AckedUntil,
	}
	for _, p := range c.Pauses {
		r.Pauses = append(r.Pauses, Pause(p))
	}
	return r
}
