package store

import (
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
)

const (
	createOne = `
INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event, state,
	pauses, paused_next_at, members, ordering, step, trail, origin)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
ON CONFLICT (shard, rule_id, key) DO NOTHING`

	// createPlain is createOne for a job without values in the omitted columns.
	createPlain = `
INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event, origin)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (shard, rule_id, key) DO NOTHING`

	lastCreated = `SELECT last_insert_rowid()`
)

var (
	changeOne = `
UPDATE future_job SET rev = rev + 1, next_check_at = $1, version = $2, pauses = $3, paused_next_at = $4, state = $5, members = $6,
	acked_until = $7, since_at = $8, event = $9, step = $10, check_count = $11, undecided = $12, snoozed_until = $13,
	trail = ` + trailWith("trail", "$14", findInSQLite) + `
WHERE id = $15`

	updateOne = `UPDATE future_job SET state = $1, members = $2, trail = ` + trailWith("trail", "$3", findInSQLite) + ` WHERE id = $4`
)

const (
	rememberOne = `
INSERT INTO early (shard, rule_id, key, at, until_at, outcome, members, ends, changes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (shard, rule_id, key) DO UPDATE
SET at = excluded.at, until_at = excluded.until_at, outcome = excluded.outcome, members = excluded.members, ends = excluded.ends,
	changes = excluded.changes`

	turnOneAway = `INSERT INTO early (shard, rule_id, key, at, until_at, turned_away) VALUES ($1, $2, $3, $4, $5, TRUE)` + turnedAway

	reorderOne = `UPDATE future_job SET ordering = $1 WHERE id = $2`

	forgetOne = `DELETE FROM early WHERE shard = $1 AND rule_id = $2 AND key = $3`
)

// netWriter writes the net effect of a batch in a transaction.
type netWriter struct{ decisionWriter }

// writeNet writes endings before creations, which may be for the same keys.
func (w netWriter) writeNet(net futurejobs.FoldResult, now time.Time) error {
	for _, d := range net.End {
		ok, err := w.writeDecision(d, now)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("job %d is not as it was read", d.Job.ID)
		}
	}
	for _, d := range net.StartedAndEnded {
		// A job that started and ended at once takes an id like any other.
		if err := w.create(&d.Job); err != nil {
			return err
		}
		if _, err := w.row([]any{&d.Job.ID}, lastCreated); err != nil {
			return err
		}
		if _, err := w.end(d, now); err != nil {
			return err
		}
	}
	for _, j := range net.Create {
		if err := w.create(j); err != nil {
			return err
		}
	}
	if err := w.changeAll(net); err != nil {
		return err
	}
	return w.rememberAll(net)
}

// changeAll writes the changes of pending jobs.
func (w netWriter) changeAll(net futurejobs.FoldResult) error {
	for _, j := range net.Change {
		if _, err := w.exec(changeOne, j.NextCheckAt, j.Version, blob(pausesOf(j.Pauses)), when(j.PausedNext),
			body(j.State), blob(j.Members), when(j.AckedUntil), j.Since, body(j.Event), j.Step, j.CheckCount, j.UndeterminedChecks, when(j.SnoozedUntil),
			optional(string(j.Trail)), j.ID); err != nil {
			return err
		}
	}
	for _, a := range net.Acks {
		for _, write := range ackWrites(a) {
			if _, err := w.exec(write.text, write.args...); err != nil {
				return err
			}
		}
	}
	for _, j := range net.Update {
		if _, err := w.exec(updateOne, body(j.State), blob(j.Members), optional(string(j.Trail)), j.ID); err != nil {
			return err
		}
	}
	for _, j := range net.Reorder {
		text, err := orderingOf(j.Order)
		if err != nil {
			return err
		}
		if _, err := w.exec(reorderOne, text, j.ID); err != nil {
			return err
		}
	}
	return nil
}

// rememberAll writes early events and deletes those that were used.
func (w netWriter) rememberAll(net futurejobs.FoldResult) error {
	for _, u := range turnedAwayOf(net.Unbegun) {
		if _, err := w.exec(turnOneAway, u.Shard, u.RuleID, escapedText(u.Key), u.At, u.Until); err != nil {
			return err
		}
	}
	for _, e := range net.Remember {
		ends, err := endsOf(e)
		if err != nil {
			return err
		}
		changes, err := changesOf(e)
		if err != nil {
			return err
		}
		if _, err := w.exec(rememberOne, e.Shard, e.RuleID, escapedText(e.Key), e.At, e.Until,
			optional(string(e.Outcome)), blob(e.Members), ends, changes); err != nil {
			return err
		}
	}
	for _, ref := range net.Forget {
		if _, err := w.exec(forgetOne, ref.Shard, ref.RuleID, escapedText(ref.Key)); err != nil {
			return err
		}
	}
	return nil
}

// create writes a new job, or returns errConcurrentCreate if one exists that was not read.
func (w netWriter) create(j *futurejobs.Job) error {
	statement, args := createPlain, []any{
		j.Shard, j.RuleID, j.Version, escape(j.Key),
		j.CreatedAt.UnixMicro(), j.Since.UnixMicro(), j.FirstCheckAt.UnixMicro(), j.NextCheckAt.UnixMicro(), body(j.Event),
	}
	if hasExtras(j) {
		order, err := orderingOf(j.Order)
		if err != nil {
			return err
		}
		statement, args = createOne, append(args, body(j.State), blob(pausesOf(j.Pauses)), when(j.PausedNext), blob(j.Members), order, j.Step, optional(string(j.Trail)))
	}
	args = append(args, origin(j.Origin))
	n, err := w.exec(statement, args...)
	if err == nil && n == 0 {
		err = errConcurrentCreate
	}
	return err
}
