package futurejobs

import (
	"encoding/json"
	"errors"
	"time"

	"deadman/alerts"
)

// Schedule is a stored schedule of a rule with the trigger `schedule: "@stored"`. Each of its ticks emits the event of
// the rule.
type Schedule struct {
	RuleID    int32
	Rule      string          // the name of the rule; not stored
	ID        string          // unique in the rule, 1 to MaxScheduleID bytes
	Text      string          // a crontab, @every or @at
	Zone      string          // of the crontab; empty: UTC
	Data      json.RawMessage // the body of the events; nil: the rule's
	Enabled   bool
	Version   int64 // 1 for a new schedule; raised by each change
	CreatedAt time.Time
	UpdatedAt time.Time
	LastAt    time.Time // the nominal time of the last tick that was decided; zero: none
	NextAt    time.Time // the nominal time of the next tick; zero: none
	Shard     int16
}

// ScheduleRef names a stored schedule.
type ScheduleRef struct {
	RuleID int32
	ID     string
}

// Limits of stored schedules.
const (
	MaxScheduleID   = 256     // bytes
	MaxScheduleData = 8 << 10 // bytes
)

// ScheduleFilter narrows a list of stored schedules. Zero values have no effect.
type ScheduleFilter struct {
	RuleID int32
	Prefix string // of the id
	Cursor string // the end of the last page; opaque
	Limit  int    // 1 to MaxLimit; 0: 50
}

// ScheduleChanges is the result of a bulk change of schedules.
type ScheduleChanges struct {
	Created   int
	Updated   int
	Unchanged int // were as requested
	Deleted   int
	Unknown   int // were to be deleted and do not exist
}

// ErrScheduleHeld means that the event of a schedule may be in transit, so that it cannot be changed at the moment.
var ErrScheduleHeld = errors.New("the event of a tick may be in transit, so its schedule cannot be changed for up to 3 seconds; try again")

// ScheduleTick records a tick of a stored schedule.
type ScheduleTick struct {
	ScheduleRef
	At        time.Time // the nominal time
	DecidedAt time.Time // the database's time of the decision
	EmittedAt time.Time // the database's time after the stream stored the event; zero: it did not
	Outcome   TickOutcome
	Missed    int // number of ticks before it without an outcome of their own
	Attempts  int // to publish its event
}

// RuleShard names the stored schedules of a rule in a shard.
type RuleShard struct {
	RuleID int32
	Shard  int16
}

// DueRuleShard is a rule and shard with ticks to decide or to publish.
type DueRuleShard struct {
	RuleShard
	IsPlanned bool // planned ticks belong to no node
}

// TickFence is the condition of a transaction on ticks of stored schedules: the node holds their shards, and their rule is
// unchanged since a revision. Otherwise it fails with ErrNotHeld or ErrRulesChanged.
type TickFence struct {
	Held     []HeldShard
	RuleID   int32
	Revision int64
}

// StoredRule is a rule with stored schedules, at one revision of the rules. It is safe for concurrent use.
type StoredRule interface {
	Name() string
	RuleID() int32
	// Decide returns the outcome of the ticks of a schedule that are due by now.
	Decide(s Schedule, now time.Time) DecidedTick
	// Emission returns the event of a planned tick.
	Emission(t PlannedTick) (Emission, error)
	// Remark returns an alert about decided ticks that emit no event though the rule is active; false: none exists.
	Remark(decided []DecidedTick) (alerts.SystemAlert, bool)
}

// DecidedTick is the outcome of the due ticks of a schedule: the last of them counts, and the others are missed.
type DecidedTick struct {
	Schedule Schedule // as it was read
	At       time.Time
	Missed   int
	Outcome  TickOutcome
	Next     time.Time // the tick after At; zero: none
}

// PlannedTick is a tick whose event is to be published.
type PlannedTick struct {
	ScheduleTick
	Data json.RawMessage // of the schedule; nil: the rule's
}

// MayBeStored reports whether an earlier attempt, or a node before a restore of its database, may have published the event.
func (t PlannedTick) MayBeStored() bool { return t.Attempts > 1 || t.DecidedAt.Sub(t.At) > time.Minute }
