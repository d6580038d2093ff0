package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// The counts of ended jobs by hour.
const (
	outcomeHoursFor = 32 * futurejobs.Day // retention: a month and a margin
	outcomeSettle   = 5 * time.Minute     // after its end an hour is final: its last transactions have committed by then

	outcomesThrough = "outcomes_through" // the setting with the end of the last counted hour
)

// StatisticsStore counts ended jobs by hour, from history.
type StatisticsStore struct{ *database }

// CountOutcomeHour counts the oldest hour that has ended and is not counted yet, and reports whether there was one. Two
// nodes that count the same hour write the same rows.
func (s *StatisticsStore) CountOutcomeHour(ctx context.Context) (counted bool, err error) {
	if counted, err = s.countOutcomeHour(ctx); err != nil {
		return false, wrapErr("count outcomes", err)
	}
	return counted, nil
}

func (s *StatisticsStore) countOutcomeHour(ctx context.Context) (counted bool, err error) {
	now, err := s.Time(ctx)
	if err != nil {
		return false, err
	}
	hour, err := s.countedThrough(ctx, now)
	if err == nil && hour.IsZero() {
		hour, err = s.firstOutcomeHour(ctx, now)
	}
	until := hour.Add(time.Hour)
	if err != nil || now.Before(until.Add(outcomeSettle)) {
		return false, err
	}
	text, args, err := s.countHour(ctx, hour, until)
	if err != nil {
		return false, err
	}
	return true, s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		if _, err := exec(ctx, tx, text, args...); err != nil {
			return err
		}
		_, err := exec(ctx, tx, putSetting,
			outcomesThrough, until.Format(time.RFC3339))
		return err
	})
}

// countedThrough returns the end of the last counted hour; zero: none is counted. A time that a fast clock wrote is
// replaced by the current hour.
func (s *StatisticsStore) countedThrough(ctx context.Context, now time.Time) (time.Time, error) {
	var value string
	err := s.read.QueryRowContext(ctx, `SELECT value FROM setting WHERE name = $1`, outcomesThrough).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	through, err := time.Parse(time.RFC3339, value)
	if hour := now.UTC().Truncate(time.Hour); through.After(hour) {
		through = hour
	}
	return later(through, oldestOutcomeHour(now)), err
}

func oldestOutcomeHour(now time.Time) time.Time {
	return now.Add(-outcomeHoursFor).UTC().Truncate(time.Hour)
}

// firstOutcomeHour returns the first hour to count: that of the oldest history, or the current one.
func (s *StatisticsStore) firstOutcomeHour(ctx context.Context, now time.Time) (time.Time, error) {
	oldest, err := s.oldest(ctx)
	if oldest.IsZero() {
		oldest = now
	}
	return later(oldest.UTC().Truncate(time.Hour), oldestOutcomeHour(now)), err
}

// countHour returns the statement that counts the jobs that ended in one hour.
func (s *StatisticsStore) countHour(ctx context.Context, hour, until time.Time) (text string, args []any, err error) {
	w, err := s.since(ctx, hour)
	if err != nil {
		return "", nil, err
	}
	w.and(`f.ended_at < ?`, until)
	var ignored, never []any
	for _, o := range checks.Outcomes() {
		switch kind, counted := futurejobs.KindOf(o, 0); {
		case !counted:
			ignored = append(ignored, string(o))
		case kind == futurejobs.Never:
			never = append(never, string(o))
		}
	}
	w.and(`f.outcome NOT IN (`+repeated(`?`, len(ignored))+`)`, ignored...)
	return rebindPlaceholders(`
INSERT INTO outcome_hour (rule_id, hour, kind, took, jobs)
SELECT e.rule_id, e.hour, e.kind, ` + roundedTook + `, count(*) FROM (
	SELECT f.rule_id, ` + s.hourOf(`f.ended_at`) + ` AS hour, ` + s.secondsOf(`f.since_at`, `f.ended_at`) + ` AS took,
		CASE WHEN f.outcome IN (` + repeated(`?`, len(never)) + `) THEN 2 WHEN f.step > 0 THEN 1 ELSE 0 END AS kind
	FROM history f WHERE ` + w.text + `
) AS e GROUP BY 1, 2, 3, 4 ON CONFLICT DO NOTHING`), append(never, w.args...), nil
}

// roundedTook is e.took rounded down by at most a tenth, to a whole part of a minute, an hour or a day.
const roundedTook = `CASE
	WHEN e.kind = 2 OR e.took < 0 THEN 0
	WHEN e.took < 60 THEN e.took
	WHEN e.took < 600 THEN e.took / 5 * 5
	WHEN e.took < 3600 THEN e.took / 60 * 60
	WHEN e.took < 21600 THEN e.took / 300 * 300
	WHEN e.took < 86400 THEN e.took / 900 * 900
	WHEN e.took < 604800 THEN e.took / 7200 * 7200
	ELSE e.took / 43200 * 43200
END`

// Statistics returns the counts of rules in the window that ends with the last counted hour; nil: of all rules.
func (s *StatisticsStore) Statistics(ctx context.Context, rules []int32, window time.Duration) (futurejobs.Statistics, error) {
	st, err := s.statistics(ctx, rules, window)
	if err != nil {
		return st, wrapErr("statistics", err)
	}
	return st, nil
}

func (s *StatisticsStore) statistics(ctx context.Context, rules []int32, window time.Duration) (st futurejobs.Statistics, err error) {
	now, err := s.Time(ctx)
	if err != nil {
		return st, err
	}
	if st.Until, err = s.countedThrough(ctx, now); err != nil || st.Until.IsZero() {
		return st, err
	}
	if err := s.read.QueryRowContext(ctx, `SELECT min(hour) FROM outcome_hour`).Scan(at(&st.Since)); err != nil {
		return st, err
	}
	if rules != nil && len(rules) == 0 {
		return st, nil
	}
	st.Hours, err = query(ctx, s.read, readOutcomeHour, `SELECT o.hour, o.kind, o.took, CAST(sum(o.jobs) AS bigint) FROM outcome_hour o
WHERE o.hour >= $1 AND o.hour < $2`+ofRules("o", rules)+` GROUP BY o.hour, o.kind, o.took ORDER BY o.hour, o.kind, o.took`, st.Until.Add(-window), st.Until)
	return st, err
}

func readOutcomeHour(row scanner, h *futurejobs.OutcomeHour) error {
	var seconds int64
	err := row.Scan(at(&h.Hour), &h.Kind, &seconds, &h.Jobs)
	h.Took = time.Duration(seconds) * time.Second
	return err
}

// LastDay returns the counts of all rules in the day that ends with the last counted hour.
func (s *StatisticsStore) LastDay(ctx context.Context) (futurejobs.LastDay, error) {
	day, err := s.lastDay(ctx)
	if err != nil {
		return day, wrapErr("last day", err)
	}
	return day, nil
}

func (s *StatisticsStore) lastDay(ctx context.Context) (day futurejobs.LastDay, err error) {
	now, err := s.Time(ctx)
	if err != nil {
		return day, err
	}
	if day.Until, err = s.countedThrough(ctx, now); err != nil || day.Until.IsZero() {
		return day, err
	}
	from := day.Until.Add(-futurejobs.Day)
	day.Rules = make(map[int32]*futurejobs.DayOutcomes)
	_, err = query(ctx, s.read, func(row scanner, h *futurejobs.OutcomeHour) error {
		var rule int32
		if err := row.Scan(&rule, at(&h.Hour), &h.Kind, &h.Jobs); err != nil {
			return err
		}
		if day.Rules[rule] == nil {
			day.Rules[rule] = new(futurejobs.DayOutcomes)
		}
		day.Rules[rule][h.Kind][h.Hour.Sub(from)/time.Hour] = h.Jobs
		return nil
	}, `SELECT rule_id, hour, kind, CAST(sum(jobs) AS bigint) FROM outcome_hour WHERE hour >= $1 AND hour < $2 GROUP BY rule_id, hour, kind`, from, day.Until)
	return day, err
}

// forgetOutcomeHours deletes counts beyond their retention.
func (s *StatisticsStore) forgetOutcomeHours(ctx context.Context, now time.Time) error {
	_, err := s.pruneAll(ctx, "", `DELETE FROM outcome_hour WHERE (rule_id, hour, kind, took) IN
	(SELECT o.rule_id, o.hour, o.kind, o.took FROM outcome_hour o WHERE o.hour < $1 ORDER BY o.hour LIMIT $2)`, oldestOutcomeHour(now), pruneBatch)
	return err
}
