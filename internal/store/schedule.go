package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// ScheduleStore keeps the stored schedules of rules.
type ScheduleStore struct{ *database }

const scheduleColumns = `s.rule_id, s.id, s.shard, s.text, s.zone, s.data, s.enabled, s.version, s.created_at, s.updated_at, s.last_at, s.next_at`

func readSchedule(row scanner, s *futurejobs.Schedule) error {
	var data sql.Null[string]
	err := row.Scan(&s.RuleID, &s.ID, &s.Shard, &s.Text, &s.Zone, &data, &s.Enabled, &s.Version, at(&s.CreatedAt), at(&s.UpdatedAt), at(&s.LastAt), at(&s.NextAt))
	if data.Valid {
		s.Data = json.RawMessage(data.V)
	}
	return err
}

// Schedules returns a page of the schedules of a rule, by id.
func (s *ScheduleStore) Schedules(ctx context.Context, f futurejobs.ScheduleFilter) (futurejobs.Page[futurejobs.Schedule], error) {
	size := futurejobs.Filter{Limit: f.Limit}
	w := filter{`SELECT ` + scheduleColumns + ` FROM schedule s WHERE s.rule_id = ?`, []any{f.RuleID}}
	if f.Prefix != "" { // a range of the primary key, and what the order of ids cuts off
		w.and(`s.id >= ?`, f.Prefix)
		w.and(beginning(`s.id`), utf8.RuneCountInString(f.Prefix), f.Prefix)
	}
	if f.Cursor != "" {
		var last position
		if err := last.read("schedules", f.Cursor); err != nil {
			return futurejobs.Page[futurejobs.Schedule]{}, err
		}
		w.and(`s.id > ?`, last.Key)
	}
	found, err := query(ctx, s.read, readSchedule, rebindPlaceholders(w.text+` ORDER BY s.id LIMIT ?`), append(w.args, limit(size)+1)...)
	if err != nil {
		return futurejobs.Page[futurejobs.Schedule]{}, wrapErr("schedules", err)
	}
	return paged("schedules", found, size, func(s futurejobs.Schedule) position { return position{Key: s.ID} }), nil
}

// Schedule returns a schedule, or futurejobs.ErrNotFound.
func (s *ScheduleStore) Schedule(ctx context.Context, ref futurejobs.ScheduleRef) (futurejobs.Schedule, error) {
	none := fmt.Errorf("schedule %s: %w", ref.ID, futurejobs.ErrNotFound)
	return first(ctx, s.read, readSchedule, none, "schedule", `SELECT `+scheduleColumns+` FROM schedule s WHERE s.rule_id = $1 AND s.id = $2`, ref.RuleID, ref.ID)
}

// PutSchedules creates, replaces and deletes schedules, all in one transaction, and audits that. Events of their planned
// ticks are not published after it: it waits for one that may be in transit, and returns ErrScheduleHeld if that takes too
// long. A schedule of a deleted rule is futurejobs.ErrNotFound. Beyond the quotas of the token's tenant it returns
// access.ErrQuota. A request with an idempotency key is carried out once: its repetition returns the first result.
func (s *ScheduleStore) PutSchedules(ctx context.Context, put []futurejobs.Schedule, gone []futurejobs.ScheduleRef) (done futurejobs.ScheduleChanges, err error) {
	changes := make(map[int32]*scheduleChange)
	of := func(rule int32) *scheduleChange {
		if changes[rule] == nil {
			changes[rule] = &scheduleChange{database: s.database, rule: rule, put: make(map[string]futurejobs.Schedule)}
		}
		return changes[rule]
	}
	for _, p := range put {
		of(p.RuleID).put[p.ID] = p
	}
	for _, g := range gone {
		c := of(g.RuleID)
		c.gone = append(c.gone, g.ID)
	}
	key := access.OnceOf(ctx)
	done, _, err = unlessRepeated(ctx, s.db, key, func() (done futurejobs.ScheduleChanges, err error) {
		err = untilOpen(ctx, s.database, func(tx *sql.Tx, now time.Time) (err error) {
			if done, err = changeSchedules(ctx, tx, now, changes); err != nil {
				return err
			}
			return keepOutcomeIn(ctx, tx, key, done)
		})
		return done, err
	})
	switch {
	case errors.Is(err, errHeldOff):
		return futurejobs.ScheduleChanges{}, futurejobs.ErrScheduleHeld
	case err != nil:
		return futurejobs.ScheduleChanges{}, wrapErr("change schedules", err)
	}
	return done, nil
}

// changeSchedules makes changes by rule, and counts the schedules.
func changeSchedules(ctx context.Context, tx *sql.Tx, now time.Time, changes map[int32]*scheduleChange) (done futurejobs.ScheduleChanges, err error) {
	var grown []ruleGrowth
	for _, rule := range slices.Sorted(maps.Keys(changes)) {
		c := *changes[rule]
		c.tx, c.now = tx, now
		if err := c.run(ctx, &done); err != nil {
			return done, err
		}
		grown = append(grown, c.grown)
	}
	return done, countSchedules(ctx, tx, now, grown)
}

// scheduleChange changes schedules of a rule.
type scheduleChange struct {
	*database
	rule int32
	put  map[string]futurejobs.Schedule
	gone []string

	tx    *sql.Tx
	now   time.Time
	write []futurejobs.Schedule // new and changed ones
	was   []futurejobs.Schedule // changed and deleted ones
	ended []futurejobs.Schedule // schedules that lose their next tick
	known []string              // ids to delete that exist
	fresh int                   // number of new ones in write
	grown ruleGrowth
}

// run changes the schedules of a rule.
//
//  1. The rule and its existing schedules are locked: no tick of theirs is decided.
//  2. Planned ticks of changed schedules end, unless their events may be in transit.
//  3. A due tick that is not decided yet is canceled if the change takes it away. One that is not before the first tick of the
//     new text belongs to that text: it comes due between the request and this transaction, and is emitted or counted as missed.
func (c *scheduleChange) run(ctx context.Context, done *futurejobs.ScheduleChanges) error {
	name, err := c.lockRule(ctx)
	if err != nil {
		return err
	}
	c.grown = ruleGrowth{rule: c.rule, name: name}
	existing, err := c.existing(ctx)
	if err != nil {
		return err
	}
	before := *done
	c.compare(existing, done)
	if len(c.write) == 0 && len(c.was) == 0 {
		return nil
	}
	if err := c.cancelPlanned(ctx); err != nil {
		return err
	}
	if err := c.cancelDue(ctx); err != nil {
		return err
	}
	if err := c.upsert(ctx, done); err != nil {
		return err
	}
	if err := c.delete(ctx); err != nil {
		return err
	}
	return audit(ctx, c.tx, c.now, access.ScheduleChange, "schedules/"+name, fmt.Sprintf("created %d, updated %d, deleted %d",
		done.Created-before.Created, done.Updated-before.Updated, done.Deleted-before.Deleted))
}

// lockRule returns the name of the rule. A change of the rule waits for the transaction.
func (c *scheduleChange) lockRule(ctx context.Context) (name string, err error) {
	err = c.tx.QueryRowContext(ctx, `SELECT name FROM rule WHERE id = $1 AND deleted_at IS NULL AND (gate_until IS NULL OR gate_until <= $2)`+c.forShare(), c.rule, c.now).Scan(&name)
	if !errors.Is(err, sql.ErrNoRows) {
		return name, err
	}
	var there bool
	if err := c.tx.QueryRowContext(ctx, `SELECT count(*) > 0 FROM rule WHERE id = $1 AND deleted_at IS NULL`, c.rule).Scan(&there); err != nil {
		return "", err
	}
	if !there {
		return "", futurejobs.ErrNotFound
	}
	return "", errHeldOff // the rule is about to change
}

// existing returns the existing schedules, and locks them.
func (c *scheduleChange) existing(ctx context.Context) (map[string]futurejobs.Schedule, error) {
	text, args, err := c.ids(slices.AppendSeq(slices.Clone(c.gone), maps.Keys(c.put)))
	if err != nil {
		return nil, err
	}
	rows, err := query(ctx, c.tx, readSchedule, rebindPlaceholders(`SELECT `+scheduleColumns+` FROM schedule s WHERE s.rule_id = ? AND s.id IN (SELECT d.schedule_id FROM `+text+`) ORDER BY s.id`+c.forUpdateOf("s")),
		append([]any{c.rule}, args...)...)
	if err != nil {
		return nil, err
	}
	existing := make(map[string]futurejobs.Schedule, len(rows))
	for _, r := range rows {
		existing[r.ID] = r
	}
	return existing, nil
}

// ids returns ids of schedules as the table d of a statement.
func (c *scheduleChange) ids(ids []string) (text string, args []any, err error) {
	rows := make([][]any, len(ids))
	for i, id := range ids {
		rows[i] = []any{id}
	}
	return rowTable(c.database, []rowField{{"schedule_id", texts}}, rows)
}

// compare finds the schedules to write, and counts the changes.
func (c *scheduleChange) compare(existing map[string]futurejobs.Schedule, done *futurejobs.ScheduleChanges) {
	for _, id := range slices.Sorted(maps.Keys(c.put)) {
		p := c.put[id]
		old, exists := existing[id]
		ticksAlike := exists && p.Text == old.Text && p.Zone == old.Zone && p.Enabled == old.Enabled
		switch {
		case !exists:
			done.Created++
			c.fresh++
		case ticksAlike && string(p.Data) == string(old.Data):
			done.Unchanged++
			continue
		default:
			if ticksAlike {
				p.NextAt = old.NextAt
			} else if p.NextAt.IsZero() || old.NextAt.Before(p.NextAt) {
				c.ended = append(c.ended, old)
			}
			c.was = append(c.was, old)
			done.Updated++
		}
		c.write = append(c.write, p)
	}
	for _, id := range c.gone {
		old, exists := existing[id]
		if !exists {
			done.Unknown++
			continue
		}
		c.known, c.was, c.ended = append(c.known, id), append(c.was, old), append(c.ended, old)
		done.Deleted++
	}
}

// cancelPlanned cancels the planned ticks of changed schedules. It returns errHeldOff if an event may be in transit.
func (c *scheduleChange) cancelPlanned(ctx context.Context) error {
	ids := make([]string, len(c.was))
	for i, w := range c.was {
		ids[i] = w.ID
	}
	text, args, err := c.ids(ids)
	if err != nil || len(ids) == 0 {
		return err
	}
	return cancelPlanned(ctx, c.tx, c.now, `rule_id = ? AND schedule_id IN (SELECT d.schedule_id FROM `+text+`)`, append([]any{c.rule}, args...)...)
}

// cancelPlanned ends the planned ticks of a condition, with ? for each argument. It returns errHeldOff if an event of one may
// be in transit. If the last attempt has no recorded result, it may have published the event.
func cancelPlanned(ctx context.Context, tx *sql.Tx, now time.Time, condition string, args ...any) error {
	end, find := endPlanned(condition)
	if _, err := exec(ctx, tx, end, append([]any{now}, args...)...); err != nil {
		return err
	}
	var held bool
	if err := tx.QueryRowContext(ctx, find, args...).Scan(&held); err != nil {
		return err
	}
	if held {
		return errHeldOff
	}
	return nil
}

// endPlanned returns the statement that ends planned ticks of a condition, and the one that finds those with an event in
// transit. Both read the index of planned ticks: a rule has few of them, and may have millions of others.
func endPlanned(condition string) (end, find string) {
	const planned = `outcome = 'planned' AND `
	condition = unindexed(condition)
	end = `UPDATE schedule_tick SET outcome = CASE WHEN retry_at IS NULL THEN 'unknown' ELSE 'canceled' END, held_until = NULL, retry_at = NULL
WHERE ` + planned + `(held_until IS NULL OR held_until <= ?) AND ` + condition
	return rebindPlaceholders(end), rebindPlaceholders(`SELECT count(*) > 0 FROM schedule_tick WHERE ` + planned + condition)
}

// cancelDue records due ticks that were not decided before their schedules ended or changed.
func (c *scheduleChange) cancelDue(ctx context.Context) error {
	var ticks []futurejobs.DecidedTick
	for _, s := range c.ended {
		if !s.NextAt.IsZero() && !s.NextAt.After(c.now) {
			ticks = append(ticks, futurejobs.DecidedTick{Schedule: s, At: s.NextAt, Outcome: futurejobs.TickCanceled})
		}
	}
	_, err := insertTicks(ctx, c.database, c.tx, c.now, c.now, ticks)
	return err
}

// upsert writes new and changed schedules. Those that another transaction created meanwhile are replaced, and counted so.
func (c *scheduleChange) upsert(ctx context.Context, done *futurejobs.ScheduleChanges) error {
	rows := make([][]any, len(c.write))
	for i, s := range c.write {
		var data any
		if s.Data != nil {
			data = string(s.Data)
		}
		enabled := int16(0)
		if s.Enabled {
			enabled = 1
		}
		rows[i] = []any{c.rule, s.ID, s.Shard, s.Text, s.Zone, data, enabled, c.now, s.NextAt}
	}
	text, args, err := rowTable(c.database, []rowField{
		{"rule_id", ints},
		{"id", texts},
		{"shard", smallints},
		{"text", texts},
		{"zone", texts},
		{"data", texts},
		{"enabled", smallints},
		{"changed_at", timestamptzs},
		{"next_at", timestamptzs},
	}, rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	versions, err := query(ctx, c.tx, func(row scanner, version *int64) error { return row.Scan(version) }, rebindPlaceholders(`INSERT INTO schedule (rule_id, id, shard, text, zone, data, enabled, version, created_at, updated_at, next_at)
SELECT d.rule_id, d.id, d.shard, d.text, d.zone, d.data, d.enabled <> 0, 1, d.changed_at, d.changed_at, d.next_at FROM `+text+` WHERE TRUE
ON CONFLICT (rule_id, id) DO UPDATE SET text = excluded.text, zone = excluded.zone, data = excluded.data, enabled = excluded.enabled,
	version = schedule.version + 1, updated_at = excluded.updated_at, next_at = excluded.next_at
RETURNING version`), args...)
	if err != nil {
		return err
	}
	replaced := c.fresh
	for _, version := range versions {
		if version == 1 {
			replaced--
			c.grown.n++
		}
	}
	done.Created, done.Updated = done.Created-replaced, done.Updated+replaced
	return nil
}

// delete deletes schedules.
func (c *scheduleChange) delete(ctx context.Context) error {
	text, args, err := c.ids(c.known)
	if err != nil || len(c.known) == 0 {
		return err
	}
	n, err := exec(ctx, c.tx, rebindPlaceholders(`DELETE FROM schedule WHERE rule_id = ? AND id IN (SELECT d.schedule_id FROM `+text+`)`), append([]any{c.rule}, args...)...)
	c.grown.n -= n
	return err
}
