// Package alerts defines alerts, their ids, notifications and mutes, and the relay that publishes alerts from the
// outbox to the NATS stream.
package alerts

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// SchemaVersion is the version of the JSON that an Alert marshals to.
const SchemaVersion = 1

// Severity grades an alert. It is a token of the alert's subject.
type Severity string

// The severities, in ascending order.
const (
	Info     Severity = "info"
	Warning  Severity = "warning"
	Error    Severity = "error"
	Critical Severity = "critical"
)

// Severities lists the severities in ascending order. Rows store the place of a severity, so a new one is the last.
var Severities = []Severity{Info, Warning, Error, Critical}

// Valid reports whether s is one of the four severities.
func (s Severity) Valid() bool { return slices.Contains(Severities, s) }

// Status classifies an alert.
type Status string

// The statuses.
const (
	Firing       Status = "firing"       // the expected event has not happened
	Resolved     Status = "resolved"     // the expected event happened after all; Closes lists the alerts raised before
	Undetermined Status = "undetermined" // the check could not get an answer
	GaveUp       Status = "gave_up"      // a guard ended the job; no further check follows
	Expired      Status = "expired"      // the job was found too late for a check to be useful
)

// Statuses lists the statuses. Rows store the place of a status, so a new one is the last.
var Statuses = []Status{Firing, Resolved, Undetermined, GaveUp, Expired}

// Draft is an alert as a handler or a rule requests it. The engine adds the rest.
type Draft struct {
	Status       Status            `json:"status"`
	Severity     Severity          `json:"severity"`
	Step         string            `json:"step,omitempty"`
	StepIndex    int               `json:"step_index"`
	SkippedSteps []string          `json:"skipped_steps,omitempty"` // steps that came due at the same check and are suppressed
	Text         string            `json:"text"`
	Labels       map[string]string `json:"labels,omitempty"`
}

// Detail holds the part of an alert that is mostly stored as one document in its row.
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

	BodiesOverQuota bool `json:"bodies_over_quota,omitempty"` // a quota had no room for event and state
}

// Alert is one record raised about a job, or by a node about itself. Its JSON form is the contract with consumers.
type Alert struct {
	ID          ID        `json:"id"`
	Rule        string    `json:"rule"`
	RuleVersion int       `json:"rule_version"`
	Entity      string    `json:"entity"`
	Key         string    `json:"key"`
	DecidedAt   time.Time `json:"decided_at"`
	Detail
	URL string `json:"url,omitempty"`

	Shard         int16         `json:"-"`
	RuleID        int32         `json:"-"`
	Place         OutboxKey     `json:"-"` // the row from which Outbox.Unpublished read the alert
	Trace         string        `json:"-"` // context of the alert in the trace of its event, as a traceparent; empty: it is not traced
	Republication Republication `json:"-"` // set if an admin requested another publication
	UntilClosed   bool          `json:"-"` // of a new system alert: it is open until an actor closes it
}

// MarshalJSON implements json.Marshaler.
func (a Alert) MarshalJSON() ([]byte, error) { return a.JSON() }

// JSON returns the alert as consumers receive it, with the schema version first. Calling it directly saves the
// validation by json.Marshal of the result of MarshalJSON.
func (a Alert) JSON() ([]byte, error) {
	return json.Marshal(document{SchemaVersion, plain(a)})
}

// document is the JSON form of an alert.
type document struct {
	SchemaVersion int `json:"schema_version"`
	plain
}

// plain is an alert without methods.
type plain Alert

// Subject returns the NATS subject of the alert. It is unique to the alert.
func (a Alert) Subject() string {
	return subjectPrefix + a.Rule + "." + string(a.Severity) + "." + a.ID.String()
}

const subjectPrefix = "deadman.alerts."

// SubjectsOf returns the pattern of the subjects of a rule's alerts.
func SubjectsOf(rule string) string { return subjectPrefix + rule + ".>" }

// The labels with the address of a runbook.
const (
	RunbookLabel    = "runbook"
	RunbookURLLabel = "runbook_url" // the name in other tools
)

// Runbook returns the value of RunbookLabel, or else of RunbookURLLabel; empty: the alert has neither.
func (a Alert) Runbook() string { return cmp.Or(a.Labels[RunbookLabel], a.Labels[RunbookURLLabel]) }

// TracedLog returns a log whose records have the trace_id and span_id of a traceparent; the log itself if it is empty.
func TracedLog(log *slog.Logger, parent string) *slog.Logger {
	if trace, span, ok := TraceIDs(parent); ok {
		return log.With("trace_id", trace, "span_id", span)
	}
	return log
}

// TraceIDs returns the ids in a traceparent (https://www.w3.org/TR/trace-context/), in hexadecimal digits.
func TraceIDs(parent string) (trace, span string, ok bool) {
	parts := strings.Split(parent, "-")
	if len(parts) != 4 {
		return "", "", false
	}
	return parts[1], parts[2], true
}
