package store

import (
	"context"
	"sync/atomic"
	"time"
)

// correction puts the database's time right while its clock is wrong. It is safe for concurrent use.
type correction struct {
	by atomic.Pointer[func(said time.Time) time.Time] // nil: the database is right
}

// goBy sets what the database's time is corrected by.
func (c *correction) goBy(correct func(said time.Time) time.Time) { c.by.Store(&correct) }

// correct returns the time at which a transaction works that began at the database's time said.
func (c *correction) correct(said time.Time) time.Time {
	if by := c.by.Load(); by != nil {
		return (*by)(said)
	}
	return said
}

// GoBy has transactions work at the time that correct makes of the database's. A node sets its clock's, so that a
// step of the database's clock does not end leases, nor put jobs off.
func (s *Store) GoBy(correct func(said time.Time) time.Time) { s.goBy(correct) }

// Time is Now, corrected.
func (s *Store) Time(ctx context.Context) (time.Time, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return now, err
	}
	return s.correct(now), nil
}

// farAhead is how far after now an instant may be that a node wrote as its own now.
const farAhead = 10 * time.Second

// RoutineNotices is how far ahead a notification may be planned: by the longest group_wait, and more for a try.
const RoutineNotices = 2 * time.Hour

// future are the instants that hold something up for as long as they are after $1. Those that cannot be empty become
// $2, which is now.
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

// futureNotices are notifications that are planned for later than $2. They go out now.
const futureNotices = `UPDATE notice SET next_at = $1 WHERE ` + unfinished + ` AND next_at > $2`

// futureRules are versions of rules that were saved in the future: their schedules would not tick until then.
const futureRules = `UPDATE rule_version SET saved_at = $2 WHERE saved_at > $1`

// putRulesBack has versions of the future be saved now, and the nodes read the rules anew where there were any.
func (s *Store) putRulesBack(ctx context.Context, now time.Time) error {
	n, err := exec(ctx, s.db, futureRules, now.Add(farAhead), now)
	if err != nil || n == 0 {
		return err
	}
	_, err = exec(ctx, s.db, `UPDATE rule_set SET revision = revision + 1 WHERE id = 1`)
	return err
}

// PutBack takes back the instants after now that were written by a clock that was ahead, and would hold something up
// until then: marks of what was read, heard and swept, outages, the gates of the rules and streams, requests, and notifications
// that are planned for later than notices ahead. What is as it should be is not touched.
func (s *Store) PutBack(ctx context.Context, notices time.Duration) error {
	now, err := s.Time(ctx)
	if err != nil {
		return wrapErr("put back", err)
	}
	for _, f := range future {
		args := []any{now.Add(farAhead)}
		if f.now {
			args = append(args, now)
		}
		if _, err := exec(ctx, s.db, f.text, args...); err != nil {
			return wrapErr("put back", err)
		}
	}
	if err := s.putRulesBack(ctx, now); err != nil {
		return wrapErr("put back", err)
	}
	if _, err := exec(ctx, s.db, futureNotices, now, now.Add(notices)); err != nil {
		return wrapErr("put back", err)
	}
	return nil
}
