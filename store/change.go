package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadman/rules"
)

// change is a change of the rule set under way: nobody else changes it, and nobody rests on
// it as it was.
type change struct {
	tx   *sql.Tx
	now  time.Time
	rule ruleNow
}

// ruleNow is the rule that has a name, as it stands. Its id is 0 where there is none.
type ruleNow struct {
	id       int32
	name     string
	entity   string
	version  int32 // the newest
	pausedAt time.Time
	pausedBy string
}

// errAsItWas means that there is nothing to change.
var errAsItWas = errors.New("the rule is so already")

// gate is how long a change of the rules keeps others out while it waits for those that
// are in. It opens by itself when the one who closed it is gone.
const gate = 5 * time.Second

// change runs f on the rule of a name, after the transactions that rest on the rules as they
// are, and grows the revision. What f refuses changes nothing; errAsItWas is no error.
func (s *Store) change(ctx context.Context, name string, f func(c change) error) error {
	if err := s.shut(ctx); err != nil {
		return err
	}
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		if _, err := exec(ctx, tx, `UPDATE rule_set SET revision = revision + 1, gate_until = NULL WHERE id = 1`); err != nil {
			return err
		}
		rule, err := findRule(ctx, tx, name)
		if err != nil {
			return err
		}
		return f(change{tx, now, rule})
	})
	switch {
	case errors.Is(err, errAsItWas):
		return s.unshut(ctx)
	case err != nil:
		return errors.Join(err, s.unshut(ctx))
	}
	return nil
}

// shut keeps new transactions from resting on the rules while a change waits for the old
// ones; they would follow each other without a gap.
func (s *Store) shut(ctx context.Context) error {
	return s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		_, err := exec(ctx, tx, `UPDATE rule_set SET gate_until = $1 WHERE id = 1`, now.Add(gate))
		return err
	})
}

// unshut takes shut back after a change that came to nothing.
func (s *Store) unshut(ctx context.Context) error {
	_, err := exec(context.WithoutCancel(ctx), s.db, `UPDATE rule_set SET gate_until = NULL WHERE id = 1`)
	return err
}

func findRule(ctx context.Context, tx *sql.Tx, name string) (ruleNow, error) {
	r := ruleNow{name: name}
	err := tx.QueryRowContext(ctx, `SELECT r.id, r.entity, r.paused_at, r.paused_by,
	(SELECT max(version) FROM rule_version WHERE rule_id = r.id)
FROM rule r WHERE r.name = $1 AND r.deleted_at IS NULL`, name).
		Scan(&r.id, &r.entity, at(&r.pausedAt), (*verbatim)(&r.pausedBy), &r.version)
	return r, unless(errors.Is(err, sql.ErrNoRows), err)
}

// at returns ErrConflict unless the rule is at the version that a change is made for.
func (r ruleNow) at(version int32) error {
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
func (c change) ruleOf(ctx context.Context, r rules.Saved) (id int32, err error) {
	if c.rule.id == 0 {
		err = c.tx.QueryRowContext(ctx, `INSERT INTO rule (name, entity) VALUES ($1, $2) RETURNING id`, r.Name, r.Entity).Scan(&id)
		return id, err
	}
	if c.rule.entity != r.Entity {
		return 0, fmt.Errorf("rule %s waits for %s, not %s: %w", r.Name, c.rule.entity, r.Entity, rules.ErrEntityChanged)
	}
	return c.rule.id, nil
}

// insertVersion writes the next version and returns its number. It counts on from rules that
// had the name before, so that a name and a number are one document for ever.
func (c change) insertVersion(ctx context.Context, r rules.Saved) (version int32, err error) {
	reads, err := json.Marshal(r.Reads)
	if err != nil {
		return 0, err
	}
	err = c.tx.QueryRowContext(ctx, `
SELECT coalesce(max(v.version), 0) + 1 FROM rule_version v JOIN rule r ON r.id = v.rule_id WHERE r.name = $1`, r.Name).Scan(&version)
	if err != nil {
		return 0, err
	}
	_, err = exec(ctx, c.tx, `
INSERT INTO rule_version (rule_id, version, document, reads, bundle, saved_at, saved_by) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		r.RuleID, version, string(r.Document), string(reads), r.Bundle, r.SavedAt, escape(r.SavedBy))
	return version, err
}

// audit says who did what to the rule.
func (c change) audit(ctx context.Context, action, detail string) error {
	return audit(ctx, c.tx, c.now, action, "rule/"+c.rule.name, detail)
}

// notBehind are reads that begin where their streams were applied to by now, at the earliest:
// what was applied since they were asked about was not for the rule.
func notBehind(ctx context.Context, tx *sql.Tx, reads []rules.Read) ([]rules.Read, error) {
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
func openCursors(ctx context.Context, tx *sql.Tx, reads []rules.Read) error {
	from := make(map[string]uint64, len(reads))
	for _, r := range reads {
		if seq, ok := from[r.Stream]; !ok || r.From < seq {
			from[r.Stream] = r.From
		}
	}
	for stream, seq := range from {
		if _, err := exec(ctx, tx, `INSERT INTO event_cursor (stream, last_seq) VALUES ($1, $2) ON CONFLICT (stream) DO NOTHING`,
			stream, int64(seq)); err != nil {
			return err
		}
	}
	return nil
}
