package store

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	futurejobs "deadman/future_jobs"
)

// Limits that distinguish and match steps of the clock.
const (
	sameStep    = 3 * time.Second // the largest difference between two nodes' measurements of one step
	stepsApart  = time.Minute     // the largest delay between two nodes that follow one step
	stepDrift   = 1000            // the divisor of the elapsed time for the tolerated drift of two clocks
	keptSteps   = 8
	newestStep  = `SELECT id, by_us, at, coalesce(undoes, 0) FROM clock_step ORDER BY id DESC LIMIT 1`
	insertStep  = `INSERT INTO clock_step (id, by_us, at, undoes) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`
	beginShifts = `
INSERT INTO clock_shift (step, shard, last_id)
SELECT $1, l.shard, coalesce((SELECT max(f.id) FROM future_job f WHERE f.shard = l.shard), 0) FROM shard_lease l`
)

// clockStep is a step of the clock that the nodes follow.
type clockStep struct {
	id     int32
	by     time.Duration
	at     time.Time
	undoes int32
}

// takenBackBy reports whether a step by the given duration undoes the last one. Unless the clock is known to be back at
// its earlier time, the two must be equal.
func (c clockStep) takenBackBy(by time.Duration, at time.Time, isBack bool) bool {
	slack := sameStep
	if isBack {
		slack += at.Sub(c.at.Add(-c.by)).Abs() / stepDrift
	}
	return c.id != 0 && c.undoes == 0 && (c.by+by).Abs() <= slack
}

// ClockStore records steps of the database's clock, and moves the times that a step made wrong.
type ClockStore struct {
	*database
	followed atomic.Int64 // the last step of the clock that the node knows of
}

// FollowStep records a step of the database's clock that the node is about to follow, and the jobs that it moves.
// isBack means that it undoes the last step that the node followed. A step that another node recorded is not recorded
// again.
//
// A forward step may be time that passed while the machine slept. It moves no job, unless it undoes a backward step.
func (s *ClockStore) FollowStep(ctx context.Context, by time.Duration, isBack bool) error {
	var followed int32
	err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		var now time.Time
		if err := tx.QueryRowContext(ctx, `SELECT now()`).Scan(at(&now)); err != nil {
			return err
		}
		var last clockStep
		err := tx.QueryRowContext(ctx, newestStep).Scan(&last.id, (*micros)(&last.by), at(&last.at), &last.undoes)
		if err := ignoreErr(errors.Is(err, sql.ErrNoRows), err); err != nil {
			return err
		}
		if age := now.Sub(last.at); int64(last.id) > s.followed.Load() && (last.by-by).Abs() <= sameStep && age > -sameStep && age < stepsApart {
			followed = last.id
			return nil
		}
		next := clockStep{id: last.id + 1, by: by, at: now}
		if last.takenBackBy(by, now, isBack) {
			next.undoes = last.id
		} else if by < 0 && isBack {
			next.undoes = next.id // it undoes a step without a record
		}
		followed = next.id
		return recordStep(ctx, tx, next)
	})
	if err != nil {
		return wrapErr("follow the clock", err)
	}
	s.followed.Store(int64(followed))
	return nil
}

// KnowSteps reads the steps of the database's clock that the nodes already follow. isNew means that this node did not
// know all of them.
func (s *ClockStore) KnowSteps(ctx context.Context) (isNew bool, err error) {
	var id int64
	if err := s.read.QueryRowContext(ctx, `SELECT coalesce(max(id), 0) FROM clock_step`).Scan(&id); err != nil {
		return false, wrapErr("clock", err)
	}
	return s.followed.Swap(id) != id, nil
}

func recordStep(ctx context.Context, tx *sql.Tx, c clockStep) error {
	var undoes any
	if c.undoes != 0 {
		undoes = c.undoes
	}
	n, err := exec(ctx, tx, insertStep, c.id, c.by.Microseconds(), c.at, undoes)
	if err != nil || n == 0 {
		return err // another node was first
	}
	if c.undoes != 0 { // jobs that the undone step did not move yet stay
		if _, err := exec(ctx, tx, `UPDATE clock_shift SET done_at = $1 WHERE step = $2 AND done_at IS NULL`, c.at, c.undoes); err != nil {
			return err
		}
	}
	for _, text := range []string{
		`DELETE FROM clock_shift WHERE step < $1 AND done_at IS NOT NULL`,
		`DELETE FROM clock_step WHERE id < $1 AND NOT EXISTS (SELECT 1 FROM clock_shift c WHERE c.step = clock_step.id)`,
	} {
		if _, err := exec(ctx, tx, text, c.id-keptSteps); err != nil {
			return err
		}
	}
	if c.by > 0 && c.undoes == 0 {
		return nil
	}
	_, err = exec(ctx, tx, beginShifts, c.id)
	return err
}

func readShift(row scanner, s *futurejobs.Shift) error {
	return row.Scan(&s.Step, (*micros)(&s.By), at(&s.At), &s.Undoes, &s.Shard, &s.LastID, &s.Before, &s.Jobs)
}

// Shifts implements futurejobs.Shifts.
func (s *ClockStore) Shifts(ctx context.Context) ([]futurejobs.Shift, error) {
	all, err := query(ctx, s.read, readShift, `
SELECT c.step, s.by_us, s.at, coalesce(s.undoes, 0), c.shard, c.last_id, coalesce(b.last_id, 0), c.jobs
FROM clock_shift c JOIN clock_step s ON s.id = c.step LEFT JOIN clock_shift b ON b.shard = c.shard AND b.step = s.undoes
WHERE c.done_at IS NULL AND c.step <= $1 ORDER BY c.step, c.shard`, s.followed.Load())
	if err != nil {
		return nil, wrapErr("shifts", err)
	}
	return all, nil
}

// Shifted returns the number of jobs that the last step moved.
func (s *ClockStore) Shifted(ctx context.Context) (jobs int64, err error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	err = s.read.QueryRowContext(ctx, `SELECT CAST(coalesce(sum(jobs), 0) AS bigint) FROM clock_shift WHERE step = (SELECT max(id) FROM clock_step)`).Scan(&jobs)
	if err != nil {
		return 0, wrapErr("shifts", err)
	}
	return jobs, nil
}

func readShiftable(row scanner, j *futurejobs.Shiftable) error {
	return row.Scan(&j.ID, &j.Rev, &j.RuleID, &j.Version, at(&j.Next), at(&j.CreatedAt), at(&j.Since), at(&j.PickedAt), (*origin)(&j.Origin), &j.Shifted)
}

// Shiftables implements futurejobs.Shifts.
func (s *ClockStore) Shiftables(ctx context.Context, after futurejobs.ShardCursor, limit int) ([]futurejobs.Shiftable, error) {
	page, err := query(ctx, s.read, readShiftable, `
SELECT f.id, f.rev, f.rule_id, f.version, f.next_check_at, f.created_at, f.since_at, f.picked_at, f.origin, coalesce(f.shifted, 0)
FROM future_job f WHERE f.shard = $1 AND (f.next_check_at, f.id) > ($2, $3)
ORDER BY f.shard, f.next_check_at, f.id LIMIT `+strconv.Itoa(limit), after.Shard, after.At, after.ID)
	if err != nil {
		return nil, wrapErr("shift", err)
	}
	return page, nil
}

const (
	// claimShifted locks a job that is unchanged since it was read.
	claimShifted = `UPDATE future_job SET rev = rev + 1, shifted = $1 WHERE shard = $2 AND id = $3 AND rev = $4`

	writeShifted = `
UPDATE future_job SET created_at = $1, since_at = $2, first_check_at = $3, next_check_at = $4, pauses = $5, paused_next_at = $6, state = $7, ordering = $8
WHERE shard = $9 AND id = $10`

	countShifted = `UPDATE clock_shift SET jobs = jobs + $1 WHERE step = $2 AND shard = $3`
)

// ShiftJobs implements futurejobs.Shifts. A job's columns may change without its Rev, so a job is read again after it
// is locked.
func (s *ClockStore) ShiftJobs(ctx context.Context, shift futurejobs.Shift, jobs []futurejobs.Shiftable, move func(*futurejobs.Job)) (n int, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		var claimed []string
		for _, j := range jobs {
			n, err := exec(ctx, tx, claimShifted, shift.Step, shift.Shard, j.ID, j.Rev)
			if err != nil {
				return err
			}
			if n > 0 {
				claimed = append(claimed, strconv.FormatInt(j.ID, 10))
			}
		}
		if n = len(claimed); n == 0 {
			return nil
		}
		if err := s.shiftClaimed(ctx, tx, shift.Shard, claimed, move); err != nil {
			return err
		}
		_, err := exec(ctx, tx, countShifted, n, shift.Step, shift.Shard)
		return err
	})
	if err != nil {
		return 0, wrapErr("shift", err)
	}
	return n, nil
}

func (s *ClockStore) shiftClaimed(ctx context.Context, tx *sql.Tx, shard int16, ids []string, move func(*futurejobs.Job)) error {
	jobs, err := query(ctx, tx, readJob, `SELECT `+jobColumns+` FROM future_job f WHERE f.shard = $1 AND f.id IN (`+strings.Join(ids, `,`)+`)`, shard)
	if err != nil {
		return err
	}
	for i := range jobs {
		j := &jobs[i]
		move(j)
		order, err := orderingOf(j.Order)
		if err != nil {
			return err
		}
		if _, err := exec(ctx, tx, writeShifted, j.CreatedAt, j.Since, j.FirstCheckAt, j.NextCheckAt, blob(pausesOf(j.Pauses)), when(j.PausedNext),
			body(j.State), order, j.Shard, j.ID); err != nil {
			return err
		}
	}
	return nil
}

// EndShift implements futurejobs.Shifts.
func (s *ClockStore) EndShift(ctx context.Context, shift futurejobs.Shift) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		_, err := exec(ctx, tx, `UPDATE clock_shift SET done_at = $1 WHERE step = $2 AND shard = $3 AND done_at IS NULL`, now, shift.Step, shift.Shard)
		return err
	})
	if err != nil {
		return wrapErr("shift", err)
	}
	return nil
}

// putRulesBack sets the save time of future versions to now, and makes the nodes read the rules again if it changed
// any.
func (s *ClockStore) putRulesBack(ctx context.Context, now time.Time) error {
	n, err := exec(ctx, s.db, futureRules, now.Add(farAhead), now)
	if err != nil || n == 0 {
		return err
	}
	_, err = exec(ctx, s.db, `UPDATE rule_set SET revision = revision + 1 WHERE id = 1`)
	return err
}

// PutBack resets instants after now that a fast clock wrote and that would block work until then: read, gap and sweep
// marks, outages, the gates of the rules and streams, requests, and notifications planned for later than notices ahead.
// It does not touch correct rows.
func (s *ClockStore) PutBack(ctx context.Context, notices time.Duration) error {
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
