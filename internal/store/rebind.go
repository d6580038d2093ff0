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

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
)

// RebindStore moves rules to other streams.
type RebindStore struct{ ruleChanger }

// Rebind implements rules.Store.
//
//  1. The cursors of streams with new reads move to the start of the new reads; those of lines that a rule joins, to the
//     position of the line that it leaves.
//  2. Existing reads stay as step 1 left them; new reads are added, and unwanted ones are removed.
func (s *RebindStore) Rebind(ctx context.Context, name string, revision int64, reads map[int32][]rules.StreamBinding) error {
	err := s.change(ctx, name, true, func(change *ruleChange) error {
		c := rebinding{change}
		if err := c.follows(ctx, revision); err != nil {
			return err
		}
		were, err := c.readsOf(ctx, reads)
		if err != nil {
			return err
		}
		if err := c.invalidateBatches(ctx, slices.Concat(slices.Collect(maps.Values(were))...), slices.Concat(slices.Collect(maps.Values(reads))...)); err != nil {
			return err
		}
		var fresh []rules.StreamBinding
		for version, wanted := range reads {
			fresh = append(fresh, newReads(were[version], wanted)...)
		}
		if err := c.moveCursors(ctx, fresh); err != nil {
			return err
		}
		lines, err := c.changeLines(ctx, were, reads)
		if err != nil {
			return err
		}
		kept, err := c.readsOf(ctx, reads)
		if err != nil {
			return err
		}
		for version, wanted := range reads {
			if err := c.writeReads(ctx, versionReads{c.rule.id, version, lines.starts(kept[version], merged(kept[version], wanted))}); err != nil {
				return err
			}
		}
		return c.audit(ctx, access.RuleRebind, moves(were, reads))
	})
	if err != nil {
		return wrapErr("rebind rule "+name, err)
	}
	return nil
}

// rebinding is a change of the reads of a rule.
type rebinding struct{ *ruleChange }

// follows returns ErrConflict unless the change is the next one of its rule after a revision. A change by a node of
// schema 16 names no rule and raises whole.
func (c rebinding) follows(ctx context.Context, revision int64) error {
	var one int
	err := c.tx.QueryRowContext(ctx, `SELECT 1 FROM rule r WHERE r.id = $1 AND r.revision <= $2
AND EXISTS (SELECT 1 FROM rule_set s WHERE s.id = 1 AND s.whole <= $2)`, c.rule.id, revision).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("rule %s is not as it was at revision %d any more: %w", c.rule.name, revision, rules.ErrConflict)
	}
	return err
}

// versionReads has the reads of one version of a rule.
type versionReads struct {
	rule, version int32
	reads         []rules.StreamBinding
}

func readVersionReads(row scanner, v *versionReads) error {
	var text string
	if err := row.Scan(&v.rule, &v.version, &text); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), &v.reads)
}

// readsOf returns the current reads of the rule's versions, and an error if one of the wanted versions does not exist.
func (c rebinding) readsOf(ctx context.Context, wanted map[int32][]rules.StreamBinding) (map[int32][]rules.StreamBinding, error) {
	all, err := query(ctx, c.tx, readVersionReads, `SELECT rule_id, version, reads FROM rule_version WHERE rule_id = $1`, c.rule.id)
	if err != nil {
		return nil, err
	}
	were := make(map[int32][]rules.StreamBinding, len(all))
	for _, v := range all {
		were[v.version] = v.reads
	}
	for version := range wanted {
		if _, there := were[version]; !there {
			return nil, fmt.Errorf("rule %s version %d: %w", c.rule.name, version, futurejobs.ErrNotFound)
		}
	}
	return were, nil
}

func (c rebinding) writeReads(ctx context.Context, v versionReads) error {
	text, err := json.Marshal(v.reads)
	if err != nil {
		return err
	}
	if _, err := exec(ctx, c.tx, `UPDATE rule_version SET reads = $1, revision = $2 WHERE rule_id = $3 AND version = $4`,
		string(text), c.revision, v.rule, v.version); err != nil {
		return err
	}
	_, err = exec(ctx, c.tx, `UPDATE rule SET revision = $1 WHERE id = $2`, c.revision, v.rule)
	return err
}

// newReads returns the reads in after with a subject and stream that before does not have.
func newReads(before, after []rules.StreamBinding) []rules.StreamBinding {
	return slices.DeleteFunc(slices.Clone(after), func(r rules.StreamBinding) bool {
		_, changes := continues(r, before, after)
		return changes || alike(before, r) >= 0
	})
}

// merged returns the wanted reads, with the existing ones unchanged.
func merged(before, wanted []rules.StreamBinding) []rules.StreamBinding {
	all := slices.Clone(wanted)
	for i, r := range all {
		if at := alike(before, r); at >= 0 {
			all[i] = before[at]
		}
	}
	return all
}

// alike returns the index of the read with the same subject and stream; below 0: none.
func alike(reads []rules.StreamBinding, r rules.StreamBinding) int {
	return slices.IndexFunc(reads, func(b rules.StreamBinding) bool { return b.Subject == r.Subject && b.Stream == r.Stream })
}

// moveCursors moves the cursor of each stream to the start of its first new read.
func (c rebinding) moveCursors(ctx context.Context, fresh []rules.StreamBinding) error {
	first := make(map[string]rules.StreamBinding)
	for _, r := range fresh {
		if known, ok := first[r.Stream]; !ok || r.From < known.From {
			first[r.Stream] = r
		}
	}
	if len(first) == 0 {
		return nil
	}
	all, err := c.readsOfAll(ctx)
	if err != nil {
		return err
	}
	for _, stream := range slices.Sorted(maps.Keys(first)) {
		if err := c.moveCursor(ctx, first[stream], all); err != nil {
			return err
		}
	}
	return nil
}

// readsOfAll returns the reads of all versions of rules that are not deleted.
func (c *ruleChange) readsOfAll(ctx context.Context) ([]versionReads, error) {
	return query(ctx, c.tx, readVersionReads, `
SELECT v.rule_id, v.version, v.reads FROM rule_version v JOIN rule r ON r.id = v.rule_id
WHERE r.deleted_at IS NULL ORDER BY v.rule_id, v.version`)
}

// recreated returns the conflict with a stream that is not the one that its cursor knows.
func recreated(stream string) error {
	return fmt.Errorf("stream %s was recreated, and intake has not seen it yet: %w", stream, rules.ErrConflict)
}

// moveCursor makes a stream be read from the start of a read. all are the current reads of all rules.
//
//  1. If no rule reads the stream, its cursor moves there.
//  2. If the cursor is still before that position, it stays: the read skips the events before its start.
//  3. If the cursor is past that position, it moves back. The events up to it have been applied, so the existing reads
//     of the rules now start at the old cursor.
//
// In any case, the read-through time of the stream is cleared.
func (c rebinding) moveCursor(ctx context.Context, from rules.StreamBinding, all []versionReads) error {
	var cursor futurejobs.Cursor
	err := readCursor(c.tx.QueryRowContext(ctx, `SELECT `+cursorColumns+` FROM event_cursor WHERE stream = $1`, from.Stream), &cursor)
	missing := errors.Is(err, sql.ErrNoRows)
	if err := ignoreErr(missing, err); err != nil {
		return err
	}
	switch {
	case missing:
		return c.openCursors(ctx, []rules.StreamBinding{from})
	case !slices.ContainsFunc(all, func(v versionReads) bool { return v.has(from.Stream) }):
		return c.putCursor(ctx, from.Stream, from.From, from.CreatedAt)
	case !cursor.StreamCreatedAt.IsZero() && !cursor.StreamCreatedAt.Equal(from.CreatedAt):
		return recreated(from.Stream)
	case cursor.LastSeq > from.From:
		if err := c.keepBehind(ctx, cursor, all); err != nil {
			return err
		}
		return c.putCursor(ctx, from.Stream, from.From, from.CreatedAt)
	}
	_, err = exec(ctx, c.tx, `UPDATE event_cursor SET read_through_at = NULL WHERE stream = $1`, from.Stream)
	return err
}

// putCursor sets a stream's cursor to a sequence and clears its times.
func (c rebinding) putCursor(ctx context.Context, stream string, seq uint64, created time.Time) error {
	_, err := exec(ctx, c.tx, `
UPDATE event_cursor SET last_seq = $1, last_at = NULL, stream_created_at = $2, read_through_at = NULL WHERE stream = $3`,
		int64(seq), when(created), stream)
	return err
}

// changeLines lets the lines that a rule joins continue where the lines are that it leaves.
func (c rebinding) changeLines(ctx context.Context, were, wanted map[int32][]rules.StreamBinding) (lineChange, error) {
	l := lineChange{c, make(map[string]futurejobs.Cursor)}
	leaves := make(map[string]string)
	for version, reads := range wanted {
		for _, r := range reads {
			if old, ok := continues(r, were[version], reads); ok {
				leaves[r.Stream] = old.Stream
			}
		}
	}
	if len(leaves) == 0 {
		return l, nil
	}
	all, err := c.readsOfAll(ctx)
	if err != nil {
		return l, err
	}
	for _, line := range slices.Sorted(maps.Keys(leaves)) {
		if err := l.join(ctx, line, leaves[line], all); err != nil {
			return l, err
		}
	}
	return l, nil
}

func (v versionReads) has(stream string) bool {
	return slices.ContainsFunc(v.reads, func(r rules.StreamBinding) bool { return r.Stream == stream })
}

// keepBehind makes the reads of versions from a stream start at its cursor at the earliest, so that they do not receive
// events twice.
func (c rebinding) keepBehind(ctx context.Context, cursor futurejobs.Cursor, all []versionReads) error {
	for _, v := range all {
		changed := false
		for i, r := range v.reads {
			if now, later := notBefore(r, cursor); later && r.Stream == cursor.Stream {
				v.reads[i], changed = now, true
			}
		}
		if changed {
			if err := c.writeReads(ctx, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// notBefore returns a read that starts at a cursor of its stream at the earliest, and whether that changes it. Nothing
// was read up to a cursor without the stream's creation time.
func notBefore(r rules.StreamBinding, cursor futurejobs.Cursor) (_ rules.StreamBinding, isLater bool) {
	isSame := r.CreatedAt.IsZero() || r.CreatedAt.Equal(cursor.StreamCreatedAt) // the sequences belong to the same stream
	if cursor.StreamCreatedAt.IsZero() || r.From >= cursor.LastSeq && isSame {
		return r, false
	}
	r.From, r.At, r.CreatedAt = cursor.LastSeq, later(r.At, cursor.LastAt), cursor.StreamCreatedAt
	return r, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// moves describes the changed reads for the audit log.
func moves(before, after map[int32][]rules.StreamBinding) string {
	newest := slices.Max(slices.Collect(maps.Keys(after)))
	return fmt.Sprintf("version %d reads %s, was %s", newest, streamsOf(after[newest]), streamsOf(before[newest]))
}

func streamsOf(reads []rules.StreamBinding) []string {
	all := make([]string, len(reads))
	for i, r := range reads {
		all[i] = r.Stream + "/" + r.Subject
	}
	return all
}
