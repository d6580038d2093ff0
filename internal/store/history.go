package store

import (
	"cmp"
	"context"
	"slices"

	futurejobs "deadman/future_jobs"
)

const historyOfKey = `
SELECT ` + wholeEndedColumns + ` FROM history f JOIN rule r ON r.id = f.rule_id
WHERE f.shard = ? AND f.key = ? AND (f.ended_at, f.id) < (?, ?)`

// History lists jobs that ended, newest first.
func (s *Store) History(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.Ended], error) {
	if f.Key != "" {
		page, err := s.historyOf(ctx, f)
		if err != nil {
			return page, failed("history", err)
		}
		return page, nil
	}
	rows, err := s.rulesOf(ctx, f)
	if err != nil {
		return futurejobs.Page[futurejobs.Ended]{}, failed("history", err)
	}
	if rows != nil && len(rows) == 0 {
		return futurejobs.Page[futurejobs.Ended]{}, nil
	}
	page, err := s.latest(ctx, idsOf(rows), f)
	if err != nil {
		return page, failed("history", err)
	}
	return page, nil
}

// historyOf lists what became of one key.
func (s *Store) historyOf(ctx context.Context, f futurejobs.Filter) (page futurejobs.Page[futurejobs.Ended], err error) {
	before := position{At: forever, ID: maxID}
	if err := before.read("key_history", f.Cursor); err != nil {
		return page, err
	}
	scopes, err := s.scopes(ctx, f)
	if err != nil {
		return page, err
	}
	var ended []futurejobs.Ended
	for _, c := range scopes {
		w := where{historyOfKey + c.and("f"), []any{c.shard, verbatim(f.Key), before.At, before.ID}}
		w.ended(f)
		found, err := query(ctx, s.read, readWholeEnded, numbered(w.text+` ORDER BY f.ended_at DESC, f.id DESC LIMIT ?`),
			append(w.args, limit(f)+1)...)
		if err != nil {
			return page, err
		}
		ended = append(ended, found...)
	}
	slices.SortFunc(ended, func(a, b futurejobs.Ended) int {
		return cmp.Or(b.EndedAt.Compare(a.EndedAt), cmp.Compare(b.ID, a.ID))
	})
	return paged("key_history", ended, f, func(e futurejobs.Ended) position {
		return position{At: e.EndedAt, ID: e.ID}
	}), nil
}
