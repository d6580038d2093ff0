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
}

// Effect is what one event asks of one job.
type Effect struct {
	Rule *Rule
	Job  Job // for Start: the job to be; for End: its Ref
	Kind EffectKind

	Outcome checks.Outcome // for End
	// Close drafts the alert that closes what was said about the job; nil: it stays unsaid.
	// For End.
	Close func(Job) alerts.Draft
}

// EffectKind is what an event asks for.
type EffectKind uint8

// The kinds of effects.
const (
	Start EffectKind = iota + 1 // a wait begins
	End                         // it is over
)

// Refusal is an event that a rule could not take in.
type Refusal struct {
	Rule   string // empty: no rule's fault
	Reason string
}
