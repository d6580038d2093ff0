package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// keptVersions is the number of versions of a rule that are kept for its log: the newest ones, only keptTexts of them if
// the rule's tenant has little room. The first one is kept as well, as it has the rule's creation time. Others are kept as
// long as they are needed.
const keptVersions = 100

// pastVersion has the columns of a rule's version that decide if it is needed.
type pastVersion struct {
	number  int32
	reads   []rules.StreamBinding
	savedAt time.Time
}

func readPastVersion(row scanner, v *pastVersion) error {
	var reads string
	if err := row.Scan(&v.number, &reads, at(&v.savedAt)); err != nil {
		return err
	}
	return json.Unmarshal([]byte(reads), &v.reads)
}

// VersionStore deletes the versions of rules that nothing needs any more.
type VersionStore struct{ *database }

// manyVersions is a rule with more versions than those that always stay.
type manyVersions struct {
	id   int32
	name string
	n    int
}

// PruneVersions deletes old versions of rules that are no longer needed, and returns their number. crowded reports whether
// the tenant of a rule has little room for versions.
//
//  1. The newest versions of a rule stay, and its first.
//  2. A version stays that may decide about an event or a tick that is not applied yet.
//  3. A version stays that a pending job or an open outage has.
//
// A superseded version never gets a new job, so these conditions stay true.
func (s *VersionStore) PruneVersions(ctx context.Context, crowded func(rule string) bool) (total int64, err error) {
	many, err := query(ctx, s.read, func(row scanner, r *manyVersions) error { return row.Scan(&r.id, &r.name, &r.n) },
		`SELECT r.id, r.name, count(*) FROM rule r JOIN rule_version v ON v.rule_id = r.id GROUP BY r.id, r.name HAVING count(*) > $1 ORDER BY r.id`, keptTexts+1)
	for _, r := range many {
		keep := keptVersions
		if crowded(r.name) {
			keep = keptTexts
		}
		if r.n <= keep+1 {
			continue
		}
		n, pruneErr := s.pruneVersionsOf(ctx, r.id, keep)
		if total += n; pruneErr != nil {
			err = pruneErr
			break
		}
	}
	if err != nil {
		return total, wrapErr("prune versions of rules", err)
	}
	return total, nil
}

func (s *VersionStore) pruneVersionsOf(ctx context.Context, rule int32, keep int) (total int64, err error) {
	all, err := query(ctx, s.read, readPastVersion, `SELECT version, reads, saved_at FROM rule_version WHERE rule_id = $1 ORDER BY version`, rule)
	if err != nil || len(all) <= keep+1 {
		return 0, err
	}
	cursors, err := s.cursorsOf(ctx, rule)
	if err != nil {
		return 0, err
	}
	var past []int32
	for i, v := range all[1 : len(all)-keep] {
		if v.isPast(all[i+2], rule, cursors) {
			past = append(past, v.number)
		}
	}
	if len(past) == 0 {
		return 0, nil
	}
	needed, err := s.versionsInUse(ctx, rule)
	if err != nil {
		return 0, err
	}
	past = slices.DeleteFunc(past, func(version int32) bool { return slices.Contains(needed, version) })
	for part := range slices.Chunk(past, pruneBatch) {
		n, err := s.dropVersions(ctx, rule, part)
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}

// cursorsOf returns the cursors of all streams of the broker, and those of the rule's ticks and expected keys.
func (s *VersionStore) cursorsOf(ctx context.Context, rule int32) (map[string]futurejobs.Cursor, error) {
	all, err := query(ctx, s.read, readCursor, `SELECT `+cursorColumns+` FROM event_cursor WHERE `+isReceived+` OR stream = $1 OR stream = $2`,
		futurejobs.TickStream(rule), rules.ExpectedStream(rule))
	return byStream(all), err
}

// skewMost bounds the difference between the clocks of the broker and the database.
const skewMost = time.Minute

// isPast reports whether the streams of a version were read, and its ticks applied, past the time of the next version's
// save.
func (v pastVersion) isPast(next pastVersion, rule int32, cursors map[string]futurejobs.Cursor) bool {
	saved := next.savedAt.Add(skewMost)
	for _, r := range v.reads {
		c, known := cursors[r.Stream]
		if known && !c.LastAt.After(saved) && !c.ReadThrough.After(saved) {
			return false
		}
	}
	if ticks, known := cursors[futurejobs.TickStream(rule)]; known && !ticks.LastAt.After(saved) {
		return false
	}
	expected, known := cursors[rules.ExpectedStream(rule)]
	return !known || int64(expected.LastSeq) > int64(v.number) //nolint:gosec // it counts versions
}

// versionsInUse returns the versions of pending jobs and open outages of a rule.
func (s *VersionStore) versionsInUse(ctx context.Context, rule int32) ([]int32, error) {
	number := func(row scanner, version *int32) error { return row.Scan(version) }
	used, err := query(ctx, s.read, number, `SELECT DISTINCT version FROM outage WHERE rule_id = $1 AND closed_at IS NULL`, rule)
	for shard := 0; shard < s.shards && err == nil; shard++ {
		var some []int32
		some, err = query(ctx, s.read, number, `SELECT DISTINCT version FROM future_job WHERE shard = $1 AND rule_id = $2`, shard, rule)
		used = append(used, some...)
	}
	slices.Sort(used)
	return slices.Compact(used), err
}

// dropVersions deletes sorted versions. It makes nodes read all rules again, since the list of changes has no
// deletions.
func (s *VersionStore) dropVersions(ctx context.Context, rule int32, versions []int32) (dropped int64, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		dropped = 0
		if _, err := exec(ctx, tx, `UPDATE rule_set SET revision = revision + 1, noted = revision + 1, whole = revision + 1 WHERE id = 1`); err != nil {
			return err
		}
		for first := 0; first < len(versions); {
			last := first
			for last+1 < len(versions) && versions[last+1] == versions[last]+1 {
				last++
			}
			n, err := exec(ctx, tx, `DELETE FROM rule_version WHERE rule_id = $1 AND version >= $2 AND version <= $3`, rule, versions[first], versions[last])
			if err != nil {
				return err
			}
			dropped, first = dropped+n, last+1
		}
		_, err := exec(ctx, tx, countPruned, dropped, "rule_version")
		return err
	})
	return dropped, err
}

// forgetVersions deletes the versions of rules that were deleted, and had no job any more, before an instant. The numbers
// of their versions are not used again.
func (s *VersionStore) forgetVersions(ctx context.Context, before time.Time) error {
	gone, err := query(ctx, s.read, func(row scanner, id *int32) error { return row.Scan(id) },
		`SELECT id FROM rule WHERE purged_at < $1 AND last_version IS NULL ORDER BY id LIMIT $2`, before, pruneBatch)
	for _, id := range gone {
		if err != nil {
			break
		}
		err = s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
			if _, err := exec(ctx, tx, `UPDATE rule SET last_version = (SELECT max(version) FROM rule_version WHERE rule_id = $1) WHERE id = $1`, id); err != nil {
				return err
			}
			n, err := exec(ctx, tx, `DELETE FROM rule_version WHERE rule_id = $1`, id)
			if err == nil {
				_, err = exec(ctx, tx, countPruned, n, "rule_version")
			}
			return err
		})
	}
	if err != nil {
		return wrapErr("forget versions of deleted rules", err)
	}
	return nil
}
