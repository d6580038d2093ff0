// Package checks defines checks, the handlers that decide them, and their answers.
package checks

import (
	"context"
	"encoding/json"
	"time"

	"deadman/alerts"
)

// Check is one evaluation of a job at a slot. It holds all input of a handler, including the time: a handler reads no
// clock.
type Check struct {
	JobID        int64
	Rule         string
	RuleVersion  int
	Entity       string
	Key          string
	Event        json.RawMessage // the trigger's body; nil if none
	State        json.RawMessage // the body with updates merged over it
	Since        time.Time       // when the job began
	Slot         time.Time       // the slot being checked
	At           time.Time       // when it is checked: Slot, or later if deadman is late
	ReadThrough  time.Time       // the time through which events of the job are applied, at least Slot; zero: no event could change it
	Count        int             // decided checks before this one
	Step         int             // completed steps before this check
	AlertCount   int             // number of alerts about the job before this check
	FirstAlertAt time.Time       // the slot of the first alert; zero: none
	Pauses       []Pause         // spans in which the job's clock stood still, oldest first
	AckedUntil   time.Time       // end of the acknowledgement that suppresses steps; zero: not acknowledged; Forever: until resolved
	Manual       bool            // requested by a person: the answer may end the job, and takes no step

	// ReceivingSince is the start of the current gap-free period of this rule's heartbeats. Zero means no relevant gap.
	ReceivingSince time.Time

	Queried bool            // a source was queried about the entity
	Found   json.RawMessage // the source's result, an object; nil: no such entity
}

// AsOf returns the latest time that the check may judge: At, or ReadThrough if that is earlier, but not before Slot.
// A later step is deferred until earlier events are applied.
func (c Check) AsOf() time.Time {
	at := c.At
	if !c.ReadThrough.IsZero() && c.ReadThrough.Before(at) {
		at = c.ReadThrough
	}
	if at.Before(c.Slot) {
		return c.Slot
	}
	return at
}

// Forever is the end of an acknowledgement without an end.
var Forever = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Pause is a span in which the job's clock stands still.
type Pause struct {
	From time.Time
	To   time.Time // zero: ongoing
}

// Answer is the result of a check.
type Answer struct {
	Next    time.Time      // time of the next check; zero: the job ends
	Nominal bool           // Next follows from the rule's own steps; the horizon does not bound it
	Outcome Outcome        // the reason for the job's end, if Next is zero
	Step    int            // completed steps after this check
	Due     time.Time      // due time of the step that raises Alerts; zero: the slot
	Alerts  []alerts.Draft // alerts to raise, in this order
	Held    bool           // a step is due but suppressed for now; the check is not counted
	// HeldStep is the name of the last step that is due and suppressed; empty: none is, or unknown.
	HeldStep string
	// Values is the value seen by the condition, as an explanation for people; empty: none.
	Values string
	// State is the state after a lookup, for the alerts to carry; nil: the job's own state. The job's state does not
	// change.
	State json.RawMessage
}

// Handler decides checks. An error makes the check undetermined, never "fine". A handler must return when ctx is
// done; otherwise it is abandoned and its answer is dropped.
type Handler interface {
	Check(ctx context.Context, c Check) (Answer, error)
}

// Inline is a Handler without I/O and with bounded run time, such as a condition over the job's state. It runs
// without its own goroutine and timer.
type Inline interface {
	Handler
	// Inline marks the handler as inline. It is not called.
	Inline()
}

// HandlerFunc adapts a function to a Handler.
type HandlerFunc func(ctx context.Context, c Check) (Answer, error)

// Check calls f.
func (f HandlerFunc) Check(ctx context.Context, c Check) (Answer, error) { return f(ctx, c) }
