package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

const (
	keepLetter = `UPDATE dead_letter SET reason = $1, tries = tries + 1, last_tried_at = $2 WHERE id = $3`
	dropLetter = `DELETE FROM dead_letter WHERE id = $1`
)

// statement is a text with its arguments.
type statement struct {
	text string
	args []any
}

// letterWrites returns the writes for a batch's dead letters. If the batch retries a dead letter, tried is the write
// for that one, which must still exist.
func letterWrites(ctx context.Context, b futurejobs.EffectBatch, net futurejobs.FoldResult, now time.Time) (writes []statement, tried statement, err error) {
	again, fresh := sortLetters(b, net.DeadLetters)
	var beyond futurejobs.Summaries
	for _, l := range fresh {
		if l.Summarized > 0 {
			beyond.Add(l)
			continue
		}
		args, err := letter(l, now)
		if err != nil {
			return nil, tried, err
		}
		writes = append(writes, statement{insertLetter, args})
	}
	for _, l := range beyond.All() {
		args, err := summary(l, now)
		if err != nil {
			return nil, tried, err
		}
		writes = append(writes, statement{addToSummary, args})
	}
	if b.Letter == nil {
		return writes, tried, nil
	}
	said := fmt.Sprintf("taken in; jobs begun: %d, ended: %d, changed: %d", net.Created, net.Ended, net.Updated+net.Paused+net.Resumed)
	tried = statement{dropLetter, []any{b.Letter.ID}}
	if again != "" {
		said = "refused again: " + again
		tried = statement{keepLetter, []any{escape(again), now, b.Letter.ID}}
	}
	args, err := auditArgs(ctx, now, access.DeadLetterRetry, letterObject(b.Letter.ID), said)
	return append(writes, statement{insertAudit, args}), tried, err
}

// sortLetters separates the reasons that a retried letter is refused again from new dead letters. folded are the
// letters from folding the effects.
func sortLetters(b futurejobs.EffectBatch, folded []futurejobs.DeadLetter) (again string, fresh []futurejobs.DeadLetter) {
	var reasons []string
	for _, l := range slices.Concat(b.DeadLetters, folded) {
		switch {
		case b.Letter == nil || l.Rule != b.Letter.Rule:
			fresh = append(fresh, l)
		case !slices.Contains(reasons, l.Reason):
			reasons = append(reasons, l.Reason)
		}
	}
	return strings.Join(reasons, "; "), fresh
}

func letterObject(id int64) string { return fmt.Sprintf("dead-letter/%d", id) }

// LettersAfter returns up to limit dead letters of a filter's Rule, RulePrefix, Subject and Reason that follow an id,
// oldest first.
func (s *Store) LettersAfter(ctx context.Context, f futurejobs.Filter, after int64, limit int) ([]futurejobs.DeadLetter, error) {
	w := filter{`SELECT ` + letterColumns + ` FROM dead_letter WHERE id > ?`, []any{after}}
	w.letters(f)
	letters, err := query(ctx, s.read, readLetter, rebindPlaceholders(w.text+` ORDER BY id LIMIT ?`), append(w.args, limit)...)
	if err != nil {
		return nil, wrapErr("dead letters", err)
	}
	return letters, nil
}

// DropLetter deletes a dead letter, or returns futurejobs.ErrNotFound.
func (s *Store) DropLetter(ctx context.Context, id int64) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		n, err := exec(ctx, tx, dropLetter, id)
		if err == nil && n == 0 {
			err = futurejobs.ErrNotFound
		}
		if err != nil {
			return err
		}
		return audit(ctx, tx, now, access.DeadLetterDrop, letterObject(id), "")
	})
	if err != nil {
		return wrapErr(fmt.Sprintf("drop dead letter %d", id), err)
	}
	return nil
}

// DropLetters deletes the dead letters that match a filter's Rule, RulePrefix, Subject and Reason, and returns their
// number.
func (s *Store) DropLetters(ctx context.Context, f futurejobs.Filter) (dropped int64, err error) {
	w := filter{`DELETE FROM dead_letter WHERE 1 = 1`, nil}
	w.letters(f)
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) (err error) {
		if dropped, err = exec(ctx, tx, rebindPlaceholders(w.text), w.args...); err != nil || dropped == 0 {
			return err
		}
		return audit(ctx, tx, now, access.DeadLetterDrop, "dead-letter", fmt.Sprintf("%d dropped%s", dropped, narrowed(f)))
	})
	if err != nil {
		return 0, wrapErr("drop dead letters", err)
	}
	return dropped, nil
}

// narrowed describes a filter in the audit log.
func narrowed(f futurejobs.Filter) string {
	said := ""
	if f.Rule != "" {
		said += " of rule " + f.Rule
	}
	if f.Subject != "" {
		said += " on " + f.Subject
	}
	if f.Reason != "" {
		said += " because: " + f.Reason
	}
	return said
}
