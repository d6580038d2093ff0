package store

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
)

// sqliteSettlement writes the decisions on due jobs.
type sqliteSettlement struct{ *sqliteFile }

// Settle implements futurejobs.Queue.
func (e *sqliteSettlement) Settle(ctx context.Context, s futurejobs.Settlement) (futurejobs.Settled, error) {
	settled := futurejobs.Settled{Jobs: make(map[int64]bool, len(s.Decisions))}
	if len(s.Decisions) == 0 {
		return settled, nil
	}
	if err := e.write(ctx, func(w *writer, now time.Time) error {
		return decisionWriter{w}.settle(s, now, &settled)
	}); err != nil {
		return futurejobs.Settled{}, wrapErr("settle", undone(err))
	}
	return settled, nil
}

// decisionWriter writes decisions in a transaction.
type decisionWriter struct{ *writer }

func (w decisionWriter) settle(s futurejobs.Settlement, now time.Time, settled *futurejobs.Settled) error {
	decisions := inOrder(s.Decisions)
	changed, err := w.changedRules(rulesOf(decisions), ruleFenceCTE, s.RuleSet)
	if err != nil {
		return err
	}
	settled.ChangedRules = changed
	if decisions = without(decisions, changed); len(decisions) == 0 {
		return futurejobs.ErrRulesChanged
	}
	shards, err := w.stillHeld(s.Held, now)
	if err != nil {
		return err
	}
	settled.Lost = lost(s.Held, shards)
	held := make(map[int16]bool, len(shards))
	for _, shard := range shards {
		held[shard] = true
	}
	for _, d := range decisions {
		if !held[d.Job.Shard] {
			continue
		}
		ok, err := w.writeDecision(*d, now)
		if err != nil {
			return err
		}
		if ok {
			settled.Jobs[d.Job.ID] = true
			settled.Alerts += len(d.Alerts)
		}
	}
	return nil
}

// stillHeld returns the shards that are still held.
func (w decisionWriter) stillHeld(held []futurejobs.HeldShard, now time.Time) ([]int16, error) {
	var shards []int16
	for _, h := range held {
		var one int
		ok, err := w.row([]any{&one}, leaseHeld, h.Shard, h.Epoch, now)
		if err != nil {
			return nil, err
		}
		if ok {
			shards = append(shards, h.Shard)
		}
	}
	return shards, nil
}

// writeDecision writes one decision with its alerts; ok is false if the job has changed.
func (w decisionWriter) writeDecision(d futurejobs.Decision, now time.Time) (ok bool, err error) {
	write := w.move
	if d.Ends() {
		write = w.end
	}
	if ok, err = write(d, now); !ok || err != nil {
		return false, err
	}
	return true, w.insertAlerts(d)
}

var (
	archiveOne = `
INSERT INTO history (shard, key, rule_id, id, version, outcome, reason, ended_at, created_at, since_at,
	first_check_at, next_check_at, check_count, step, picked_at, started_at, completed_at, failed_at,
	checks, check_total, check_slowest, alert_ids, trail)
SELECT shard, key, rule_id, id, version, $1, $2, $3, created_at, since_at,
	first_check_at, coalesce(paused_next_at, next_check_at), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
	` + trailWith("trail", "$14", findInSQLite) + `
FROM future_job WHERE id = $15 AND shard = $16 AND rev = $17`

	moveOne = `
UPDATE future_job SET rev = rev + 1, next_check_at = $1, undecided = $2, check_count = $3, step = $4,
	picked_at = $5, started_at = $6, completed_at = $7, failed_at = $8,
	checks = $9, check_total = $10, check_slowest = $11, alert_ids = $12, trail = ` + trailWith("trail", "$13", findInSQLite) + `
WHERE id = $14 AND shard = $15 AND rev = $16`
)

const (
	deleteOne = `DELETE FROM future_job WHERE id = $1`
	raiseOne  = `INSERT INTO alert (shard, id, rule_id, version, status, severity, key, decided_at, since_at, check_count, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`
	announceOne   = `INSERT INTO alert_news (shard, id) SELECT $1, $2 WHERE ` + notifying
	ruleFenceCTE  = `SELECT 1 FROM rule WHERE id = $1 AND fence <= $2`
	ruleUnchanged = `SELECT 1 FROM rule WHERE id = $1 AND revision <= $2`
	readChanged   = `SELECT 1 FROM event_cursor WHERE stream = $1 AND revision > $2`
	leaseHeld     = `SELECT 1 FROM shard_lease WHERE shard = $1 AND epoch = $2 AND expires_at > $3`
)

// hotWrites are prepared once, not for each transaction.
var hotWrites = []string{
	ruleFenceCTE, ruleUnchanged, readChanged, leaseHeld, archiveOne, deleteOne, moveOne, raiseOne, postOne, announceOne, findRow, cutRow, dropRow,
	findOne, anyEarly, recallOne, createOne, createPlain, lastCreated, changeOne, updateOne, rememberOne, forgetOne, turnOneAway, advance,
}

func (w decisionWriter) end(d futurejobs.Decision, now time.Time) (bool, error) {
	args := append([]any{string(d.Outcome), optional(d.Reason), now}, progress(d.Job)...)
	n, err := w.exec(archiveOne, append(args, d.Job.ID, d.Job.Shard, d.Job.Rev)...)
	if n == 0 || err != nil {
		return false, err
	}
	_, err = w.exec(deleteOne, d.Job.ID)
	return true, err
}

func (w decisionWriter) move(d futurejobs.Decision, _ time.Time) (bool, error) {
	args := append([]any{d.Job.NextCheckAt, d.Job.UndeterminedChecks}, progress(d.Job)...)
	n, err := w.exec(moveOne, append(args, d.Job.ID, d.Job.Shard, d.Job.Rev)...)
	return n == 1, err
}

// progress returns the job columns that a check changes.
func progress(j futurejobs.Job) []any {
	return []any{
		j.CheckCount, j.Step,
		when(j.Last.PickedAt), when(j.Last.StartedAt), when(j.Last.CompletedAt), when(j.Last.FailedAt),
		j.CheckAttempts, j.CheckTotal.Microseconds(), j.CheckSlowest.Microseconds(), blob(packed(j.Alerts)), optional(string(j.Trail)),
	}
}

// insertAlerts writes the alerts of a decision. They are in the outbox at the end of the transaction. An alert that exists
// already is left as it is.
func (w decisionWriter) insertAlerts(d futurejobs.Decision) error {
	for i := range d.Alerts {
		a := &d.Alerts[i]
		text, err := detail(a, nil)
		if err != nil {
			return err
		}
		n, err := w.exec(raiseOne, d.Job.Shard, a.ID[:], d.Job.RuleID, d.Job.Version, a.Status.Number(), a.Severity.Number(),
			escapedText(d.Job.Key), a.DecidedAt, a.Since, a.CheckCount, string(text))
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		if _, err := w.exec(announceOne, d.Job.Shard, a.ID[:]); err != nil {
			return err
		}
		w.raised[d.Job.Shard] = append(w.raised[d.Job.Shard], a.ID)
	}
	return nil
}
