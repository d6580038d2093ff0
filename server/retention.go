package server

import (
	"cmp"
	"context"

	"deadman/internal/store"
	"deadman/web"
)

// retentionReader counts the rows that retention deletes. It implements web.RetentionReader.
type retentionReader struct {
	store *store.Store
	keep  store.Retention // the settings
}

// Retention implements web.RetentionReader.
func (r *retentionReader) Retention(ctx context.Context, q web.RetentionQuery) (web.RetentionReport, error) {
	keep := r.periods(q)
	matches := q.Matches
	if matches == nil {
		matches = func(string) bool { return true }
	}
	shortest, err := r.store.ShortestPeriods(ctx, keep, q.Rule, matches)
	if err != nil {
		return web.RetentionReport{}, err
	}
	var counts []store.RetentionCount
	if !q.PeriodsOnly {
		if counts, err = r.store.CountRetention(ctx, store.RetentionQuery{Retention: keep, At: q.At, Rules: q.Rules}); err != nil {
			return web.RetentionReport{}, err
		}
	}
	report := web.RetentionReport{
		At: q.At, KeepHistory: keep.History.Seconds(), KeepAlerts: keep.Alerts.Seconds(), KeepDeadLetters: keep.DeadLetters.Seconds(),
		ShortestHistory: shortest.History.Seconds(), ShortestAlerts: shortest.Alerts.Seconds(),
		HistoryDeleted: &shortest.HistoryDeleted, AlertsDeleted: &shortest.AlertsDeleted,
		Items: make([]web.RetentionCount, len(counts)),
	}
	for i, c := range counts {
		report.Items[i] = web.RetentionCount{Rule: c.Rule, Kind: c.Kind, Outcome: c.Outcome, Rows: c.Rows, Oldest: c.Oldest.UTC()}
	}
	return report, nil
}

// periods returns the periods of the query, or of the settings.
func (r *retentionReader) periods(q web.RetentionQuery) store.Retention {
	keep := r.keep
	keep.History = cmp.Or(q.History, keep.History)
	keep.Alerts = cmp.Or(q.Alerts, keep.Alerts)
	keep.DeadLetters = cmp.Or(q.DeadLetters, keep.DeadLetters)
	return keep
}
