package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"deadman/alerts"
)

// withoutDeadline is the context of a writer's statements: a transaction always runs to its end, and no statement pays
// for watching a cancellable context.
var withoutDeadline = context.Background()

// writer is a transaction that runs few statements many times.
type writer struct {
	tx    *sql.Tx
	known map[string]*sql.Stmt // prepared on the connection
	stmts map[string]*sql.Stmt // of the transaction, closed with it
	// raised has the alerts of the transaction, by shard.
	raised map[int16][]alerts.ID
}

func (w *writer) stmt(text string) (*sql.Stmt, error) {
	if s, ok := w.stmts[text]; ok {
		return s, nil
	}
	var s *sql.Stmt
	var err error
	if known, ok := w.known[text]; ok {
		s = w.tx.StmtContext(withoutDeadline, known)
	} else if s, err = w.tx.PrepareContext(withoutDeadline, text); err != nil {
		return nil, err
	}
	w.stmts[text] = s
	return s, nil
}

// exec returns the number of written rows.
func (w *writer) exec(text string, args ...any) (int64, error) {
	s, err := w.stmt(text)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(withoutDeadline, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// row reads one row into dest; ok is false if the result is empty.
func (w *writer) row(dest []any, text string, args ...any) (ok bool, err error) {
	s, err := w.stmt(text)
	if err != nil {
		return false, err
	}
	switch err := s.QueryRowContext(withoutDeadline, args...).Scan(dest...); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	default:
		return err == nil, err
	}
}

// post writes the alerts of the transaction to the outbox.
func (w *writer) post() error {
	for _, shard := range slices.Sorted(maps.Keys(w.raised)) {
		ids := w.raised[shard]
		slices.SortFunc(ids, alertOrder)
		for part := range slices.Chunk(ids, rowMost) {
			if _, err := w.exec(postOne, shard, part[0][:], packed(part)); err != nil {
				return err
			}
		}
	}
	return nil
}

// changedRules returns the rules that have changed since a revision, according to a statement.
func (w *writer) changedRules(rules []int32, cursors string, revision int64) (changed []int32, err error) {
	for _, id := range rules {
		var one int
		ok, err := w.row([]any{&one}, cursors, id, revision)
		if err != nil {
			return nil, err
		}
		if !ok {
			changed = append(changed, id)
		}
	}
	return changed, nil
}
