package store

import (
	"context"

	futurejobs "deadman/future_jobs"
)

// lettersCounted is how many letters are counted, the newest: what a page waits for is bounded,
// however many there are.
const lettersCounted = 5000

// reasonsMost is how many reasons are named, those of the most letters.
const reasonsMost = 50

// LetterReasons counts the newest letters of a filter's Rule, RulePrefix, Subject and Reason by
// what could not take them in, and why.
func (s *Store) LetterReasons(ctx context.Context, f futurejobs.Filter) (futurejobs.DeadLetterReasons, error) {
	var counted futurejobs.DeadLetterReasons
	w := filter{`SELECT id, rule, reason, at FROM dead_letter WHERE 1 = 1`, nil}
	w.letters(f)
	found, err := query(ctx, s.read, func(row scanner, r *futurejobs.DeadLetterReason) error {
		return row.Scan(&r.Rule, (*escapedText)(&r.Reason), &r.Letters, &r.Newest, at(&r.At), &counted.Letters)
	}, rebindPlaceholders(`
SELECT rule, reason, count(*), max(id), max(at), sum(count(*)) OVER ()
FROM (`+w.text+` ORDER BY id DESC LIMIT ?) AS newest
GROUP BY rule, reason ORDER BY count(*) DESC, max(id) DESC LIMIT ?`), append(w.args, lettersCounted, reasonsMost)...)
	if err != nil {
		return counted, wrapErr("reasons of dead letters", err)
	}
	counted.Reasons, counted.More = found, counted.Letters == lettersCounted
	return counted, nil
}
