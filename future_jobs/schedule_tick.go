package futurejobs

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// TickingRule is a rule with a schedule, at one revision of the rules. It is safe for concurrent use.
type TickingRule interface {
	Name() string
	RuleID() int32
	// Emits reports whether its newest version emits events. Older versions may differ.
	Emits() bool
	// From returns the time after which the rule ticks, for a rule without an applied tick.
	From() time.Time
	// Next returns the first tick after a time; false: none.
	Next(after time.Time) (time.Time, bool)
	// Due returns the ticks in (after, now]; ok is false if the range has none. An error means that a version cannot
	// be run at the moment, ErrPutOff that it may not.
	Due(after, now time.Time) (d DueTicks, ok bool, err error)
}

// DueTicks is the result of ticks that were not applied yet: the last one counts, and the others are missed.
type DueTicks struct {
	At      time.Time // the nominal time of the last tick
	Missed  int       // number of ticks before it
	Outcome TickOutcome
	Effects []Effect
	Emit    *Emission            // nil: nothing is published
	Alerts  []alerts.SystemAlert // alerts to raise
}

// TickOutcome is the outcome of a tick.
type TickOutcome string

// The outcomes of ticks.
const (
	TickStarted TickOutcome = "started" // jobs
	TickEmitted TickOutcome = "emitted" // an event
	TickPaused  TickOutcome = "paused"  // nothing: the rule is paused or disabled
	TickSkipped TickOutcome = "skipped" // nothing: the tick was late, and catch_up skips it
	TickExpired TickOutcome = "expired" // jobs that ended at once: the tick was late, and catch_up expires it
	TickMissed  TickOutcome = "missed"  // nothing: a later tick was due already
	// Of ticks of stored schedules alone:
	TickPlanned  TickOutcome = "planned"  // its event is to be published
	TickFailed   TickOutcome = "failed"   // nothing: no webhook accepted its event, or its schedule cannot be read any more
	TickCanceled TickOutcome = "canceled" // nothing: its schedule or rule was changed, paused or deleted before
	TickUnknown  TickOutcome = "unknown"  // an event or nothing: the same, after an attempt without a recorded result
)

// AppliedTick records ticks that were applied: the last of them, and how many it stands for.
type AppliedTick struct {
	RuleID    int32
	At        time.Time // the nominal time
	AppliedAt time.Time // the database's time; set by the store
	Outcome   TickOutcome
	Missed    int    // number of ticks before it
	Attempts  int    // of the node that applied it, with those that failed
	EventID   string // of the emitted event; empty: none
}

// TickFilter narrows a list of applied ticks. Zero values have no effect.
type TickFilter struct {
	After   time.Time // nominal time, inclusive
	Before  time.Time // nominal time, exclusive
	Outcome TickOutcome
	Missed  bool          // only ticks that stand for missed ones
	LateBy  time.Duration // only ticks at least so late, in whole seconds
	Cursor  string        // the end of the last page; opaque
	Limit   int           // 1 to MaxLimit; 0: 50
}

// Emission is an event that a tick publishes.
type Emission struct {
	Rule    string
	Subject string
	ID      string // the same for every publisher and retry
	Data    json.RawMessage
	At      time.Time // the nominal time of the tick
	Missed  int
	// Of a stored schedule: its id, and whether an earlier attempt may have published the event.
	Schedule    string
	MayBeStored bool
}

// TickType is the CloudEvents type of a tick's event.
const TickType = "dev.deadman.tick.v1"

// Attributes returns the attributes of the event in the binary mode of CloudEvents, as headers of NATS and HTTP have them.
func (e Emission) Attributes(source string) map[string]string {
	all := map[string]string{
		"ce-specversion": "1.0",
		"ce-id":          e.ID,
		"ce-type":        TickType,
		"ce-source":      source,
		"ce-subject":     alerts.HeaderText(e.Rule),
		"ce-time":        e.At.UTC().Format(time.RFC3339),
		"ce-missed":      strconv.Itoa(e.Missed),
	}
	if e.Schedule != "" {
		all["ce-schedule"] = alerts.HeaderText(e.Schedule)
	}
	return all
}

// Size returns the bytes of the event, without the headers common to all such events.
func (e Emission) Size() int { return len(e.Subject) + len(e.Data) }

// StartExpired begins a job too late. It ends at once, as expired, unless its end was remembered. A pending job that
// is kept continues.
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

// TickStream returns the name of the cursor of a rule's ticks. Its sequence is the Unix second of the last applied
// tick. Names of broker streams contain no slash.
func TickStream(ruleID int32) string { return tickStreams + strconv.Itoa(int(ruleID)) }

const tickStreams = "schedule/"

// HoldTickFor is how long changes of a rule wait at most for an event that one of its ticks publishes.
const HoldTickFor = 3 * time.Second

// ErrPutOff means that ticks wait because the allowance of the rule's tenant is used up.
var ErrPutOff = errors.New("the rules of the tenant used up the allowance of their conditions on this node; make the conditions simpler")

// ErrHeld means that an event of the rule may still be in transit from an earlier attempt. It is temporary.
var ErrHeld = errors.New("an earlier event of the rule may still be in transit")
