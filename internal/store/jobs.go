package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// JobStore reads pending jobs, and records when their checks begin.
type JobStore struct{ *database }

// BeginCheck implements futurejobs.CheckStarts.
func (s *JobStore) BeginCheck(ctx context.Context, b futurejobs.CheckStart) (ok bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		if err := checkHeld(ctx, tx, []futurejobs.HeldShard{b.HeldShard}, now); err != nil {
			return err
		}
		n, err := exec(ctx, tx, `
INSERT INTO check_start (shard, job_id, checks, epoch, started_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (shard, job_id) DO UPDATE SET checks = excluded.checks, epoch = excluded.epoch, started_at = excluded.started_at
WHERE check_start.checks < excluded.checks`, b.Shard, b.JobID, b.CheckAttempts, b.Epoch, now)
		ok = n == 1
		return err
	})
	if err != nil {
		return false, wrapErr("begin a check", err)
	}
	return ok, nil
}

// pruneCheckStarts deletes the check starts of jobs that have ended.
func (s *JobStore) pruneCheckStarts(ctx context.Context) error {
	for shard := range s.shards {
		if _, err := s.pruneAll(ctx, "", `DELETE FROM check_start WHERE shard = $1 AND job_id IN
	(SELECT c.job_id FROM check_start c WHERE c.shard = $1
		AND NOT EXISTS (SELECT 1 FROM future_job f WHERE f.shard = c.shard AND f.id = c.job_id) LIMIT $2)`, shard, pruneBatch); err != nil {
			return err
		}
	}
	return nil
}

// jobList is the name of the list of pending jobs in its cursors.
const jobList = "job"

// forever is after every slot, and after the time of a paused job.
var forever = futurejobs.FarFuture.Add(time.Hour)

// Jobs lists pending jobs, those due next first. A page is as stable as its jobs: a job that is checked between two
// pages may appear again, later. Bodies are left out of jobs larger than 2 KiB, or than futurejobs.ListedMost if the
// filter has a key.
func (s *JobStore) Jobs(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.ListedJob], error) {
	page, err := s.jobs(ctx, f, false)
	if err != nil {
		return page, wrapErr("jobs", err)
	}
	return page, nil
}

// jobs is Jobs; whole reads the jobs of a key with all columns.
func (s *JobStore) jobs(ctx context.Context, f futurejobs.Filter, whole bool) (page futurejobs.Page[futurejobs.ListedJob], err error) {
	w := window{
		after:  position{At: f.DueAfter, Shard: math.MaxInt16, ID: -1},
		before: forever,
		limit:  limit(f) + 1,
	}
	if err := w.after.read(jobList, f.Cursor); err != nil {
		return page, err
	}
	if !f.DueBefore.IsZero() {
		w.before = f.DueBefore
	}
	scopes, err := s.scopes(ctx, f)
	if err != nil {
		return page, err
	}
	portions := make([]*shardPage[futurejobs.ListedJob], len(scopes))
	for i, c := range scopes {
		r, err := s.newJobScan(ctx, c, f, whole)
		if err != nil {
			return page, err
		}
		portions[i] = &shardPage[futurejobs.ListedJob]{next: func(after *futurejobs.ListedJob, limit int) ([]futurejobs.ListedJob, error) {
			part := window{w.after, w.before, limit}
			if after != nil {
				part.after = positionOf(*after)
			}
			return r.next(ctx, part)
		}}
	}
	jobs, err := mergeShards(portions, w.limit, inOrderOfSlots)
	if err != nil {
		return page, err
	}
	return paged(jobList, jobs, f, positionOf), nil
}

// JobCursor returns the cursor of the jobs that follow a job of a page, in any list of pending jobs.
func (s *JobStore) JobCursor(l futurejobs.ListedJob) string {
	at := positionOf(l)
	at.List = jobList
	return at.cursor()
}

// window is a range of the list of all jobs.
type window struct {
	after  position
	before time.Time
	limit  int
}

// within keeps the jobs in the window.
func (w window) within(jobs []futurejobs.ListedJob) []futurejobs.ListedJob {
	return slices.DeleteFunc(jobs, func(l futurejobs.ListedJob) bool {
		return positionOf(l).compare(w.after) <= 0 || !l.NextCheckAt.Before(w.before)
	})
}

// positionOf returns the position of a job in the list.
func positionOf(l futurejobs.ListedJob) position {
	return position{At: l.NextCheckAt, Shard: l.Shard, ID: l.ID}
}

func inOrderOfSlots(a, b futurejobs.ListedJob) int { return positionOf(a).compare(positionOf(b)) }

// Job returns the pending job of a rule and a key, or futurejobs.ErrNotFound. If several rules had the name, it uses
// the last one.
func (s *JobStore) Job(ctx context.Context, rule, key string) (futurejobs.ListedJob, error) {
	page, err := s.jobs(ctx, futurejobs.Filter{Rule: rule, Key: key, Limit: futurejobs.MaxLimit}, true)
	if err != nil {
		return futurejobs.ListedJob{}, wrapErr("jobs", err)
	}
	if len(page.Items) == 0 {
		return futurejobs.ListedJob{}, fmt.Errorf("job of rule %q and key %q: %w", rule, key, futurejobs.ErrNotFound)
	}
	return slices.MaxFunc(page.Items, func(a, b futurejobs.ListedJob) int { return cmp.Compare(a.RuleID, b.RuleID) }), nil
}

// rulePageBytes is the size that ends a page of a rule's jobs, in bytes.
const rulePageBytes = 8 << 20

// JobsOf implements futurejobs.EffectStore. It reads the jobs by key, shard by shard, and ends a page at rulePageBytes.
func (s *JobStore) JobsOf(ctx context.Context, ruleID int32, after futurejobs.Ref, limit int) ([]futurejobs.Job, error) {
	var jobs []futurejobs.Job
	var bytes int64
	for shard := after.Shard; int(shard) < s.shards && len(jobs) < limit && bytes < rulePageBytes; shard++ {
		found, err := query(ctx, s.read, readRuleJob, `SELECT `+jobColumns+`, f.through FROM (
	SELECT f.*, sum(f.size) OVER (ORDER BY f.key ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS through
	FROM (
		SELECT f.*, `+jobBytes+` AS size FROM future_job f
		WHERE f.shard = $1 AND f.rule_id = $2 AND (f.rule_id, f.key) > ($3, $4)
		ORDER BY f.shard, f.rule_id, f.key LIMIT `+strconv.Itoa(limit-len(jobs))+`
	) AS f
) AS f
WHERE f.through - f.size < $5
ORDER BY f.key`, shard, ruleID, after.RuleID, escapedText(after.Key), rulePageBytes-bytes)
		if err != nil {
			return nil, wrapErr("jobs of a rule", err)
		}
		for _, j := range found {
			jobs = append(jobs, j.Job)
		}
		if n := len(found); n > 0 {
			bytes += found[n-1].through
		}
		after = futurejobs.Ref{} // the next shards start at their beginning
	}
	return jobs, nil
}

// ruleJob is a job of a page by rule and shard.
type ruleJob struct {
	futurejobs.Job
	through int64 // the bytes of the shard's jobs on the page, up to this one
}

func readRuleJob(row scanner, j *ruleJob) error {
	return row.Scan(append(jobFields(&j.Job), &j.through)...)
}

// gaveUpFor is the period of the count of alerts with the status gave_up.
const gaveUpFor = futurejobs.Day

// RuleJobs counts the pending jobs by rule id. It reads all pending jobs, and the alerts of a day: frequent callers
// should cache the result.
func (s *JobStore) RuleJobs(ctx context.Context) (map[int32]futurejobs.RuleJobs, error) {
	counts, err := s.ruleJobs(ctx)
	if err != nil {
		return nil, wrapErr("count jobs by rule", err)
	}
	return counts, nil
}

func (s *JobStore) ruleJobs(ctx context.Context) (map[int32]futurejobs.RuleJobs, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	pending, err := query(ctx, s.read, readRuleJobs, `SELECT rule_id, count(*), count(alert_ids),
	sum(CASE WHEN undecided > 0 THEN 1 ELSE 0 END), min(next_check_at), 0
FROM future_job GROUP BY rule_id`)
	if err != nil {
		return nil, err
	}
	from := firstAlert(now.Add(-gaveUpFor))
	gone, err := query(ctx, s.read, readRuleJobs, `SELECT a.rule_id, 0, 0, 0, NULL, count(*)
FROM shard_lease l JOIN alert a ON a.shard = l.shard
WHERE a.id >= $1 AND a.status = $2 GROUP BY a.rule_id`, from[:], alerts.GaveUp.Number())
	if err != nil {
		return nil, err
	}
	counts := make(map[int32]futurejobs.RuleJobs, len(pending))
	for _, p := range append(pending, gone...) {
		c := counts[p.rule]
		c.Pending += p.Pending
		c.Open += p.Open
		c.Undetermined += p.Undetermined
		c.GaveUp += p.GaveUp
		if !p.NextCheckAt.IsZero() && p.NextCheckAt.Before(futurejobs.FarFuture) {
			c.NextCheckAt = p.NextCheckAt
		}
		counts[p.rule] = c
	}
	return counts, nil
}

// newJobScan chooses the way to find the jobs of a scope.
func (s *JobStore) newJobScan(ctx context.Context, c scope, f futurejobs.Filter, whole bool) (*jobScan, error) {
	r := &jobScan{database: s.database, scope: c, filter: f, whole: whole}
	if c.rules == nil || f.Key != "" {
		return r, nil
	}
	w := r.names()
	var n int
	err := s.read.QueryRowContext(ctx, rebindPlaceholders(`SELECT count(*) FROM
	(SELECT 1 FROM future_job f WHERE `+w.text+` ORDER BY f.rule_id, f.key LIMIT `+strconv.Itoa(maxSortInMemory)+`) AS q`), w.args...).Scan(&n)
	r.named = n < maxSortInMemory
	return r, err
}

type ruleJobs struct {
	rule int32
	futurejobs.RuleJobs
}

func readRuleJobs(row scanner, r *ruleJobs) error {
	return row.Scan(&r.rule, &r.Pending, &r.Open, &r.Undetermined, at(&r.NextCheckAt), &r.GaveUp)
}
