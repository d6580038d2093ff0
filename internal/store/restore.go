package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

const markColumns = `round, seq, at, from_seq, to_seq, since_at, found_at, read_at, lost, report`

func readMark(row scanner, m *alerts.Mark) error {
	var r alerts.Restore
	var from, to, lost *int64
	var report *string
	if err := row.Scan(&m.Round, &m.Seq, at(&m.At), &from, &to, at(&r.Since), at(&r.FoundAt), at(&r.ReadAt), &lost, &report); err != nil {
		return err
	}
	if from == nil || to == nil || lost == nil || report == nil {
		return nil
	}
	r.From, r.To, r.Lost, r.Report = uint64(*from), uint64(*to), int(*lost), *report //nolint:gosec // not negative
	m.Restore = &r
	return nil
}

// RestoreStore compares the alert stream with a database that may have been restored.
type RestoreStore struct{ *database }

// Mark returns the position of the comparison of the alert stream with the database; the zero mark if none was made.
func (s *RestoreStore) Mark(ctx context.Context) (m alerts.Mark, err error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	err = readMark(s.db.QueryRowContext(ctx, `SELECT `+markColumns+` FROM alert_mark WHERE id = 1`), &m)
	if err := ignoreErr(errors.Is(err, sql.ErrNoRows), err); err != nil {
		return m, wrapErr("mark", err)
	}
	return m, nil
}

// MoveMark replaces the mark seen by the next one, with a sequence of the stream and the state of a restore. ok is
// false if another node was faster.
func (s *RestoreStore) MoveMark(ctx context.Context, seen alerts.Mark, seq uint64, restore *alerts.Restore) (to alerts.Mark, ok bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		to = alerts.Mark{Round: seen.Round + 1, Seq: seq, At: now, Restore: restore}
		args := []any{int64(to.Round), int64(seq), now, nil, nil, nil, nil, nil, nil, nil} //nolint:gosec // not that many
		if r := restore; r != nil {
			args = append(args[:3], int64(r.From), int64(r.To), r.Since, r.FoundAt, r.ReadAt, r.Lost, r.Report) //nolint:gosec // not that many
		}
		text := `INSERT INTO alert_mark (` + markColumns + `, id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1) ON CONFLICT DO NOTHING`
		if seen.Round > 0 {
			text = `UPDATE alert_mark SET round = $1, seq = $2, at = $3, from_seq = $4, to_seq = $5, since_at = $6, found_at = $7,
	read_at = $8, lost = $9, report = $10 WHERE id = 1 AND round = $11`
			args = append(args, int64(seen.Round)) //nolint:gosec // not that many
		}
		n, err := exec(ctx, tx, text, args...)
		ok = n == 1
		return err
	})
	if err != nil {
		return alerts.Mark{}, false, wrapErr("move mark", err)
	}
	return to, ok, nil
}

// RecordRestore records that the database was restored from a backup. A node reports it at its next start, and compares the
// alerts of the stream after those that the database knows up to r.To. r.Lost of them are unknown.
func (s *RestoreStore) RecordRestore(ctx context.Context, r alerts.Restore) error {
	mark, err := s.Mark(ctx)
	if err != nil {
		return err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	r.From, r.To, r.FoundAt, r.ReadAt = mark.Seq, max(r.To, mark.Seq), now, now
	to := r.To
	r = r.Including(mark.Restore) // of the backed-up node
	_, moved, err := s.MoveMark(ctx, mark, to, &r)
	if err == nil && !moved {
		err = wrapErr("record a restore", errors.New("a node works on the database"))
	}
	return err
}

// knownAtOnce is the number of ids that one statement looks up.
const knownAtOnce = 200

// Unknown returns the alerts that the database does not have. Their shards follow from their entities and keys.
func (s *RestoreStore) Unknown(ctx context.Context, all []alerts.Alert) ([]alerts.Alert, error) {
	shards := make(map[int16][]alerts.Alert)
	for _, a := range all {
		shard := futurejobs.ShardOf(a.Entity, a.Key, s.shards)
		shards[shard] = append(shards[shard], a)
	}
	var unknown []alerts.Alert
	for shard, of := range shards {
		for part := range slices.Chunk(of, knownAtOnce) {
			ids := make([]alerts.ID, len(part))
			for i, a := range part {
				ids[i] = a.ID
			}
			found, err := query(ctx, s.read, func(row scanner, id *alerts.ID) error { return row.Scan(id) },
				`SELECT id FROM alert WHERE shard = $1 AND id IN `+idParams(len(ids)), with(ids, shard)...)
			if err != nil {
				return nil, wrapErr("unknown alerts", err)
			}
			for _, a := range part {
				if !slices.Contains(found, a.ID) {
					unknown = append(unknown, a)
				}
			}
		}
	}
	return unknown, nil
}

// TakeBack gives an open alert of the stream that the database does not have back to the pending job of its rule and
// key, so that the job's end closes it. If no such job is pending, it writes the alert that closes it. stays means that the
// alert stays open and nothing is written: the database has no such rule, or its rule was first saved after the restored state.
// The events of such a rule are not read again, so that its job may be missing although the expected event did not happen.
func (s *RestoreStore) TakeBack(ctx context.Context, a alerts.Alert, r alerts.Restore) (closing *alerts.Alert, stays bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		closing = nil
		a := a
		a.Shard = futurejobs.ShardOf(a.Entity, a.Key, s.shards)
		savedAt, err := findLiveRule(ctx, tx, &a)
		if err != nil {
			return err
		}
		if fresh, err := insertAlert(ctx, tx, a); err != nil || !fresh {
			return err
		}
		if given, err := giveBack(ctx, tx, a); err != nil || given {
			return err
		}
		if savedAt.After(r.Since) {
			return errStays
		}
		c := r.Closed(a, now)
		raised, err := insertSystemAlert(ctx, tx, c)
		if raised {
			closing = &c
		}
		return err
	})
	switch {
	case errors.Is(err, errAgain):
		return s.TakeBack(ctx, a, r)
	case errors.Is(err, errStays):
		return nil, true, nil
	case err != nil:
		return nil, false, wrapErr("take back an alert", err)
	}
	return closing, false, nil
}

// errStays rolls a transaction back because an alert stays open.
var errStays = errors.New("the alert is of a rule that is newer than the restored database")

// findLiveRule finds the rule of an alert by its name, and returns when its first version was saved; zero: it is a system alert.
// The rule exists until the transaction ends: no alert of a rule is decided after its deletion. If it does not exist, the error is
// errStays.
func findLiveRule(ctx context.Context, tx *sql.Tx, a *alerts.Alert) (savedAt time.Time, err error) {
	if a.Rule == alerts.SystemRule {
		a.RuleID = alerts.SystemRuleID
		return savedAt, nil
	}
	n, err := exec(ctx, tx, `UPDATE rule SET deleted_at = NULL WHERE name = $1 AND entity = $2 AND deleted_at IS NULL`, escape(a.Rule), a.Entity)
	if err == nil && n == 0 {
		err = errStays
	}
	if err != nil {
		return savedAt, err
	}
	err = tx.QueryRowContext(ctx, `SELECT r.id, (SELECT min(v.saved_at) FROM rule_version v WHERE v.rule_id = r.id) FROM rule r WHERE r.name = $1 AND r.deleted_at IS NULL`,
		escape(a.Rule)).Scan(&a.RuleID, at(&savedAt))
	return savedAt, err
}

// giveBack adds an alert to its job, if the job was already pending at the time of the alert; false: no such job. A key
// has one job at a time.
func giveBack(ctx context.Context, tx *sql.Tx, a alerts.Alert) (bool, error) {
	var j futurejobs.Job
	err := tx.QueryRowContext(ctx, `SELECT id, rev, created_at, origin, alert_ids FROM future_job WHERE shard = $1 AND rule_id = $2 AND key = $3`,
		a.Shard, a.RuleID, escapedText(a.Key)).Scan(&j.ID, &j.Rev, at(&j.CreatedAt), (*origin)(&j.Origin), (*idList)(&j.Alerts))
	if err := ignoreErr(errors.Is(err, sql.ErrNoRows), err); err != nil || j.ID == 0 {
		return false, err
	}
	startedAt := j.CreatedAt
	if j.Origin != 0 {
		startedAt = j.Origin.At()
	}
	if startedAt.After(alerts.TimeOf(a.ID)) {
		return false, nil
	}
	all := append(j.Alerts, a.ID)
	slices.SortFunc(all, alertOrder)
	n, err := exec(ctx, tx, `UPDATE future_job SET alert_ids = $1, rev = rev + 1 WHERE shard = $2 AND id = $3 AND rev = $4`,
		packed(all), a.Shard, j.ID, j.Rev)
	if err == nil && n == 0 {
		err = errAgain
	}
	return err == nil, err
}
