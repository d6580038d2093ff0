// Package futurejobs implements pending jobs: the grid of their slots, the folding of events into jobs, the shards
// and leases that distribute jobs over nodes, and the sweeper that checks due jobs.
package futurejobs

import (
	"encoding/json"
	"hash/fnv"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// Ref identifies a job: a rule has at most one pending job for a key.
type Ref struct {
	Shard  int16
	RuleID int32
	Key    string
}

// Job is a pending future job: a rule waiting for one key of an entity. Times are UTC, to the microsecond. A job has
// no status field: its state follows from its times.
type Job struct {
	Ref
	ID        int64 // never reused
	Rev       int32 // increases with every change except to State and Members
	Version   int32 // of the rule
	CreatedAt time.Time
	Origin    alerts.Origin // of the event that created it; 0: no event did
	Since     time.Time     // when the job began

	FirstCheckAt       time.Time // a slot; never changes
	NextCheckAt        time.Time // a slot
	CheckCount         int       // decided checks
	UndeterminedChecks int       // undetermined checks in a row
	Step               int       // steps taken

	Event json.RawMessage // the trigger's body; nil: none
	State json.RawMessage // nil until the first update: then Event is the state

	Pauses     []checks.Pause // oldest first; the last may still be open
	PausedNext time.Time      // of a paused job: the time of its next check without the pause
	Members    Members        // of the sets that resolve it
	AckedUntil time.Time      // its steps are suppressed until then; zero: not acknowledged; checks.Forever: until the job ends

	SnoozedUntil time.Time // snoozed by a person: no check before then; zero or past: not snoozed

	Alerts []alerts.ID // raised by this job, oldest first

	Order *Order // what the job records of the order of events; nil: nothing. Checks do not read it

	// Trail has the new entries if the job is written, and all stored entries if it is listed by its key. It is not
	// read otherwise.
	Trail Trail

	Last CheckTimes
	CheckStats
}

// CheckTimes records the stages of a job's last check. A check has either CompletedAt or FailedAt; a zero time means
// that the check did not reach the stage.
type CheckTimes struct {
	PickedAt    time.Time
	StartedAt   time.Time
	CompletedAt time.Time
	FailedAt    time.Time // the check was undetermined
}

// EndedAt returns when the handler returned; zero: no check was made.
func (l CheckTimes) EndedAt() time.Time {
	if l.CompletedAt.IsZero() {
		return l.FailedAt
	}
	return l.CompletedAt
}

// Duration returns how long the handler took.
func (l CheckTimes) Duration() time.Duration {
	end := l.EndedAt()
	if end.IsZero() || l.StartedAt.IsZero() {
		return 0
	}
	return end.Sub(l.StartedAt)
}

// CheckStats sums up all checks of a job, decided or not.
type CheckStats struct {
	CheckAttempts int
	CheckTotal    time.Duration
	CheckSlowest  time.Duration
}

// add returns the stats with one more check.
func (c CheckStats) add(d time.Duration) CheckStats {
	return CheckStats{CheckAttempts: c.CheckAttempts + 1, CheckTotal: c.CheckTotal + d, CheckSlowest: max(c.CheckSlowest, d)}
}

// Of returns a copy of the job with another key.
func (j Job) Of(key string) Job {
	j.Key = key
	return j
}

// Known returns the state that conditions read: the trigger's body merged with the updates.
func (j Job) Known() json.RawMessage {
	if j.State != nil {
		return j.State
	}
	return j.Event
}

// Size returns the bytes of the job's large parts: its bodies, its sets and its Order.
func (j *Job) Size() int { return len(j.Event) + len(j.State) + len(j.Members) + j.Order.size() }

// Bodies returns the total Size of jobs.
func Bodies(jobs []Job) (n int) {
	for i := range jobs {
		n += jobs[i].Size()
	}
	return n
}

// FarFuture is the due time of a paused job. It is a slot of every grid.
var FarFuture = checks.Forever

// maxPauses bounds the pauses that a job stores separately; the oldest are merged.
const maxPauses = 100

// PausedAt returns when the job was paused; zero: it is not paused.
func (j Job) PausedAt() time.Time {
	if n := len(j.Pauses); n > 0 && j.Pauses[n-1].To.IsZero() {
		return j.Pauses[n-1].From
	}
	return time.Time{}
}

// pause suspends the next check.
func (j *Job) pause(at time.Time) {
	before := j.Pauses
	if len(before) >= maxPauses {
		// The second pause is appended to the first: only the sum matters.
		first := before[0]
		first.To = first.To.Add(before[1].To.Sub(before[1].From))
		before = append([]checks.Pause{first}, before[2:]...)
	}
	j.Pauses = append(before[:len(before):len(before)], checks.Pause{From: at})
	j.PausedNext, j.NextCheckAt = j.NextCheckAt, FarFuture
}

// resume ends the pause and returns when the suspended check is due. The caller rounds it to a slot.
func (j *Job) resume(at time.Time) time.Time {
	n := len(j.Pauses) - 1
	p := checks.Pause{From: j.Pauses[n].From, To: at}
	if at.Before(p.From) {
		p.To = p.From
	}
	j.Pauses = append(j.Pauses[:n:n], p)
	next := j.PausedNext.Add(p.To.Sub(p.From))
	j.PausedNext = time.Time{}
	return next
}

// due returns the time of the next check, ignoring a pause.
func (j Job) due() time.Time {
	if j.PausedAt().IsZero() {
		return j.NextCheckAt
	}
	return j.PausedNext
}

// reschedule sets the next check, also of a paused job.
func (j *Job) reschedule(next time.Time) {
	if j.PausedAt().IsZero() {
		j.NextCheckAt = next
	} else {
		j.PausedNext = next
	}
}

// advanceNextCheck moves the next check forward to a slot, or to the first slot after now, unless it is earlier
// already. A zero slot changes nothing.
func (j *Job) advanceNextCheck(r *Rule, slot, now time.Time) {
	if slot.IsZero() {
		return
	}
	if slot = r.notBeforeNextSlot(r.afterSnooze(*j, slot), now); slot.Before(j.due()) {
		j.reschedule(slot)
	}
}

// isDue reports whether the job's slot has come.
func (j Job) isDue(now time.Time) bool { return j.PausedAt().IsZero() && !j.NextCheckAt.After(now) }

// beganAt returns the job's place in the order of events: when the trigger was stored, or the job's Since if that is
// earlier.
func (j *Job) beganAt() time.Time {
	if j.Order != nil && !j.Order.At.IsZero() && j.Order.At.Before(j.Since) {
		return j.Order.At
	}
	return j.Since
}

// ShardOf returns the shard, out of n, of an entity's key.
func ShardOf(entity, key string, n int) int16 { return int16(SpreadIndex(entity, key, n)) } //nolint:gosec // n is a number of shards

// mix spreads a hash over all its bits: the low bits of FNV are weak.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// SpreadIndex returns an index from 0 to n-1 for a key of an owner, such as a rule or an entity. It is stable, and
// keys spread evenly over the indexes.
func SpreadIndex(owner, key string, n int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(owner)) // a hash.Hash never returns an error
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(key))
	return int(mix(h.Sum64()) % uint64(n))
}
