package futurejobs

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// TickingRule is a rule that ticks. It is as the rules were at one revision, and safe for
// concurrent use.
type TickingRule interface {
	Name() string
	RuleID() int32
	// Emits reports whether its newest version emits. What its older versions left may still be
	// the other.
	Emits() bool
	// From is the instant after which the rule ticks, for one of which no tick was applied yet.
	From() time.Time
	// Next is the first tick after an instant; false: there is none any more.
	Next(after time.Time) (time.Time, bool)
	// Due is what comes of the ticks after one instant and not after another; ok is false where
	// there are none. An error is that of a version that can't be run at the moment.
	Due(after, now time.Time) (d DueTicks, ok bool, err error)
}

// DueTicks is what comes of ticks that were not applied yet: the last of them counts, and the others
// are missed.
type DueTicks struct {
	At      time.Time // the nominal time of the last of them
	Missed  int       // those before it
	Outcome TickOutcome
	Effects []Effect
	Emit    *Emission            // nil: nothing is published
	Remarks []alerts.SystemAlert // what people have to know
}

// TickOutcome is what becomes of a tick.
type TickOutcome string

// What becomes of ticks.
const (
	TickBegan   TickOutcome = "began"   // waits
	TickEmitted TickOutcome = "emitted" // an event
	TickResting TickOutcome = "resting" // nothing: the rule is paused or disabled
	TickSkipped TickOutcome = "skipped" // nothing: it was found late, as catch_up wants
	TickExpired TickOutcome = "expired" // waits that ended at once: it was found late, as catch_up wants
	TickMissed  TickOutcome = "missed"  // nothing: a later one was due by the time it was found
)

// Emission is an event that a tick publishes.
type Emission struct {
	Rule    string
	Subject string
	ID      string // the same whoever publishes it, and however often
	Data    json.RawMessage
	At      time.Time // the nominal time of the tick
	Missed  int
}

// Size is how many bytes the event has, without the headers that all such events have.
func (e Emission) Size() int { return len(e.Subject) + len(e.Data) }

// StartExpired begins a wait of which it was found out too late that it had to begin. It ends at once,
// as expired, unless it happened meanwhile. One that is there already and is kept goes on.
type StartExpired struct {
	Start
	Reason string
}

func (a StartExpired) play(f *fold, e Effect, s *foldedJob) {
	a.Start.play(f, e, s)
	if begun := f.lookup(e); begun != nil && begun != s {
		f.end(e, begun, End{Outcome: checks.Expired, Reason: a.Reason})
	}
}

// TickStream names the cursor of a rule's ticks, whose sequence is the second of the last tick that
// was applied. No stream of a broker has a slash in its name.
func TickStream(ruleID int32) string { return tickStreams + strconv.Itoa(int(ruleID)) }

const tickStreams = "schedule/"

// HoldTickFor is how long changes of a rule wait at the most for an event that one of its ticks publishes.
const HoldTickFor = 3 * time.Second

// ErrHeld means that an event of the rule may still be on its way from an earlier try. It passes.
var ErrHeld = errors.New("an earlier event of the rule may still be on its way")
