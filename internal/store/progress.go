package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
)

// overdueMost is the number of jobs of one shard that Overdue reads, and overdueAll that of all shards together: with
// many shards each contributes fewer, but at least overdueLeast. To skip jobs of versions that may be late, it reads up to
// overduePast times as many.
const (
	overdueMost  = 200
	overdueAll   = 3200
	overdueLeast = 20
	overduePast  = 50
)

// Overdue has the pending jobs of one version of a rule in one shard that were due by an instant.
type Overdue struct {
	Shard int16
	futurejobs.VersionRef
	Oldest time.Time // the earliest of their slots
	Jobs   int
}

// ProgressStore records how far each shard is swept, and finds the jobs that are late.
type ProgressStore struct{ *database }

// Overdue returns the jobs due by an instant, from the first jobs of each shard, without the jobs of versions within
// their tolerance in late. whole is false if a shard may have more. If no job is overdue, it costs one index probe per
// shard, for any number of pending jobs.
func (s *ProgressStore) Overdue(ctx context.Context, by time.Time, late map[futurejobs.VersionRef]time.Duration) (all []Overdue, whole bool, err error) {
	limit := max(min(overdueMost, overdueAll/s.shards), overdueLeast)
	due, args := `SELECT shard, rule_id, version, next_check_at FROM future_job WHERE shard = %[1]d AND next_check_at <= $1 ORDER BY next_check_at, id LIMIT %[2]d`, []any{by}
	if len(late) > 0 {
		var not []string
		for _, made := range slices.SortedFunc(maps.Keys(late), func(a, b futurejobs.VersionRef) int { // a stable text, which is prepared once
			return cmp.Or(cmp.Compare(a.RuleID, b.RuleID), cmp.Compare(a.Version, b.Version))
		}) {
			args = append(args, by.Add(-late[made]))
			not = append(not, fmt.Sprintf(`rule_id = %d AND version = %d AND next_check_at > `, made.RuleID, made.Version)+"$"+strconv.Itoa(len(args)))
		}
		due = `SELECT shard, rule_id, version, next_check_at FROM (
	SELECT id, shard, rule_id, version, next_check_at FROM future_job WHERE shard = %[1]d AND next_check_at <= $1 ORDER BY next_check_at, id LIMIT %[3]d
) AS d%[1]d WHERE NOT (` + strings.Join(not, ` OR `) + `) ORDER BY next_check_at, id LIMIT %[2]d`
	}
	parts := make([]string, s.shards)
	for shard := range parts {
		parts[shard] = fmt.Sprintf(`SELECT shard, rule_id, version, min(next_check_at) AS t, count(*) AS n FROM (
	`+due+`
) AS f%[1]d GROUP BY shard, rule_id, version`, shard, limit, overduePast*limit)
	}
	all, err = query(ctx, s.read, func(row scanner, o *Overdue) error {
		return row.Scan(&o.Shard, &o.RuleID, &o.Version, at(&o.Oldest), &o.Jobs)
	}, union(parts), args...)
	if err != nil {
		return nil, false, wrapErr("overdue", err)
	}
	found := make(map[int16]int)
	whole = len(late) == 0 // else more may follow the skipped jobs
	for _, o := range all {
		found[o.Shard] += o.Jobs
		whole = whole && found[o.Shard] < limit
	}
	return all, whole, nil
}

// MaxLateJobs is the largest number of late jobs that are counted.
const MaxLateJobs = 10_000

// Progress is the position of a continuous process: the sweep of all shards, or the ingest of a stream.
type Progress struct {
	Topic    string
	Through  time.Time
	Still    bool // it was found stalled since Through
	LateJobs int  // late jobs at that time, up to MaxLateJobs
}

func readProgress(row scanner, p *Progress) error {
	var late *int
	if err := row.Scan(&p.Topic, at(&p.Through), &late); err != nil {
		return err
	}
	if p.Still = late != nil; p.Still {
		p.LateJobs = *late
	}
	return nil
}

// Progress returns all stored progress, by topic.
func (s *ProgressStore) Progress(ctx context.Context) ([]Progress, error) {
	all, err := query(ctx, s.read, readProgress, `SELECT topic, through_at, late FROM progress ORDER BY topic`)
	if err != nil {
		return nil, wrapErr("progress", err)
	}
	return all, nil
}

// Advance moves a topic from its seen position to the next, or starts a new one. ok is false if it moved, or was found
// stalled, meanwhile.
func (s *ProgressStore) Advance(ctx context.Context, seen Progress, to time.Time) (ok bool, err error) {
	var late any
	if seen.Still {
		late = seen.LateJobs
	}
	text := `UPDATE progress SET through_at = $1, late = NULL WHERE topic = $2 AND through_at = $3 AND late IS NOT DISTINCT FROM $4`
	args := []any{to, seen.Topic, seen.Through, late}
	if seen.Through.IsZero() {
		text, args = `INSERT INTO progress (through_at, topic) VALUES ($1, $2) ON CONFLICT DO NOTHING`, args[:2]
	}
	n, err := exec(ctx, s.db, text, args...)
	if err != nil {
		return false, wrapErr("advance", err)
	}
	return n == 1, nil
}

// MarkStalled records that a topic is stalled at its seen position, with a number of late jobs, if that exceeds the
// recorded one; it returns the recorded state. ok is false if the topic moved meanwhile.
func (s *ProgressStore) MarkStalled(ctx context.Context, seen Progress, late int) (now Progress, ok bool, err error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	err = readProgress(s.db.QueryRowContext(ctx, `UPDATE progress SET late = CASE WHEN late > $1 THEN late ELSE $1 END
WHERE topic = $2 AND through_at = $3 RETURNING topic, through_at, late`, late, seen.Topic, seen.Through), &now)
	ok = err == nil
	if err := ignoreErr(errors.Is(err, sql.ErrNoRows), err); err != nil {
		return seen, false, wrapErr("record stall", err)
	}
	return now, ok, nil
}

// ForgetProgress deletes a topic.
func (s *ProgressStore) ForgetProgress(ctx context.Context, topic string) error {
	if _, err := exec(ctx, s.db, `DELETE FROM progress WHERE topic = $1`, topic); err != nil {
		return wrapErr("forget progress", err)
	}
	return nil
}

// SweptByOthers returns the oldest sweep time of all shards except those of a node; an empty node excludes none. whole is
// false if one of them was never swept. Without a shard, through is zero.
func (s *ProgressStore) SweptByOthers(ctx context.Context, node string) (through time.Time, whole bool, err error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	err = s.read.QueryRowContext(ctx, `SELECT min(swept_at), count(*) = count(swept_at) FROM shard_lease WHERE node IS DISTINCT FROM $1`, node).
		Scan(at(&through), &whole)
	if err != nil {
		return through, false, wrapErr("swept by other nodes", err)
	}
	return through, whole, nil
}

// OldestDue returns the slot of the pending job that is due first, in all shards; zero: none.
func (s *ProgressStore) OldestDue(ctx context.Context) (slot time.Time, err error) {
	all, err := s.OldestDues(ctx)
	for _, first := range all {
		if slot.IsZero() || first.Before(slot) {
			slot = first
		}
	}
	return slot, err
}

// OldestDues returns the slot of the pending job that is due first, for each shard that has one.
func (s *ProgressStore) OldestDues(ctx context.Context) (map[int16]time.Time, error) {
	type due struct {
		shard int16
		slot  time.Time
	}
	all, err := query(ctx, s.read, func(row scanner, d *due) error { return row.Scan(&d.shard, at(&d.slot)) }, `SELECT l.shard, (
	SELECT f.next_check_at FROM future_job f WHERE f.shard = l.shard ORDER BY f.next_check_at, f.id LIMIT 1
) AS t FROM shard_lease l`)
	if err != nil {
		return nil, wrapErr("oldest due", err)
	}
	slots := make(map[int16]time.Time, len(all))
	for _, d := range all {
		if !d.slot.IsZero() {
			slots[d.shard] = d.slot
		}
	}
	return slots, nil
}

// LateJobs counts the pending jobs of the rules (all, if nil) that were due after from and by until, up to MaxLateJobs.
func (s *ProgressStore) LateJobs(ctx context.Context, from, until time.Time, rules []int32) (n int, err error) {
	if rules != nil && len(rules) == 0 {
		return 0, nil
	}
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	of := ``
	if rules != nil {
		of = ` AND f.rule_id IN ` + inList(rules)
	}
	// Each shard is read as a range of future_job_due, regardless of the planner's estimate.
	err = s.read.QueryRowContext(ctx, `SELECT coalesce(sum(n), 0) FROM (SELECT (
	SELECT count(*) FROM (
		SELECT 1 FROM future_job f WHERE f.shard = l.shard AND f.next_check_at > $1 AND f.next_check_at <= $2`+of+`
		ORDER BY f.next_check_at, f.id LIMIT `+strconv.Itoa(MaxLateJobs)+`
	) AS due
) AS n FROM shard_lease l) AS q`, from, until).Scan(&n)
	if err != nil {
		return 0, wrapErr("late jobs", err)
	}
	return min(n, MaxLateJobs), nil
}
