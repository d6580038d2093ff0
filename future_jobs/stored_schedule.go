package futurejobs

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
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
var ErrScheduleHeld = errors.New("the event of a tick may be in transit, so its schedule cannot be changed for some seconds; try again")

// ScheduleTick records a tick of a stored schedule.
type ScheduleTick struct {
	ScheduleRef
	At        time.Time // the nominal time
	DecidedAt time.Time // the database's time of the decision
	EmittedAt time.Time // the database's time after the stream stored the event; zero: it did not
	Outcome   TickOutcome
	Missed    int       // number of ticks before it without an outcome of their own
	Attempts  int       // to publish its event
	RetryAt   time.Time // of the next attempt, after a failed one; zero: none
	Reason    string    // of the last failure; empty: none
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
	Held      []HeldShard
	RuleID    int32
	Revision  int64
	HoldFor   time.Duration // how long planned ticks belong to the caller, and changes of their schedules wait
	IsInOrder bool          // a schedule with a planned tick is not due
}

// StoredRule is a rule with stored schedules, at one revision of the rules. It is safe for concurrent use.
type StoredRule interface {
	Name() string
	RuleID() int32
	// Webhook returns the receiver of the events over HTTP; nil: they go to a stream.
	Webhook() *Webhook
	// IsInOrder reports whether a tick waits until the event of the one before it was emitted.
	IsInOrder() bool
	// Decide returns the outcome of the ticks of a schedule that are due by now.
	Decide(s Schedule, now time.Time) DecidedTick
	// Emission returns the event of a planned tick.
	Emission(t PlannedTick) (Emission, error)
	// Remark returns an alert about decided ticks that emit no event though the rule is active; false: none exists.
	Remark(decided []DecidedTick) (alerts.SystemAlert, bool)
	// Undelivered returns an alert about ticks whose events were not accepted, with no further attempt.
	Undelivered(failed []PlannedTick) alerts.SystemAlert
}

// DecidedTick is the outcome of the due ticks of a schedule: the last of them counts, and the others are missed.
type DecidedTick struct {
	Schedule Schedule // as it was read
	At       time.Time
	Missed   int
	Outcome  TickOutcome
	Reason   string    // of a failed one
	Next     time.Time // the tick after At; zero: none
}

// PlannedTick is a tick whose event is to be published.
type PlannedTick struct {
	ScheduleTick
	Data json.RawMessage // of the schedule; nil: the rule's
}

// MayBeStored reports whether an earlier attempt, or a node before a restore of its database, may have published the event.
func (t PlannedTick) MayBeStored() bool { return t.Attempts > 1 || t.DecidedAt.Sub(t.At) > time.Minute }

// Webhook is the receiver of a rule's events over HTTP.
type Webhook struct {
	Channel  string
	Attempts int           // to post an event
	Interval time.Duration // before the second attempt; it doubles with each
}

// HoldPostFor is how long changes of a rule wait at most for an event that is posted.
const HoldPostFor = 6 * time.Second

// maxPostPause is the longest interval between two attempts, without jitter.
const maxPostPause = time.Hour

// Pause returns the time after a failed attempt until the next one, with jitter of up to half the interval; false: none
// follows.
func (w Webhook) Pause(attempt int) (time.Duration, bool) {
	if attempt >= w.Attempts {
		return 0, false
	}
	wait := w.wait(attempt)
	return wait + rand.N(wait/2+1), true
}

// wait returns the interval after an attempt, without jitter.
func (w Webhook) wait(attempt int) time.Duration {
	wait := w.Interval
	for range attempt - 1 {
		wait = min(2*wait, maxPostPause)
	}
	return min(wait, maxPostPause)
}

// Longest returns the longest time of all attempts to post an event.
func (w Webhook) Longest() time.Duration {
	longest := time.Duration(w.Attempts) * HoldPostFor
	for attempt := 1; attempt < w.Attempts; attempt++ {
		longest += w.wait(attempt) * 3 / 2
	}
	return longest
}
