package futurejobs

import (
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// Event is one message of a stream, as intake hands it to the rules.
type Event struct {
	Stream  string
	Subject string
	Seq     uint64
	At      time.Time // when the stream took it in
	ID      string    // the producer's id for it, where it gave one
	Header  map[string][]string
	Data    []byte

	StreamCreatedAt time.Time // sequences count within one stream, not within all of a name; zero: not known
}

// Effect is what one event, or a person, asks of one job.
type Effect struct {
	Rule   *Rule
	Ref    Ref
	Event  *Event // nil: a person asks
	Rev    *int32 // what the job has to be at, or it is missed; nil: any
	Late   bool   // the event is out of its order: it says nothing of a wait that began after it
	Apart  bool   // the event comes by another stream than the rule's triggers: its time puts it in order, within ClockSkew
	Action Action
}

// Action is what is asked: Start, Lapse, Beat, End, Gather, Update, Pause, Resume, Snooze, Move or Acknowledge.
type Action interface {
	// play is called with the job that waits for the effect's key, or nil.
	play(f *fold, e Effect, s *foldedJob)
}

// CloseAlert drafts the alert that closes what was said about a job; nil: it stays unsaid.
type CloseAlert func(Job) alerts.Draft

// Refusal is an event that a rule could not take in.
type Refusal struct {
	Rule   string // empty: no rule's fault
	Part   Part   // of the rule; empty: all of it
	Reason string
}

// Part is what of a rule an event is for.
type Part string

// The parts of a rule that events are for.
const (
	Triggers Part = "trigger"
	Updates  Part = "update"
	Pauses   Part = "pause"
	Resolves Part = "resolve"
)

// Cancel is the effect of a person ending a job. by is who; empty: nobody knows.
func Cancel(rule *Rule, ref Ref, by string) Effect {
	reason := ""
	if by != "" {
		reason = "by " + by
	}
	return Effect{Rule: rule, Ref: ref, Action: End{
		Outcome: checks.Cancelled, Reason: reason, Close: rule.closing(func(j Job) string { return rule.Entity + " " + j.Key + ": cancelled by hand" }),
	}}
}

// Purge is the effect of a rule's deletion on a job of it. Nothing is said any more.
func Purge(rule *Rule, ref Ref) Effect {
	return Effect{Rule: rule, Ref: ref, Action: End{Outcome: checks.RuleDeleted}}
}

// closing is how the rule closes a job with a text; nil if it says nothing then.
func (r *Rule) closing(text func(Job) string) CloseAlert {
	if r.Closing == nil {
		return nil
	}
	return func(j Job) alerts.Draft { return r.Closing(j, text(j)) }
}
