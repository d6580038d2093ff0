// Package futurejobs holds the future job, the grid it is due on, the shards and leases
// that say who looks, and the sweeper that does.
package futurejobs

import (
	"encoding/json"
	"hash/fnv"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// Ref names a job: there is at most one for a rule and a key.
type Ref struct {
	Shard  int16
	RuleID int32
	Key    string
}

// Job is the pending promise to look at one entity for one rule. Instants are UTC, to the
// microsecond. There is no status: what a job is doing follows from its times.
type Job struct {
	Ref
	ID        int64 // never reused
	Rev       int32 // grows with every change but one of State and Members
	Version   int32 // of the rule that made it
	CreatedAt time.Time
	Origin    alerts.Origin // of the event that created it; 0: none did
	Since     time.Time     // when the wait began

	FirstCheckAt time.Time // never changes; a slot
	NextCheckAt  time.Time // a slot
	CheckCount   int       // decided checks
	Undecided    int       // checks in a row that could not find out
	Step         int       // steps taken

	Event json.RawMessage // the trigger's body; nil when there was none
	State json.RawMessage // nil while no update came: then it is Event

	Pauses     []checks.Pause // when time stood still, oldest first; the last may go on
	PausedNext time.Time      // of a paused job: when it would have been due
	Members    Members        // of the sets that resolve it
	AckedUntil time.Time      // until when its steps stay unsaid; zero: it is not acknowledged; checks.Forever: for good

	SnoozedUntil time.Time // before when it is not looked at, because somebody said so; zero, or past: as it comes

	Alerts []alerts.ID // what was said about this job, oldest first

	Order *Order // what it remembers of the order of events; nil: nothing. No look reads it

	// Trail has what is new where the job is written, and all that is kept where it is listed by its
	// key. It is read nowhere else.
	Trail Trail

	Last CheckTimes
	CheckStats
}

// CheckTimes is when the last check of a job went through which stage. A check has one of
// CompletedAt and FailedAt; a zero time means that it did not come to that.
type CheckTimes struct {
	PickedAt    time.Time
	StartedAt   time.Time
	CompletedAt time.Time
	FailedAt    time.Time // it could not find out
}

// EndedAt is when the handler returned; zero: no check was made.
func (l CheckTimes) EndedAt() time.Time {
	if l.CompletedAt.IsZero() {
		return l.FailedAt
	}
	return l.CompletedAt
}

// Duration is how long the handler took.
func (l CheckTimes) Duration() time.Duration {
	end := l.EndedAt()
	if end.IsZero() || l.StartedAt.IsZero() {
		return 0
	}
	return end.Sub(l.StartedAt)
}

// CheckStats is what all checks of a job took, decided or not.
type CheckStats struct {
	Checks       int
	CheckTotal   time.Duration
	CheckSlowest time.Duration
}

// add counts one more check.
func (c CheckStats) add(d time.Duration) CheckStats {
	return CheckStats{Checks: c.Checks + 1, CheckTotal: c.CheckTotal + d, CheckSlowest: max(c.CheckSlowest, d)}
}

// Of is the job with another key.
func (j Job) Of(key string) Job {
	j.Key = key
	return j
}

// Known is the state that a condition sees: the trigger's body with the updates over it.
func (j Job) Known() json.RawMessage {
	if j.State != nil {
		return j.State
	}
	return j.Event
}

// Size is how many bytes the job has of what may be large: its bodies, its sets, and what it remembers of the order of
// events.
func (j *Job) Size() int { return len(j.Event) + len(j.State) + len(j.Members) + j.Order.size() }

// Bodies is the size of jobs together, in bytes.
func Bodies(jobs []Job) (n int) {
	for i := range jobs {
		n += jobs[i].Size()
	}
	return n
}

// Decision is what was made of one job: it goes on with new times, or it ends for a reason.
type Decision struct {
	Job     Job            // as it is to be; Shard, ID and Rev as it was read
	Outcome checks.Outcome // empty: the job goes on
	Reason  string         // what a person should know beside the outcome
	Alerts  []alerts.Alert
	Outage  string // what could not be asked, where that is why the attempts are spent
	Again   bool   // they were spent before
}

// Ends reports whether the job goes to history.
func (d Decision) Ends() bool { return d.Outcome != "" }

// ShardOf returns the shard, out of n, of an entity's key.
func ShardOf(entity, key string, n int) int16 { return int16(SpreadIndex(entity, key, n)) } //nolint:gosec // n is a number of shards

// mix spreads a hash over all its bits: FNV's low ones are weak.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// SpreadIndex is which of n turns a key has among those of an owner, such as a rule or an entity, from 0:
// always the same one, and all are taken alike.
func SpreadIndex(owner, key string, n int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(owner)) // a hash.Hash never returns an error
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(key))
	return int(mix(h.Sum64()) % uint64(n))
}
