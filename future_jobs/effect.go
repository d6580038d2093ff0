package futurejobs

import (
	"encoding/json"
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
	Rule  *Rule
	Ref   Ref
	Event *Event // nil: a person asks
	Rev   *int32 // what the job has to be at, or it is missed; nil: any
	Late  bool   // the event is out of its order: it says nothing of a wait that began after it
	Apart bool   // the event comes by another stream than the rule's triggers: its time puts it in order, within ClockSkew
	Ask   Ask
}

// Ask is what is asked: Start, Lapse, Beat, End, Gather, Update, Pause, Resume, Snooze, Move or Acknowledge.
type Ask interface {
	// play is called with the job that waits for the effect's key, or nil.
	play(f *fold, e Effect, s *standing)
}

// Closing drafts the alert that closes what was said about a job; nil: it stays unsaid.
type Closing func(Job) alerts.Draft

// Start begins a wait, unless there is one.
type Start struct {
	Job     Job      // NextCheckAt: zero, where it is first looked at when FirstCheckAt says
	Restart bool     // one that is there ends, and another begins
	Early   bool     // something may have happened before
	Orders  bool     // other events come by other streams: the job remembers what puts them in order
	ByHand  bool     // a person begins it
	Close   Closing  // of the one that ends
	Unsaid  Closing  // what is said of the one that ends where it was due, and nobody looked; nil: nothing
	Sets    []Gather // the rule's sets, for members that came before
}

// Beat says that came what has to come again and again.
type Beat struct {
	// Play returns what the beat makes of the job that waits for it; nil: none does.
	Play func(*Job) (Beaten, error)
}

// Beaten is what a beat makes of a job. Without anything in it the beat changes nothing.
type Beaten struct {
	Job  *Job      // the job as it goes on
	Next time.Time // when it is looked at next; zero: when it was
	News bool      // it has to be written even if that is when it was looked at anyway

	End   *End // the wait is over
	Begin *Job // a wait begins, once the one that is there is over
}

// End ends a wait because it happened.
type End struct {
	Outcome checks.Outcome
	Reason  string
	Close   Closing
	Say     Closing         // in the place of Close: what is said, also where nothing was before
	Early   time.Duration   // how long it is remembered where nobody waits
	State   json.RawMessage // what was known, for what is said; nil: what the job knows
}

// Gather adds a member to a set, and ends the wait if that was the last one needed.
type Gather struct {
	Set    uint8 // which of the rule's sets
	Member string
	Need   func(Job) (int, error) // how many members the set has; 0: nobody knows yet
	End    End
}

// Update merges news into what is known.
type Update struct {
	// Merge returns what is known after the news, from what was known before. nil: Begin does.
	Merge func(known json.RawMessage) (json.RawMessage, error)
	// Begin takes apart what is known, for News and those of later updates of the same run.
	Begin func(known json.RawMessage) Merging
	News  json.RawMessage
	Sets  []Gather // the rule's sets: news may say how many members they have
}

// Merging is what is known of a job, taken apart so that many updates of a run cost little more than one.
type Merging interface {
	// Merge merges news. Where it returns an error, what is known is as it was.
	Merge(news json.RawMessage) error
	// Text is what is known now.
	Text() json.RawMessage
}

// Pause makes time stand still.
type Pause struct{}

// Resume lets time go on.
type Resume struct {
	// Apart: pauses come by several streams, so that the pause may be read after its resume.
	Apart bool
	// Next is when to look at the job now that it was paused for longer; zero: as much later
	// as it was paused. It may be nil.
	Next func(Job) time.Time
}

// Snooze puts the next look off until an instant, before which nothing but another snooze brings it
// forward. A look that is later anyhow stays where it is.
type Snooze struct {
	Until time.Time
	By    string // who wants it; empty: nobody knows
}

// Move takes a job to the version of the effect's rule.
type Move struct {
	// Next is when to look at it next, at that version; zero: as before.
	Next func(Job) time.Time
}

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
	return Effect{Rule: rule, Ref: ref, Ask: End{
		Outcome: checks.Cancelled, Reason: reason, Close: rule.closing(func(j Job) string { return rule.Entity + " " + j.Key + ": cancelled by hand" }),
	}}
}

// Purge is the effect of a rule's deletion on a job of it. Nothing is said any more.
func Purge(rule *Rule, ref Ref) Effect {
	return Effect{Rule: rule, Ref: ref, Ask: End{Outcome: checks.RuleDeleted}}
}

// closing is how the rule closes a job with a text; nil if it says nothing then.
func (r *Rule) closing(text func(Job) string) Closing {
	if r.Closing == nil {
		return nil
	}
	return func(j Job) alerts.Draft { return r.Closing(j, text(j)) }
}
