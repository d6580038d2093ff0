package futurejobs

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// DeadLetter is an event that could not be processed, or a summary of several such events of one rule and stream.
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

	// Summarized is the number of refused events that the letter stands for; 0: its Event alone. The Event of a summary
	// is the first of them, without headers and body, and Part and Reason are those of the first. A summary cannot be
	// retried.
	Summarized  int64
	LastSeq     uint64    // the sequence of a summary's last event
	LastEventAt time.Time // the time of a summary's last event
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

// Rules returns the names of the rules that refused the event; nil: no rule did.
func (l DeadLetter) Rules() []string {
	if several := l.Several(); several != nil {
		return several
	}
	if l.Rule == "" {
		return nil
	}
	return []string{l.Rule}
}

// DeadLetterReason counts the dead letters of one rule and reason.
type DeadLetterReason struct {
	Rule       string // empty: not caused by a rule
	Reason     string
	Letters    int64 // includes summaries
	Summarized int64 // events that the summaries stand for
	Newest     int64 // the id of the newest one
	At         time.Time
}

// DeadLetterReasons lists the reasons of dead letters, most frequent first.
type DeadLetterReasons struct {
	Reasons []DeadLetterReason
	Letters int64 // counted letters: the newest
	More    bool  // there may be older letters that were not counted
}

// LetterRoom bounds the number of dead letters that are stored.
type LetterRoom interface {
	// Take takes capacity for one dead letter of a rule, by the rule's name, and reports whether it was available.
	Take(rule string) bool
}

// Summaries adds up refused events that have no dead letter of their own, by rule and stream. The zero value is empty.
type Summaries struct {
	list []DeadLetter
	at   map[summaryOf]int // index in list
}

// summaryOf identifies a summary within a batch.
type summaryOf struct{ rule, stream string }

// Add adds a refused event, or another summary.
func (s *Summaries) Add(l DeadLetter) {
	l = l.summary()
	i, met := s.at[summaryOf{l.Rule, l.Event.Stream}]
	if !met {
		if s.at == nil {
			s.at = make(map[summaryOf]int)
		}
		s.at[summaryOf{l.Rule, l.Event.Stream}] = len(s.list)
		s.list = append(s.list, l)
		return
	}
	first, last, sum := &s.list[i], l, s.list[i].Summarized+l.Summarized
	if last.LastSeq < first.LastSeq {
		last = *first
	}
	if l.Event.Seq < first.Event.Seq {
		*first = l
	}
	first.Summarized, first.LastSeq, first.LastEventAt = sum, last.LastSeq, last.LastEventAt
}

// All returns the summaries, by rule and stream.
func (s *Summaries) All() []DeadLetter {
	all := slices.Clone(s.list)
	slices.SortFunc(all, func(a, b DeadLetter) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Event.Stream, b.Event.Stream))
	})
	return all
}

// summary returns a letter as the summary of its event. Size marks it as incomplete, also for nodes that do not know
// summaries.
func (l DeadLetter) summary() DeadLetter {
	if l.Summarized > 0 {
		return l
	}
	l.Size = max(l.Size, len(l.Event.Data), 1)
	l.Event.Data, l.Event.Header, l.Event.ID = nil, nil, ""
	l.Summarized, l.LastSeq, l.LastEventAt = 1, l.Event.Seq, l.Event.At
	return l
}
