package store

import (
	"sync/atomic"
	"time"
)

// correction corrects the database's time while its clock is wrong. It is safe for concurrent use.
type correction struct {
	by atomic.Pointer[func(reported time.Time) time.Time] // nil: no correction
}

// goBy sets the correction of the database's time.
func (c *correction) goBy(correct func(reported time.Time) time.Time) { c.by.Store(&correct) }

// correct returns the time of a transaction that began at the reported time of the database.
func (c *correction) correct(reported time.Time) time.Time {
	if by := c.by.Load(); by != nil {
		return (*by)(reported)
	}
	return reported
}

// farAhead is the tolerance for an instant that a node wrote as its own now.
const farAhead = 10 * time.Second

// RoutineNotices is the longest time ahead that a notification may be planned for: the longest group_wait, plus the
// time for a retry.
const RoutineNotices = 2 * time.Hour

// future clears instants that block work as long as they are after $1. Those that cannot be empty become $2, the
// current time.
var future = []struct {
	text string
	now  bool
}{
	{`UPDATE event_cursor SET read_through_at = NULL WHERE read_through_at > $1`, false},
	{`UPDATE event_cursor SET heard_since = $2 WHERE heard_since > $1`, true},
	{`UPDATE shard_lease SET low_water_at = NULL WHERE low_water_at > $1`, false},
	{`UPDATE shard_lease SET swept_at = NULL WHERE swept_at > $1`, false},
	{`UPDATE progress SET through_at = $2 WHERE through_at > $1`, true},
	{`UPDATE rule_set SET gate_until = NULL WHERE gate_until > $1`, false},
	{`UPDATE rule SET gate_until = NULL WHERE gate_until > $1`, false},
	{`UPDATE event_cursor SET gate_until = NULL WHERE gate_until > $1`, false},
	{`UPDATE outage SET seen_at = $2 WHERE closed_at IS NULL AND seen_at > $1`, true},
	{`UPDATE idempotency SET at = $2 WHERE at > $1`, true},
}

// futureNotices sends notifications now that are planned for later than $2.
const futureNotices = `UPDATE notice SET next_at = $1 WHERE ` + unfinished + ` AND next_at > $2`

// futureRules resets versions of rules that were saved in the future: their schedules would not tick until then.
const futureRules = `UPDATE rule_version SET saved_at = $2 WHERE saved_at > $1`
