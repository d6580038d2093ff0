package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
	ruledocs "deadman/rules/document"
)

// ruleChange is a change of a rule in progress: no other transaction changes rules, and none depends on the rows that
// it has fenced.
type ruleChange struct {
	tx        *sql.Tx
	now       time.Time
	revision  int64 // the revision of the change
	rule      currentRule
	endsTicks bool // the planned ticks of the rule's schedules are not published after the change
}

// currentRule is the current rule of a name. Its id is 0 if none exists.
type currentRule struct {
	id       int32
	name     string
	entity   string
	version  int32 // the newest
	pausedAt time.Time
	pausedBy string
}

// errNoChange means that the rule is already in the requested state.
var errNoChange = errors.New("the rule is already in this state")

// gateTTL is the time that a change keeps new transactions out while it waits for running ones. The gate opens by
// itself if the node that closed it is gone.
const gateTTL = 5 * time.Second

// ruleChanger changes rules while no transaction depends on them.
type ruleChanger struct{ *database }

// change runs f on the rule of a name and increments the revision. A fencing change runs after the settles that depend
// on the current rule. If f fails, no change is made; errNoChange is not an error.
//
//  1. New transactions that would depend on the rule are kept out until the running ones are done.
//  2. The rule set is locked, then the streams, then the rule: in the lock order of Apply.
//  3. The revision is written to all changed rows.
func (s *ruleChanger) change(ctx context.Context, name string, fences bool, f func(c *ruleChange) error) error {
	shut, err := s.closeGate(ctx, name, fences)
	if err != nil {
		return err
	}
	err = untilOpen(ctx, s.database, func(tx *sql.Tx, now time.Time) error {
		c := ruleChange{tx: tx, now: now}
		if err := tx.QueryRowContext(ctx, incrementRevision+` RETURNING revision`).Scan(&c.revision); err != nil {
			return err
		}
		if c.rule, err = findRule(ctx, tx, name); err != nil {
			return err
		}
		if err := f(&c); err != nil {
			return err
		}
		if err := c.settleTicks(ctx); err != nil {
			return err
		}
		return c.mark(ctx, fences)
	})
	switch {
	case errors.Is(err, errNoChange) && shut:
		return s.openGate(ctx, name)
	case errors.Is(err, errNoChange):
		return nil
	case err != nil && shut:
		return errors.Join(err, s.openGate(ctx, name))
	}
	return err
}

// incrementRevision increments the revision. A node of schema 16 increments revision alone: the changes up to there are unknown.
const incrementRevision = `UPDATE rule_set SET whole = CASE WHEN noted = revision THEN whole ELSE revision END,
	revision = revision + 1, noted = revision + 1, gate_until = NULL WHERE id = 1`

// closeGate keeps new transactions from depending on the rows that a change fences, while the change waits for running
// ones; otherwise they could follow one another without a gap. Ticks of stored schedules are kept out of each change. closed
// is false if no transaction can interfere.
func (s *ruleChanger) closeGate(ctx context.Context, name string, fences bool) (closed bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		closed = false
		condition := ` AND EXISTS (SELECT 1 FROM schedule WHERE schedule.rule_id = rule.id)`
		if fences && !s.alone { // SQLite has one writer
			condition = ``
		}
		n, err := exec(ctx, tx, `UPDATE rule SET gate_until = $1 WHERE name = $2 AND deleted_at IS NULL`+condition, now.Add(gateTTL), name)
		if err != nil {
			return err
		}
		closed = n > 0
		older, err := s.hasOlderNode(ctx, tx)
		if !older || err != nil {
			return err
		}
		closed = true
		_, err = exec(ctx, tx, `UPDATE rule_set SET gate_until = $1 WHERE id = 1`, now.Add(gateTTL))
		return err
	})
	return closed, err
}

// openGate reopens the gate after a failed change.
func (s *ruleChanger) openGate(ctx context.Context, name string) error {
	return s.tx(context.WithoutCancel(ctx), func(tx *sql.Tx, _ time.Time) error {
		if _, err := exec(ctx, tx, `UPDATE rule SET gate_until = NULL WHERE name = $1 AND deleted_at IS NULL`, name); err != nil {
			return err
		}
		_, err := exec(ctx, tx, `UPDATE rule_set SET gate_until = NULL WHERE id = 1`)
		return err
	})
}

// untilOpen is tx, with retries while ingest or an event in transit holds off changes.
func untilOpen(ctx context.Context, s *database, f func(tx *sql.Tx, now time.Time) error) error {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	for try := 1; ; try++ {
		err := s.tx(ctx, f)
		if !errors.Is(err, errHeldOff) {
			return err
		}
		if stopped := pause(ctx, try); stopped != nil {
			return errors.Join(err, stopped)
		}
	}
}

// errHeldOff means that ingest applies a batch of the stream that changes have interrupted before.
var errHeldOff = errors.New("changes of rules wait for a batch of events")

// holdOff bounds the time that a batch of events holds off changes.
const holdOff = 2 * time.Second

// invalidateBatches makes batches of streams wait for the change and be evaluated again. It also waits for an event that a
// tick of the rule publishes.
func (c *ruleChange) invalidateBatches(ctx context.Context, all ...[]rules.StreamBinding) error {
	streams := []string{futurejobs.TickStream(c.rule.id)}
	for _, reads := range all {
		for _, r := range reads {
			streams = append(streams, r.Stream)
		}
	}
	slices.Sort(streams)
	for _, stream := range slices.Compact(streams) {
		n, err := exec(ctx, c.tx, `UPDATE event_cursor SET revision = $1, gate_until = NULL WHERE stream = $2 AND (gate_until IS NULL OR gate_until <= $3)`,
			c.revision, stream, c.now)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		var there bool
		if err := c.tx.QueryRowContext(ctx, `SELECT count(*) > 0 FROM event_cursor WHERE stream = $1`, stream).Scan(&there); err != nil {
			return err
		}
		if there {
			return errHeldOff
		}
	}
	return nil
}

// readsSoFar returns the reads of all versions of the rule.
func (c *ruleChange) readsSoFar(ctx context.Context) ([]rules.StreamBinding, error) {
	all, err := query(ctx, c.tx, readVersionReads, `SELECT rule_id, version, reads FROM rule_version WHERE rule_id = $1`, c.rule.id)
	if err != nil {
		return nil, err
	}
	var reads []rules.StreamBinding
	for _, v := range all {
		reads = append(reads, v.reads...)
	}
	return reads, nil
}

// mark writes the revision to the rule.
func (c *ruleChange) mark(ctx context.Context, fences bool) error {
	text := `UPDATE rule SET revision = $1, gate_until = NULL WHERE id = $2`
	if fences {
		text = `UPDATE rule SET revision = $1, fence = $1, gate_until = NULL WHERE id = $2`
	}
	_, err := exec(ctx, c.tx, text, c.revision, c.rule.id)
	return err
}

// settleTicks cancels the planned ticks of a rule that are not to be published after the change. It waits for an event in
// transit.
func (c *ruleChange) settleTicks(ctx context.Context) error {
	if !c.endsTicks {
		return nil
	}
	return cancelPlanned(ctx, c.tx, c.now, `rule_id = ?`, c.rule.id)
}

// endsTicksOf reports whether planned ticks of the current version are not to be published by the next one.
func (c *ruleChange) endsTicksOf(ctx context.Context, next json.RawMessage) (bool, error) {
	var current string
	err := c.tx.QueryRowContext(ctx, `SELECT document FROM rule_version WHERE rule_id = $1 AND version = $2`, c.rule.id, c.rule.version).Scan(&current)
	if err != nil {
		return false, ignoreErr(errors.Is(err, sql.ErrNoRows), err)
	}
	var was, is struct {
		Trigger json.RawMessage `json:"trigger"`
		Enabled bool            `json:"enabled"`
	}
	isReadable := json.Unmarshal([]byte(current), &was) == nil && json.Unmarshal(next, &is) == nil // an unreadable version can be replaced
	return !isReadable || was.Enabled != is.Enabled || !bytes.Equal(was.Trigger, is.Trigger), nil
}

func findRule(ctx context.Context, tx *sql.Tx, name string) (currentRule, error) {
	r := currentRule{name: name}
	err := tx.QueryRowContext(ctx, `SELECT r.id, r.entity, r.paused_at, r.paused_by,
	(SELECT max(version) FROM rule_version WHERE rule_id = r.id)
FROM rule r WHERE r.name = $1 AND r.deleted_at IS NULL`, name).
		Scan(&r.id, &r.entity, at(&r.pausedAt), (*escapedText)(&r.pausedBy), &r.version)
	return r, ignoreErr(errors.Is(err, sql.ErrNoRows), err)
}

// at returns ErrConflict unless the rule is at the expected version.
func (r currentRule) at(version int32) error { return checkVersion("rule "+r.name, r.version, version) }

// checkVersion returns rules.ErrConflict unless what a change is made for is at the required version; 0: it does not exist.
func checkVersion(what string, version, required int32) error {
	switch {
	case required == rules.AnyVersion || required == version || required == rules.AnyExisting && version != 0:
		return nil
	case required == 0:
		return fmt.Errorf("%s already exists, at version %d: %w", what, version, rules.ErrConflict)
	case version == 0:
		return fmt.Errorf("%s does not exist, and the change requires a version of it: %w", what, rules.ErrConflict)
	}
	return fmt.Errorf("%s is at version %d, and the change requires version %d: %w", what, version, required, rules.ErrConflict)
}

// save writes r as the next version of the rule, if the rule is at the given version, and completes r.
func (c *ruleChange) save(ctx context.Context, r *rules.RuleVersion, version int32) error {
	if err := c.rule.at(version); err != nil {
		return err
	}
	if err := roomFor(ctx, c.tx, r.Name, c.rule.id == 0, len(r.Document)+len(r.Text)); err != nil {
		return err
	}
	before, err := c.readsSoFar(ctx)
	if err != nil {
		return err
	}
	if c.endsTicks, err = c.endsTicksOf(ctx, json.RawMessage(r.Document)); err != nil {
		return err
	}
	r.Reads = keepLines(before, r.Reads)
	if err := c.invalidateBatches(ctx, before, r.Reads); err != nil {
		return err
	}
	r.SavedAt, r.PausedAt, r.PausedBy, r.DeletedAt = c.now, c.rule.pausedAt, c.rule.pausedBy, time.Time{}
	if r.RuleID, err = c.ruleOf(ctx, *r); err != nil {
		return err
	}
	if r.Reads, err = clampReads(ctx, c.tx, r.Reads); err != nil {
		return err
	}
	if r.Version, err = c.insertVersion(ctx, *r); err != nil {
		return err
	}
	if err := c.openCursors(ctx, r.Reads); err != nil {
		return err
	}
	if err := c.keep(ctx, r.Keep); err != nil {
		return err
	}
	return c.audit(ctx, access.RuleSave, versionOf(r.Version, r.Bundle, access.ActorOf(ctx).Origin))
}

// ruleOf returns the id of the rule, and creates it if needed. The name of a deleted rule becomes another rule.
func (c *ruleChange) ruleOf(ctx context.Context, r rules.RuleVersion) (id int32, err error) {
	if c.rule.id == 0 {
		err = c.tx.QueryRowContext(ctx, `INSERT INTO rule (name, entity) VALUES ($1, $2) RETURNING id`, r.Name, r.Entity).Scan(&c.rule.id)
		return c.rule.id, err
	}
	if c.rule.entity != r.Entity {
		return 0, fmt.Errorf("the entity of rule %s is %s, not %s: %w", r.Name, c.rule.entity, r.Entity, rules.ErrEntityChanged)
	}
	return c.rule.id, nil
}

// insertVersion writes the next version and returns its number. Numbers continue those of earlier rules of the same
// name, so a name and a number identify one document forever.
func (c *ruleChange) insertVersion(ctx context.Context, r rules.RuleVersion) (version int32, err error) {
	reads, err := json.Marshal(r.Reads)
	if err != nil {
		return 0, err
	}
	bounds, err := boundsColumn(r.Bounds)
	if err != nil {
		return 0, err
	}
	err = c.tx.QueryRowContext(ctx, `
SELECT coalesce(max(coalesce(v.version, r.last_version)), 0) + 1 FROM rule r LEFT JOIN rule_version v ON v.rule_id = r.id WHERE r.name = $1`, r.Name).Scan(&version)
	if err != nil {
		return 0, err
	}
	_, err = exec(ctx, c.tx, `
INSERT INTO rule_version (rule_id, version, document, reads, bundle, saved_at, saved_by, revision, bounds, author_text, sets) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		r.RuleID, version, string(r.Document), string(reads), r.Bundle, r.SavedAt, escape(r.SavedBy), c.revision, bounds, optional(r.Text), r.Sets)
	if err == nil {
		_, err = exec(ctx, c.tx, `UPDATE rule_version SET author_text = NULL WHERE rule_id = $1 AND version <= $2 AND author_text IS NOT NULL`,
			r.RuleID, version-keptTexts)
	}
	return version, err
}

// keep writes how long the rule keeps history and alerts, also once the rule is deleted.
func (c *ruleChange) keep(ctx context.Context, keep *ruledocs.Retention) error {
	var text *string
	if keep != nil {
		b, err := json.Marshal(keep)
		if err != nil {
			return err
		}
		text = new(string(b))
	}
	_, err := exec(ctx, c.tx, `UPDATE rule SET keep = $1 WHERE id = $2`, text, c.rule.id)
	return err
}

// keptTexts is the number of newest versions of a rule that keep the text of their author. Others have the YAML of their
// documents.
const keptTexts = 10

// audit records an action on the rule in the audit log.
func (c *ruleChange) audit(ctx context.Context, action access.Action, detail string) error {
	return audit(ctx, c.tx, c.now, action, "rule/"+c.rule.name, detail)
}

// clampReads moves the starts of reads to the current cursors of their streams at least: events that were applied
// meanwhile were not for the rule.
func clampReads(ctx context.Context, tx *sql.Tx, reads []rules.StreamBinding) ([]rules.StreamBinding, error) {
	reads = slices.Clone(reads)
	for i, r := range reads {
		var seq int64
		var last time.Time
		err := tx.QueryRowContext(ctx, `SELECT last_seq, last_at FROM event_cursor WHERE stream = $1`, r.Stream).Scan(&seq, at(&last))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if uint64(seq) > r.From && !last.Before(r.At) {
			reads[i].From, reads[i].At = uint64(seq), last
		}
	}
	return reads, nil
}

// openCursors creates the cursors of streams that were never read, at the first position that a rule reads.
func (c *ruleChange) openCursors(ctx context.Context, reads []rules.StreamBinding) error {
	from := make(map[string]uint64, len(reads))
	for _, r := range reads {
		if seq, ok := from[r.Stream]; !ok || r.From < seq {
			from[r.Stream] = r.From
		}
	}
	for stream, seq := range from {
		if _, err := exec(ctx, c.tx, `INSERT INTO event_cursor (stream, last_seq, revision) VALUES ($1, $2, $3)
ON CONFLICT (stream) DO UPDATE SET revision = excluded.revision`, stream, int64(seq), c.revision); err != nil {
			return err
		}
	}
	return nil
}

// pause writes the start and the actor of a pause. A zero time resumes the rule.
func (c *ruleChange) pause(ctx context.Context, action access.Action, since time.Time, by, why string) error {
	c.endsTicks = !since.IsZero()
	before, err := c.readsSoFar(ctx)
	if err != nil {
		return err
	}
	if err := c.invalidateBatches(ctx, before); err != nil {
		return err
	}
	if _, err := exec(ctx, c.tx, `UPDATE rule SET paused_at = $1, paused_by = $2 WHERE id = $3`,
		when(since), escape(by), c.rule.id); err != nil {
		return err
	}
	return c.audit(ctx, action, why)
}
