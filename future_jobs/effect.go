package futurejobs

import (
	"strings"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// Event is one message of a stream, passed to the rules by ingest.
type Event struct {
	Stream  string
	Line    string // the line that reads it; empty: it is for the rules of all lines
	Subject string
	Seq     uint64
	At      time.Time // when the stream stored it
	ID      string    // set by the producer; may be empty
	Header  map[string][]string
	Data    []byte

	Trace *EventTrace // nil: the event is not traced

	StreamCreatedAt time.Time // distinguishes streams that reuse a name: sequences count within one stream; zero: unknown
}

// Effect is one action on one job, requested by an event or by a person.
type Effect struct {
	Rule       *Rule
	Ref        Ref
	Event      *Event // nil: requested by a person
	Rev        *int32 // required revision of the job, otherwise the effect is missed; nil: any
	OutOfOrder bool   // the event is out of order: it does not apply to a job that began after it
	Apart      bool   // the event and the rule's triggers have different streams: its time orders it, within ClockSkew
	Action     Action
}

// Action is the requested change: Start, StartExpired, Heartbeat, End, AddMember, Update, Pause, Resume, Snooze,
// MoveToVersion, Reschedule or Acknowledge.
type Action interface {
	// play applies the action to the pending job of the effect's key; s is nil if no job is pending.
	play(f *fold, e Effect, s *foldedJob)
}

// CloseAlert drafts the alert that resolves a job's alerts. If nil, no alert is raised.
type CloseAlert func(Job) alerts.Draft

// Refusal is an event that a rule rejected, or several rules of a tenant for the same reason.
type Refusal struct {
	Rule   string   // empty: not caused by a rule; with Several at its end: the prefix of Rules
	Rules  []string // names of the rules, if they are several
	Part   Part     // of the rule; empty: the whole rule
	Reason string
}

// Part is the part of a rule that an event matches.
type Part string

// The parts of a rule that match events.
const (
	Triggers Part = "trigger"
	Updates  Part = "update"
	Pauses   Part = "pause"
	Resolves Part = "resolve"
)

// Cancel returns the effect of a person ending a job. by names the person; empty if unknown.
func Cancel(rule *Rule, ref Ref, by string) Effect { return CancelWithReason(rule, ref, by, "") }

// CancelWithReason is Cancel with the person's reason; empty: none.
func CancelWithReason(rule *Rule, ref Ref, by, note string) Effect {
	reason, text := "", "cancelled by hand"
	if by != "" {
		reason = "by " + by
	}
	if note != "" {
		reason, text = strings.TrimPrefix(reason+": "+note, ": "), text+": "+note
	}
	return Effect{Rule: rule, Ref: ref, Action: End{
		Outcome: checks.Cancelled, Reason: reason, Note: note, Close: rule.closing(func(j Job) string { return rule.Entity + " " + j.Key + ": " + text }),
	}}
}

// CancelledBy splits the reason of a job that CancelWithReason ended into the person and the note; ok is false if it names
// no person.
func CancelledBy(reason string) (by, note string, ok bool) {
	if by, ok = strings.CutPrefix(reason, "by "); !ok {
		return "", reason, false
	}
	by, note, _ = strings.Cut(by, ": ")
	return by, note, true
}

// Purge returns the effect of a rule's deletion on one of its jobs. It raises no alert.
func Purge(rule *Rule, ref Ref) Effect {
	return Effect{Rule: rule, Ref: ref, Action: End{Outcome: checks.RuleDeleted}}
}
