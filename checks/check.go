// Package checks holds the question that is asked of a handler at a slot, and its answer.
package checks

import (
	"context"
	"encoding/json"
	"time"

	"deadman/alerts"
)

// Check is one look at one entity: all that a handler may know. Time is in it; a handler
// reads no clock.
type Check struct {
	JobID       int64
	Rule        string
	RuleVersion int
	Entity      string
	Key         string
	Event       json.RawMessage // the trigger's body; nil when there was none
	State       json.RawMessage // the body with updates merged over it
	Since       time.Time       // when the wait began
	Slot        time.Time       // the slot being checked
	At          time.Time       // when it is looked at: at Slot or, where deadman was late, after it
	ReadThrough time.Time       // up to when the events that could change the job are applied, not before Slot; zero: no event could
	Count       int             // decided checks before this one
	Step        int             // steps taken before this one
	Said        int             // alerts about the job before this one
	SaidAt      time.Time       // the slot of the first of them; zero: there was none
	Pauses      []Pause         // when time stood still, oldest first
	AckedUntil  time.Time       // until when steps stay unsaid, because somebody acknowledged; zero: nobody did; Forever: for good
	Manual      bool            // a person asks: the answer may end the job, and takes no step

	// HeardSince is since when deadman hears, without a gap, what the rule's beats come by; zero: as
	// far back as matters.
	HeardSince time.Time

	Asked bool            // a source was asked about the entity
	Found json.RawMessage // what it said, an object; nil: there is no such entity
}

// AsOf returns the instant that the check may judge: At, or ReadThrough where that is earlier. A step whose time
// is later waits for the events before it.
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

// Forever is until when an acknowledgement holds that is for good.
var Forever = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Pause is a span in which time stood still for a job.
type Pause struct {
	From time.Time
	To   time.Time // zero: it goes on
}

// Answer is all that happens because of a check.
type Answer struct {
	Next    time.Time      // when to look again; zero: the job ends
	Nominal bool           // Next is given by the rule's own steps; the horizon does not bound it
	Outcome Outcome        // why the job ends, when Next is zero
	Step    int            // steps taken after this check
	Due     time.Time      // when the step of Alerts was due; zero: at the slot
	Alerts  []alerts.Draft // what to say, in this order
	Held    bool           // a step is due and stays unsaid for a while: the check is not counted
	// Saw is what the condition saw, for people who ask why; empty: nobody needs to be told.
	Saw string
	// State is what is known once a source was asked, for the alerts to carry; nil: what the
	// job knows. The job keeps what it knew.
	State json.RawMessage
}

// Handler answers checks. An error means that it could not find out: the check is
// undetermined, never "fine". A handler has to return when ctx is done; one that does not
// is abandoned and its answer is dropped.
type Handler interface {
	Check(ctx context.Context, c Check) (Answer, error)
}

// Inline is a Handler that does no I/O and is bounded in itself, as a condition over what
// the job carries is. It is run in line, without a goroutine and a timer of its own.
type Inline interface {
	Handler
	// Prompt says nothing; having it is what counts.
	Prompt()
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(ctx context.Context, c Check) (Answer, error)

// Check calls f.
func (f HandlerFunc) Check(ctx context.Context, c Check) (Answer, error) { return f(ctx, c) }

// Outcome is why a job ended, as history keeps it. A rule may name others by `as`.
type Outcome string

// The outcomes.
const (
	Resolved       Outcome = "resolved"     // it happened
	Cleared        Outcome = "cleared"      // the condition no longer holds
	Exhausted      Outcome = "exhausted"    // the last step was taken, and the hold is over
	Cancelled      Outcome = "cancelled"    // by hand
	Restarted      Outcome = "restarted"    // a new trigger began the wait anew
	Expired        Outcome = "expired"      // found later than the rule cares for
	RuleDeleted    Outcome = "rule_deleted" // nobody wants to know any more
	Undetermined   Outcome = "undetermined" // could not find out, and the rule says to end then
	GuardTimeout   Outcome = "guard_timeout"
	GuardMaxChecks Outcome = "guard_max_checks"
	GuardHorizon   Outcome = "guard_horizon"
	GuardPast      Outcome = "guard_past"
)
