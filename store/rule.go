package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// gate is how long a change of the rules keeps others out while it waits for those that
// are in. It opens by itself when the one who closed it is gone.
const gate = 5 * time.Second

// Revision implements rules.Store.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	ctx, cancel := patiently(ctx)
	defer cancel()
	var revision int64
	if err := s.read.QueryRowContext(ctx, `SELECT revision FROM rule_set WHERE id = 1`).Scan(&revision); err != nil {
		return 0, failed("revision", err)
	}
	return revision, nil
}

const savedColumns = `v.rule_id, v.version, r.name, r.entity, v.document, v.reads, v.bundle, v.saved_at`

func savedFields(s *rules.Saved, reads *string) []any {
	return []any{&s.RuleID, &s.Version, &s.Name, &s.Entity, &s.Document, reads, &s.Bundle, at(&s.SavedAt)}
}

// loaded is a row of Load: a version, or none, and the revision.
type loaded struct {
	rules.Saved
	revision int64
}

// Load implements rules.Store: one statement is one snapshot.
func (s *Store) Load(ctx context.Context) (int64, []rules.Saved, error) {
	rows, err := query(ctx, s.read, readLoaded, `
SELECT q.revision, coalesce(v.rule_id, 0), coalesce(v.version, 0), coalesce(r.name, ''), coalesce(r.entity, ''),
	coalesce(v.document, ''), coalesce(v.reads, '[]'), coalesce(v.bundle, ''), v.saved_at
FROM rule_set q
LEFT JOIN rule r ON r.deleted_at IS NULL
LEFT JOIN rule_version v ON v.rule_id = r.id
WHERE q.id = 1
ORDER BY v.rule_id, v.version`)
	if err != nil {
		return 0, nil, failed("load rules", err)
	}
	var saved []rules.Saved
	for _, row := range rows {
		if row.RuleID != 0 {
			saved = append(saved, row.Saved)
		}
	}
	return rows[0].revision, saved, nil
}

func readLoaded(row scanner, l *loaded) error {
	var reads string
	if err := row.Scan(append([]any{&l.revision}, savedFields(&l.Saved, &reads)...)...); err != nil {
		return err
	}
	return json.Unmarshal([]byte(reads), &l.Reads)
}

// Version implements rules.Store.
func (s *Store) Version(ctx context.Context, ruleID, version int32) (rules.Saved, error) {
	ctx, cancel := patiently(ctx)
	defer cancel()
	var saved rules.Saved
	var reads string
	err := s.read.QueryRowContext(ctx, `SELECT `+savedColumns+` FROM rule_version v JOIN rule r ON r.id = v.rule_id
WHERE v.rule_id = $1 AND v.version = $2`, ruleID, version).Scan(savedFields(&saved, &reads)...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = futurejobs.ErrNotFound
	case err == nil:
		err = json.Unmarshal([]byte(reads), &saved.Reads)
	}
	if err != nil {
		return saved, fmt.Errorf("version %d of rule %d: %w", version, ruleID, away(err))
	}
	return saved, nil
}

// Save implements rules.Store. It waits for the transactions that rest on the rules as they
// are.
func (s *Store) Save(ctx context.Context, r rules.Saved) (rules.Saved, error) {
	if err := s.shut(ctx); err != nil {
		return r, failed("save rule", err)
	}
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) (err error) {
		if _, err := exec(ctx, tx, `UPDATE rule_set SET revision = revision + 1, gate_until = NULL WHERE id = 1`); err != nil {
			return err
		}
		r.SavedAt = now
		if r.RuleID, err = ruleOf(ctx, tx, r); err != nil {
			return err
		}
		if r.Version, err = insertVersion(ctx, tx, r); err != nil {
			return err
		}
		return openCursors(ctx, tx, r.Reads)
	})
	if err != nil {
		return r, failed("save rule", errors.Join(err, s.unshut(ctx)))
	}
	return r, nil
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

// ruleOf returns the id of the rule of that name, a new one if there is none. A name that
// was deleted comes back as another rule.
func ruleOf(ctx context.Context, tx *sql.Tx, r rules.Saved) (id int32, err error) {
	var entity string
	err = tx.QueryRowContext(ctx, `SELECT id, entity FROM rule WHERE name = $1 AND deleted_at IS NULL`, r.Name).Scan(&id, &entity)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRowContext(ctx, `INSERT INTO rule (name, entity) VALUES ($1, $2) RETURNING id`, r.Name, r.Entity).Scan(&id)
		return id, err
	}
	if err == nil && entity != r.Entity {
		return 0, fmt.Errorf("rule %s waits for %s, not %s: %w", r.Name, entity, r.Entity, rules.ErrEntityChanged)
	}
	return id, err
}

func insertVersion(ctx context.Context, tx *sql.Tx, r rules.Saved) (version int32, err error) {
	reads, err := json.Marshal(r.Reads)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, `
INSERT INTO rule_version (rule_id, version, document, reads, bundle, saved_at)
SELECT $1, coalesce(max(version), 0) + 1, $2, $3, $4, $5 FROM rule_version WHERE rule_id = $1
RETURNING version`, r.RuleID, string(r.Document), string(reads), r.Bundle, r.SavedAt).Scan(&version)
	return version, err
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
