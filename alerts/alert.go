// Package alerts holds what deadman says, and the relay that says it.
package alerts

import (
	"encoding/json"
	"time"
)

// SchemaVersion is the version of the JSON that an Alert marshals to.
const SchemaVersion = 1

// Severity says how much an alert matters. It is a token of the alert's subject.
type Severity string

// The severities, least first.
const (
	Info     Severity = "info"
	Warning  Severity = "warning"
	Error    Severity = "error"
	Critical Severity = "critical"
)

// Valid reports whether s is one of the four severities.
func (s Severity) Valid() bool {
	return s == Info || s == Warning || s == Error || s == Critical
}

// Status says what kind of news an alert is.
type Status string

// The statuses.
const (
	Firing       Status = "firing"       // it has not happened
	Resolved     Status = "resolved"     // it happened after all; Closes names what was said before
	Undetermined Status = "undetermined" // the check could not find out
	GaveUp       Status = "gave_up"      // a guard ended the job: nobody is looking any more
	Expired      Status = "expired"      // found too late to be worth looking
)

// Draft is what a handler or a rule wants said; the engine knows the rest.
type Draft struct {
	Status    Status            `json:"status"`
	Severity  Severity          `json:"severity"`
	Step      string            `json:"step,omitempty"`
	StepIndex int               `json:"step_index"`
	Passed    []string          `json:"passed,omitempty"` // steps that came due at the same check and stay unsaid
	Text      string            `json:"text"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// Detail is what an alert says. Most of it is kept as one document in its row.
type Detail struct {
	Draft
	Since      time.Time       `json:"since"`
	Slot       time.Time       `json:"slot"`
	CheckCount int             `json:"check_count"`
	Event      json.RawMessage `json:"event,omitempty"`
	State      json.RawMessage `json:"state,omitempty"`
	Closes     []ID            `json:"closes,omitempty"`
	Source     string          `json:"source,omitempty"`
	Count      int             `json:"count,omitempty"`
}

// Alert is one thing said about one job. Its JSON form is the contract with consumers.
type Alert struct {
	ID          ID        `json:"id"`
	Rule        string    `json:"rule"`
	RuleVersion int       `json:"rule_version"`
	Entity      string    `json:"entity"`
	Key         string    `json:"key"`
	DecidedAt   time.Time `json:"decided_at"`
	Detail
	URL string `json:"url,omitempty"`

	Shard  int16     `json:"-"`
	RuleID int32     `json:"-"`
	Place  OutboxKey `json:"-"` // where Outbox.Unpublished read it
	Again  Again     `json:"-"` // whether an admin has it published again
}

// MarshalJSON implements json.Marshaler.
func (a Alert) MarshalJSON() ([]byte, error) { return a.JSON() }

// JSON is the alert as consumers get it, the schema version first. It saves json.Marshal's
// second look at what MarshalJSON returns.
func (a Alert) JSON() ([]byte, error) {
	type plain Alert
	return json.Marshal(struct {
		SchemaVersion int `json:"schema_version"`
		plain
	}{SchemaVersion, plain(a)})
}

// Subject is the NATS subject that this alert, and no other, is published on.
func (a Alert) Subject() string {
	return "deadman.alerts." + a.Rule + "." + string(a.Severity) + "." + a.ID.String()
}
