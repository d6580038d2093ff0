package store

import (
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
)

// ruleChange is a change of a rule under way: no other transaction changes rules, and none rests on what it
// has fenced.
type ruleChange struct {
	tx       *sql.Tx
	now      time.Time
	revision int64 // that the change makes
	rule     currentRule
}

// currentRule is the rule that has a name, as it stands. Its id is 0 where there is none.
type currentRule struct {
	id       int32
	name     string
	entity   string
	version  int32 // the newest
	pausedAt time.Time
	pausedBy string
}

// errNoChange means that there is nothing to change.
var errNoChange = errors.New("the rule is so already")

// gateTTL is how long a change keeps others out while it waits for those that are in. It opens by itself when the one who closed it is gone.
const gateTTL = 5 * time.Second

// change runs f on the rule of a name, and grows the revision. A change that fences comes after the
// settles that rest on the rule as it is. What f refuses changes nothing; errAsItWas is no error.
//
//  1. New transactions that would rest on what is about to change are kept out, until the old ones are done.
//  2. The rule set is locked, then the streams, then the rule: in the order in which Apply locks them.
//  3. The revision is left on all that was changed.
func (s *Store) change(ctx context.Context, name string, fences bool, f func(c *ruleChange) error) error {
	shut, err := s.closeGate(ctx, name, fences)
	if err != nil {
		return err
	}
	err = s.untilOpen(ctx, func(tx *sql.Tx, now time.Time) error {
		c := ruleChange{tx: tx, now: now}
		if err := tx.QueryRowContext(ctx, grow+` RETURNING revision`).Scan(&c.revision); err != nil {
			return err
		}
		if c.rule, err = findRule(ctx, tx, name); err != nil {
			return err
		}
		if err := f(&c); err != nil {
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

// grow grows the revision. A change by a node of schema 16 grew revision alone: up to there it is unknown what
// changed.
const grow = `UPDATE rule_set SET whole = CASE WHEN noted = revision THEN whole ELSE revision END,
	revision = revision + 1, noted = revision + 1, gate_until = NULL WHERE id = 1`

// closeGate keeps new transactions from resting on what a change fences, while it waits for the old ones; they
// would follow each other without a gap. closed is false where there is no transaction to keep out.
func (s *Store) closeGate(ctx context.Context, name string, fences bool) (closed bool, err error) {
	if s.alone {
		return false, nil // there is one writer
	}
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		closed = false
		if fences {
			n, err := exec(ctx, tx, `UPDATE rule SET gate_until = $1 WHERE name = $2 AND deleted_at IS NULL`, now.Add(gateTTL), name)
			if err != nil {
				return err
			}
			closed = n > 0
		}
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

// openGate takes shut back after a change that came to nothing.
func (s *Store) openGate(ctx context.Context, name string) error {
	return s.tx(context.WithoutCancel(ctx), func(tx *sql.Tx, _ time.Time) error {
		if _, err := exec(ctx, tx, `UPDATE rule SET gate_until = NULL WHERE name = $1 AND deleted_at IS NULL`, name); err != nil {
			return err
		}
		_, err := exec(ctx, tx, `UPDATE rule_set SET gate_until = NULL WHERE id = 1`)
		return err
	})
}

// untilOpen is tx, again while intake holds changes off.
func (s *Store) untilOpen(ctx context.Context, f func(tx *sql.Tx, now time.Time) error) error {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	for try := 1; ; try++ {
		err := s.tx(ctx, f)
		if !errors.Is(err, errHeldOff) {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// errHeldOff means that intake applies a batch of the stream, which changes have interrupted before.
var errHeldOff = errors.New("changes of rules wait for a batch of events")

// holdOff is how long a batch of events holds changes off at the most.
const holdOff = 2 * time.Second

// fenceStreams has batches of streams wait for the change, and be evaluated anew. It waits for an event that a tick of
// the rule publishes, too.
func (c *ruleChange) fenceStreams(ctx context.Context, all ...[]rules.StreamBinding) error {
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

// readsSoFar is what the versions of the rule read.
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

// mark leaves the revision on the rule.
func (c *ruleChange) mark(ctx context.Context, fences bool) error {
	text := `UPDATE rule SET revision = $1 WHERE id = $2`
	if fences {
		text = `UPDATE rule SET revision = $1, fence = $1, gate_until = NULL WHERE id = $2`
	}
	_, err := exec(ctx, c.tx, text, c.revision, c.rule.id)
	return err
}

func findRule(ctx context.Context, tx *sql.Tx, name string) (currentRule, error) {
	r := currentRule{name: name}
	err := tx.QueryRowContext(ctx, `SELECT r.id, r.entity, r.paused_at, r.paused_by,
	(SELECT max(version) FROM rule_version WHERE rule_id = r.id)
FROM rule r WHERE r.name = $1 AND r.deleted_at IS NULL`, name).
		Scan(&r.id, &r.entity, at(&r.pausedAt), (*escapedText)(&r.pausedBy), &r.version)
	return r, ignoreErr(errors.Is(err, sql.ErrNoRows), err)
}

// at returns ErrConflict unless the rule is at the version that a change is made for.
func (r currentRule) at(version int32) error {
	switch {
	case version == rules.AnyVersion || version == r.version:
		return nil
	case version == 0:
		return fmt.Errorf("there is a rule %s already, at version %d: %w", r.name, r.version, rules.ErrConflict)
	case r.version == 0:
		return fmt.Errorf("rule %s is not there, and the change is for its version %d: %w", r.name, version, rules.ErrConflict)
	}
	return fmt.Errorf("rule %s is at version %d, and the change is for %d: %w", r.name, r.version, version, rules.ErrConflict)
}

// ruleOf returns the id of the rule, a new one if there is none. A name that was deleted comes
// back as another rule.
func (c *ruleChange) ruleOf(ctx context.Context, r rules.RuleVersion) (id int32, err error) {
	if c.rule.id == 0 {
		err = c.tx.QueryRowContext(ctx, `INSERT INTO rule (name, entity) VALUES ($1, $2) RETURNING id`, r.Name, r.Entity).Scan(&c.rule.id)
		return c.rule.id, err
	}
	if c.rule.entity != r.Entity {
		return 0, fmt.Errorf("rule %s waits for %s, not %s: %w", r.Name, c.rule.entity, r.Entity, rules.ErrEntityChanged)
	}
	return c.rule.id, nil
}

// insertVersion writes the next version and returns its number. It counts on from rules that
// had the name before, so that a name and a number are one document for ever.
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
SELECT coalesce(max(v.version), 0) + 1 FROM rule_version v JOIN rule r ON r.id = v.rule_id WHERE r.name = $1`, r.Name).Scan(&version)
	if err != nil {
		return 0, err
	}
	_, err = exec(ctx, c.tx, `
INSERT INTO rule_version (rule_id, version, document, reads, bundle, saved_at, saved_by, revision, bounds) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		r.RuleID, version, string(r.Document), string(reads), r.Bundle, r.SavedAt, escape(r.SavedBy), c.revision, bounds)
	return version, err
}

// audit says who did what to the rule.
func (c *ruleChange) audit(ctx context.Context, action access.Action, detail string) error {
	return audit(ctx, c.tx, c.now, action, "rule/"+c.rule.name, detail)
}

// clampReads are reads that begin where their streams were applied to by now, at the earliest:
// what was applied since they were asked about was not for the rule.
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

// openCursors starts the streams that were never read, at the earliest place a rule names.
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
