package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"

	futurejobs "deadman/future_jobs"
)

// jobScan reads the jobs of a filter in one scope.
type jobScan struct {
	*database
	scope
	filter futurejobs.Filter
	whole  bool // the jobs of a key are read with all columns
	named  bool // jobs are found by their names, not by a scan in slot order
}

// maxSortInMemory bounds the jobs of a shard that are found by name and sorted; more jobs are scanned in slot order.
const maxSortInMemory = 1000

// maxSkipRatio is the number of jobs that a scan skips for each match before the jobs are found by name instead: those
// of a rule may be due after all others.
const maxSkipRatio = 100

// next returns the first jobs of a window, in order.
func (r *jobScan) next(ctx context.Context, w window) ([]futurejobs.ListedJob, error) {
	switch {
	case r.filter.Key != "":
		return r.byKey(ctx, w)
	case r.rules == nil:
		return r.walk(ctx, w, nil)
	case r.named:
		return r.byName(ctx, w)
	}
	end, err := r.scanLimit(ctx, w)
	if err != nil {
		return nil, err
	}
	found, err := r.walk(ctx, w, end)
	if err != nil || len(found) == w.limit || end == nil {
		return found, err
	}
	r.named = true
	return r.byName(ctx, w)
}

// scanLimit returns the last position of a scan; nil: the end of the window.
func (r *jobScan) scanLimit(ctx context.Context, w window) (*position, error) {
	c, end := r.inWindow(w), position{Shard: r.shard}
	err := r.read.QueryRowContext(ctx, rebindPlaceholders(`SELECT f.next_check_at, f.id FROM future_job f WHERE `+c.text+
		` ORDER BY f.next_check_at, f.id LIMIT 1 OFFSET `+strconv.Itoa(maxSkipRatio*w.limit)), c.args...).Scan(at(&end.At), &end.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &end, err
}

// inWindow returns the condition for the jobs f in a window, for the index of slots.
func (r *jobScan) inWindow(w window) filter {
	return filter{
		`f.shard = ? AND (f.next_check_at, f.id) > (?, ?) AND f.next_check_at < ?`,
		[]any{r.shard, w.after.At, w.after.idIn(r.shard), w.before},
	}
}

// names returns the condition for the jobs f with the requested names, for the index of names.
func (r *jobScan) names() filter {
	w := filter{`f.shard = ?` + r.and("f"), []any{r.shard}}
	if r.filter.KeyPrefix != "" {
		w.hasPrefix(`f.key`, r.filter.KeyPrefix)
	}
	return w
}

const (
	ofJobs = ` FROM future_job f` + toJobs
	toJobs = ` JOIN rule r ON r.id = f.rule_id` + withAck
)

// byKey returns the jobs of a key, at most one of each rule.
func (r *jobScan) byKey(ctx context.Context, w window) ([]futurejobs.ListedJob, error) {
	if !strings.HasPrefix(r.filter.Key, r.filter.KeyPrefix) {
		return nil, nil
	}
	columns := keyColumns
	if r.whole {
		columns = wholeColumns
	}
	found, err := query(ctx, r.read, readWhole, `SELECT `+columns+ofJobs+` WHERE f.shard = $1`+r.and("f")+` AND f.key = $2`, r.shard, escapedText(r.filter.Key))
	slices.SortFunc(found, inOrderOfSlots)
	found = w.within(found)
	return found[:min(len(found), w.limit)], err
}

// byName finds all jobs by name, sorts them and returns the first. SQLite starts a CROSS JOIN with its left table;
// neither database pushes conditions into an ordered subquery with a limit, so the inner one has the largest limit.
func (r *jobScan) byName(ctx context.Context, w window) ([]futurejobs.ListedJob, error) {
	all := r.names()
	all.text = `SELECT f.id, f.next_check_at FROM future_job f WHERE ` + all.text + ` ORDER BY f.rule_id, f.key LIMIT ` + strconv.FormatInt(maxID, 10)
	all.text = `SELECT f.id FROM (` + all.text + `) AS f WHERE (f.next_check_at, f.id) > (?, ?) AND f.next_check_at < ?
	ORDER BY f.next_check_at, f.id LIMIT ` + strconv.Itoa(w.limit)
	return query(ctx, r.read, readWhole, rebindPlaceholders(`SELECT `+listedColumns+`
FROM (`+all.text+`) AS p CROSS JOIN future_job f`+toJobs+` WHERE f.shard = ? AND f.id = p.id
ORDER BY f.next_check_at, f.id`), append(all.args, w.after.At, w.after.idIn(r.shard), w.before, r.shard)...)
}

// walk reads jobs in slot order up to a position and skips those with other names.
func (r *jobScan) walk(ctx context.Context, w window, end *position) ([]futurejobs.ListedJob, error) {
	c := r.inWindow(w)
	if end != nil {
		c.and(`(f.next_check_at, f.id) <= (?, ?)`, end.At, end.ID)
	}
	if r.rules != nil {
		names := filter{text: `1 = 1` + r.and("f")}
		if r.filter.KeyPrefix != "" {
			names.startsWith(`f.key`, r.filter.KeyPrefix)
		}
		c.andUnindexed(names)
	}
	return query(ctx, r.read, readWhole, rebindPlaceholders(`SELECT `+listedColumns+ofJobs+` WHERE `+c.text+
		` ORDER BY f.next_check_at, f.id LIMIT `+strconv.Itoa(w.limit)), c.args...)
}
