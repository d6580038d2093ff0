package futurejobs

import (
	"maps"
	"strings"
	"time"
)

// DeadLetter is an event that could not be processed.
type DeadLetter struct {
	ID     int64
	Event  Event
	Rule   string // empty: not caused by a rule; with Several at its end: all rules of RulesHeader
	Part   Part   // of the rule; empty: the whole rule
	Reason string
	Size   int // bytes of the body if only its start is stored; 0: the body is complete
	At     time.Time

	Omitted bool // only in lists: the headers and the body are larger than ListedMost and left out

	Tries       int // number of retries
	LastTriedAt time.Time
}

// Several is the end of the Rule of a dead letter of several rules, after the prefix of their names. No rule's name has
// it.
const Several = "*"

// RulesHeader is the header of a dead letter's event that names the rules of a letter of several.
const RulesHeader = "Deadman-Rules"

// NewDeadLetter returns the dead letter of an event that r refused.
func NewDeadLetter(e Event, r Refusal, at time.Time) DeadLetter {
	if len(r.Rules) > 0 || len(e.Header[RulesHeader]) > 0 {
		e.Header = maps.Clone(e.Header)
		delete(e.Header, RulesHeader)
	}
	if len(r.Rules) > 0 {
		if e.Header == nil {
			e.Header = make(map[string][]string)
		}
		e.Header[RulesHeader] = r.Rules
	}
	return DeadLetter{Event: e, Rule: r.Rule, Part: r.Part, Reason: r.Reason, At: at}
}

// Several returns the names of the rules of a letter of several rules; nil for any other letter.
func (l DeadLetter) Several() []string {
	if !strings.HasSuffix(l.Rule, Several) {
		return nil
	}
	return l.Event.Header[RulesHeader]
}

// DeadLetterReason counts the dead letters of one rule and reason.
type DeadLetterReason struct {
	Rule    string // empty: not caused by a rule
	Reason  string
	Letters int64
	Newest  int64 // the id of the newest one
	At      time.Time
}

// DeadLetterReasons lists the reasons of dead letters, most frequent first.
type DeadLetterReasons struct {
	Reasons []DeadLetterReason
	Letters int64 // counted letters: the newest
	More    bool  // there may be older letters that were not counted
}
