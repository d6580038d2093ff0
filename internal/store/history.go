package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

const historyOfKey = `
SELECT ` + wholeEndedColumns + ` FROM history f JOIN rule r ON r.id = f.rule_id
WHERE f.shard = ? AND f.key = ? AND (f.ended_at, f.id) < (?, ?)`

// HistoryStore lists ended jobs.
type HistoryStore struct{ *database }

// History lists jobs that ended, newest first.
func (s *HistoryStore) History(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.EndedJob], error) {
	if f.Key != "" {
		page, err := s.historyOf(ctx, f)
		if err != nil {
			return page, wrapErr("history", err)
		}
		return page, nil
	}
	rows, err := s.rulesOf(ctx, f)
	if err != nil {
		return futurejobs.Page[futurejobs.EndedJob]{}, wrapErr("history", err)
	}
	if rows != nil && len(rows) == 0 {
		return futurejobs.Page[futurejobs.EndedJob]{}, nil
	}
	page, err := s.latest(ctx, idsOf(rows), f)
	if err != nil {
		return page, wrapErr("history", err)
	}
	return page, nil
}

// historyOf lists the ended jobs of one key.
func (s *HistoryStore) historyOf(ctx context.Context, f futurejobs.Filter) (page futurejobs.Page[futurejobs.EndedJob], err error) {
	before := position{At: forever, ID: maxID}
	if err := before.read("key_history", f.Cursor); err != nil {
		return page, err
	}
	scopes, err := s.scopes(ctx, f)
	if err != nil {
		return page, err
	}
	var ended []futurejobs.EndedJob
	for _, c := range scopes {
		w := filter{historyOfKey + c.and("f"), []any{c.shard, escapedText(f.Key), before.At, before.ID}}
		w.ended(f)
		found, err := query(ctx, s.read, readWholeEnded, rebindPlaceholders(w.text+` ORDER BY f.ended_at DESC, f.id DESC LIMIT ?`),
			append(w.args, limit(f)+1)...)
		if err != nil {
			return page, err
		}
		ended = append(ended, found...)
	}
	slices.SortFunc(ended, func(a, b futurejobs.EndedJob) int {
		return cmp.Or(b.EndedAt.Compare(a.EndedAt), cmp.Compare(b.ID, a.ID))
	})
	return paged("key_history", ended, f, func(e futurejobs.EndedJob) position {
		return position{At: e.EndedAt, ID: e.ID}
	}), nil
}

// HistoryUnready returns the first day after today without a history table, and the database's time. The zero day means
// that all have one.
func (s *HistoryStore) HistoryUnready(ctx context.Context) (day, now time.Time, err error) {
	now, err = s.Now(ctx)
	if err == nil {
		day, err = s.unready(ctx, now)
	}
	if err != nil {
		return day, now, wrapErr("history ahead", err)
	}
	return day, now, nil
}
