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

// RuleStore keeps the rules and their versions.
type RuleStore struct {
	ruleChanger
	jobs *JobStore
}

// Revision implements rules.Store.
func (s *RuleStore) Revision(ctx context.Context) (int64, error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	var revision int64
	if err := s.read.QueryRowContext(ctx, `SELECT revision FROM rule_set WHERE id = 1`).Scan(&revision); err != nil {
		return 0, wrapErr("revision", err)
	}
	return revision, nil
}

// versionColumns are the columns that versionFields reads, of the version v and its rule r.
const versionColumns = `v.rule_id, v.version, r.name, r.entity, v.document, v.reads, v.bundle, v.saved_at, v.saved_by,
	r.paused_at, r.paused_by, r.deleted_at, v.bounds, v.sets`

func versionFields(s *rules.RuleVersion, reads *string) []any {
	return []any{
		&s.RuleID, &s.Version, &s.Name, &s.Entity, &s.Document, reads, &s.Bundle, at(&s.SavedAt), (*escapedText)(&s.SavedBy),
		at(&s.PausedAt), (*escapedText)(&s.PausedBy), at(&s.DeletedAt), &boundsInto{&s.Bounds}, &s.Sets,
	}
}

// versionRow is a row of Changes: the revision, and a version or none.
type versionRow struct {
	rules.RuleVersion
	revision, since int64
}

// Load returns all versions of the rules that are not deleted, by rule and version, and the revision they belong to.
func (s *RuleStore) Load(ctx context.Context) (int64, []rules.RuleVersion, error) {
	all, err := s.Changes(ctx, -1)
	return all.Revision, all.Saved, err
}

// Changes implements rules.Store: one statement is one snapshot. After a change by a node of schema 16, which does not
// record the changed rule, it reads all rules.
func (s *RuleStore) Changes(ctx context.Context, since int64) (rules.Changes, error) {
	rows, err := query(ctx, s.read, readLoaded, `
SELECT q.revision, q.since, coalesce(r.id, 0), coalesce(v.version, 0), coalesce(r.name, ''), coalesce(r.entity, ''),
	coalesce(v.document, ''), coalesce(v.reads, '[]'), coalesce(v.bundle, ''), v.saved_at, coalesce(v.saved_by, ''),
	r.paused_at, coalesce(r.paused_by, ''), r.deleted_at, v.bounds, v.sets
FROM (SELECT revision, CASE WHEN noted = revision AND whole <= $1 THEN $1 ELSE -1 END AS since FROM rule_set WHERE id = 1) q
LEFT JOIN rule r ON r.revision > q.since AND (r.deleted_at IS NULL OR q.since >= 0)
LEFT JOIN rule_version v ON v.rule_id = r.id AND v.revision > q.since
ORDER BY r.id, v.version`, since)
	if err != nil {
		return rules.Changes{}, wrapErr("load rules", err)
	}
	changes := rules.Changes{Revision: rows[0].revision, All: rows[0].since < 0}
	for _, row := range rows {
		if row.RuleID != 0 {
			changes.Saved = append(changes.Saved, row.RuleVersion)
		}
	}
	return changes, nil
}

func readLoaded(row scanner, l *versionRow) error {
	var reads string
	if err := row.Scan(append([]any{&l.revision, &l.since}, versionFields(&l.RuleVersion, &reads)...)...); err != nil {
		return err
	}
	return json.Unmarshal([]byte(reads), &l.Reads)
}

// Named implements rules.Store.
func (s *RuleStore) Named(ctx context.Context, name string) ([]rules.RuleVersion, error) {
	named, err := query(ctx, s.read, readSaved, `SELECT `+versionColumns+` FROM rule_version v JOIN rule r ON r.id = v.rule_id
WHERE r.name = $1
ORDER BY v.rule_id DESC, v.version DESC`, name)
	if err != nil {
		return nil, wrapErr("versions of rule "+name, err)
	}
	return named, nil
}

func readSaved(row scanner, s *rules.RuleVersion) error {
	var reads string
	if err := row.Scan(versionFields(s, &reads)...); err != nil {
		return err
	}
	return json.Unmarshal([]byte(reads), &s.Reads)
}

// Version implements rules.Store.
func (s *RuleStore) Version(ctx context.Context, ruleID, version int32) (rules.RuleVersion, error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	var saved rules.RuleVersion
	var reads string
	err := s.read.QueryRowContext(ctx, `SELECT `+versionColumns+` FROM rule_version v JOIN rule r ON r.id = v.rule_id
WHERE v.rule_id = $1 AND v.version = $2`, ruleID, version).Scan(versionFields(&saved, &reads)...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = futurejobs.ErrNotFound
	case err == nil:
		err = json.Unmarshal([]byte(reads), &saved.Reads)
	}
	if err != nil {
		return saved, fmt.Errorf("version %d of rule %d: %w", version, ruleID, asUnavailable(err))
	}
	return saved, nil
}

// Save implements rules.Store.
func (s *RuleStore) Save(ctx context.Context, r rules.RuleVersion, version int32) (rules.RuleVersion, error) {
	r.SavedBy = access.ActorOf(ctx).Name
	fences, err := s.endsOtherwise(ctx, r)
	if err != nil {
		return r, wrapErr("save rule", err)
	}
	err = s.change(ctx, r.Name, fences, func(c *ruleChange) error { return c.save(ctx, &r, version) })
	if err != nil {
		return r, wrapErr("save rule", err)
	}
	r.Text = ""
	return r, nil
}

// endsOtherwise reports whether other streams can end or change the pending jobs of a version to be saved than those of
// the current version: then the settles of its pending jobs must wait for those streams, too.
func (s *RuleStore) endsOtherwise(ctx context.Context, r rules.RuleVersion) (bool, error) {
	saved, err := query(ctx, s.read, readSaved, `SELECT `+versionColumns+` FROM rule_version v JOIN rule r ON r.id = v.rule_id
WHERE r.name = $1 AND r.deleted_at IS NULL ORDER BY v.version DESC LIMIT 1`, r.Name)
	if err != nil || len(saved) == 0 {
		return false, err
	}
	return !slices.Equal(saved[0].WaitsFor(), r.WaitsFor()), nil
}

// Text implements rules.Store.
func (s *RuleStore) Text(ctx context.Context, ruleID, version int32) (string, error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	var text sql.NullString
	err := s.read.QueryRowContext(ctx, `SELECT author_text FROM rule_version WHERE rule_id = $1 AND version = $2`, ruleID, version).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		err = futurejobs.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("text of version %d of rule %d: %w", version, ruleID, asUnavailable(err))
	}
	return text.String, nil
}

// SetText implements rules.Store.
func (s *RuleStore) SetText(ctx context.Context, ruleID, version int32, text string) error {
	err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		var name string
		var size int
		err := tx.QueryRowContext(ctx, `SELECT r.name, coalesce(octet_length(v.author_text), 0) FROM rule r JOIN rule_version v ON v.rule_id = r.id
WHERE v.rule_id = $1 AND v.version = $2`, ruleID, version).Scan(&name, &size)
		if errors.Is(err, sql.ErrNoRows) {
			return futurejobs.ErrNotFound
		}
		if err == nil && len(text) > size {
			err = roomFor(ctx, tx, name, false, len(text)-size)
		}
		if err != nil {
			return err
		}
		_, err = exec(ctx, tx, `UPDATE rule_version SET author_text = $1 WHERE rule_id = $2 AND version = $3`, optional(text), ruleID, version)
		return err
	})
	if err != nil {
		return wrapErr("set the text of a rule", err)
	}
	return nil
}

// Pause implements rules.Store.
func (s *RuleStore) Pause(ctx context.Context, name string, paused bool) error {
	err := s.change(ctx, name, false, func(c *ruleChange) error {
		switch {
		case c.rule.id == 0:
			return futurejobs.ErrNotFound
		case paused != c.rule.pausedAt.IsZero():
			return errNoChange
		case paused:
			return c.pause(ctx, access.RulePause, c.now, access.ActorOf(ctx).Name, "")
		}
		return c.pause(ctx, access.RuleResume, time.Time{}, "", "")
	})
	if err != nil {
		return wrapErr("pause rule "+name, err)
	}
	return nil
}

// Halt pauses a rule that exceeds the cost limit of its expressions, even if a person paused it before. It returns
// rules.ErrConflict if the rule is not at the version, and futurejobs.ErrNotFound if it does not exist. why is for the
// audit log.
func (s *RuleStore) Halt(ctx context.Context, name string, version int32, why string) error {
	err := s.change(ctx, name, false, func(c *ruleChange) error {
		switch {
		case c.rule.id == 0:
			return futurejobs.ErrNotFound
		case !c.rule.pausedAt.IsZero() && c.rule.pausedBy == rules.HaltedBy:
			return errNoChange
		}
		if err := c.rule.at(version); err != nil {
			return err
		}
		return c.pause(ctx, access.RulePause, c.now, rules.HaltedBy, why)
	})
	if err != nil {
		return wrapErr("pause rule "+name, err)
	}
	return nil
}

// Delete implements rules.Store.
func (s *RuleStore) Delete(ctx context.Context, name string, version int32) (ruleID int32, err error) {
	err = s.change(ctx, name, true, func(c *ruleChange) error {
		if c.rule.id == 0 {
			return futurejobs.ErrNotFound
		}
		if err := c.rule.at(version); err != nil {
			return err
		}
		c.endsTicks = true
		before, err := c.readsSoFar(ctx)
		if err != nil {
			return err
		}
		if err := c.invalidateBatches(ctx, before); err != nil {
			return err
		}
		ruleID = c.rule.id
		if _, err := exec(ctx, c.tx, `UPDATE rule SET deleted_at = $1 WHERE id = $2`, c.now, ruleID); err != nil {
			return err
		}
		var bundle string
		if err := c.tx.QueryRowContext(ctx, `SELECT bundle FROM rule_version WHERE rule_id = $1 AND version = $2`, ruleID, c.rule.version).Scan(&bundle); err != nil {
			return err
		}
		return c.audit(ctx, access.RuleDelete, versionOf(c.rule.version, bundle, ""))
	})
	if err != nil {
		return 0, wrapErr("delete rule "+name, err)
	}
	return ruleID, nil
}

// versionOf describes a version of a rule in the audit log, with its bundle and the node and file that it comes from, if any.
func versionOf(version int32, bundle, origin string) string {
	text := fmt.Sprintf("version %d", version)
	if bundle != "" {
		text += "; bundle " + bundle
	}
	if origin != "" {
		text += "; " + origin
	}
	return text
}

// Deleted implements rules.Store. A rule without jobs is not checked again: a deleted rule never gets new jobs.
func (s *RuleStore) Deleted(ctx context.Context) ([]int32, error) {
	deleted, err := query(ctx, s.read, func(row scanner, id *int32) error { return row.Scan(id) },
		`SELECT id FROM rule WHERE deleted_at IS NOT NULL AND purged_at IS NULL ORDER BY id`)
	if err != nil {
		return nil, wrapErr("deleted rules", err)
	}
	var left []int32
	for _, id := range deleted {
		jobs, err := s.jobs.JobsOf(ctx, id, futurejobs.Ref{}, 1)
		if err != nil {
			return nil, wrapErr("deleted rules", err)
		}
		if len(jobs) > 0 {
			left = append(left, id)
			continue
		}
		if _, err := exec(ctx, s.db, `UPDATE rule SET purged_at = now() WHERE id = $1`, id); err != nil {
			return nil, wrapErr("deleted rules", err)
		}
	}
	return left, nil
}
