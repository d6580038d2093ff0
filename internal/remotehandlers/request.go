package remotehandlers

import (
	"encoding/json"
	"time"

	"deadman/checks"
)

// Request is the JSON form of a check.
type Request struct {
	Rule        string          `json:"rule" jsonschema_description:"Name of the rule."`
	RuleVersion int             `json:"rule_version" jsonschema_description:"Version of the rule that created the job."`
	Entity      string          `json:"entity" jsonschema_description:"Entity type of the rule, such as order."`
	Key         string          `json:"key" jsonschema_description:"Key of the entity."`
	JobID       int64           `json:"job_id" jsonschema_description:"Id of the job. A retried check has the same job_id and count."`
	Event       json.RawMessage `json:"event" jsonschema_description:"Body of the trigger event; null if there was none."`
	State       json.RawMessage `json:"state" jsonschema_description:"Trigger body merged with the updates."`
	Since       time.Time       `json:"since" jsonschema_description:"Start of the job."`
	Slot        time.Time       `json:"slot" jsonschema_description:"Slot of the check."`
	At          time.Time       `json:"at" jsonschema_description:"Time of the check: its slot or, if the node was late, a later time, but not after the time up to which the rule's streams are read. Use it as the current time."`
	Count       int             `json:"count" jsonschema_description:"Number of completed checks before this one."`
	Step        int             `json:"step" jsonschema_description:"Number of steps taken before this check."`
	AlertCount  int             `json:"alert_count" jsonschema_description:"Number of alerts raised by the job before this check."`
	Pauses      []Pause         `json:"pauses" jsonschema_description:"Pauses of the job, oldest first."`
	AckedUntil  time.Time       `json:"acknowledged_until,omitzero" jsonschema_description:"End of an acknowledgement: no further alerts should be raised until then; year 9999 means until resolved; absent if not acknowledged."`
	Manual      bool            `json:"manual" jsonschema_description:"A user requested this check: the answer may end the job, and takes no step."`
	Deadline    time.Time       `json:"deadline,omitzero" jsonschema_description:"Time by which the answer must arrive, by the clock of the node."`
}

// Pause is a period in which a job was paused.
type Pause struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to,omitzero" jsonschema_description:"End of the pause; absent while it lasts."`
}

func newRequest(c checks.Check) Request {
	r := Request{
		Rule: c.Rule, RuleVersion: c.RuleVersion, Entity: c.Entity, Key: c.Key, JobID: c.JobID,
		Event: c.Event, State: c.State, Since: c.Since, Slot: c.Slot, At: c.At,
		Count: c.Count, Step: c.Step, AlertCount: c.AlertCount, Pauses: []Pause{}, Manual: c.Manual,
		AckedUntil: c.AckedUntil,
	}
	for _, p := range c.Pauses {
		r.Pauses = append(r.Pauses, Pause(p))
	}
	return r
}
