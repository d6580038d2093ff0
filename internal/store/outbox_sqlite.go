package store

import (
	"context"
	"time"

	"deadman/alerts"
)

// sqliteOutbox removes published alerts from the outbox.
type sqliteOutbox struct{ *sqliteFile }

// MarkPublished implements alerts.Outbox.
func (e *sqliteOutbox) MarkPublished(ctx context.Context, sent []alerts.Alert) error {
	if err := e.write(ctx, func(w *writer, _ time.Time) error {
		for _, r := range rowsOf(sent) {
			if err := takeOut(w, r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return wrapErr("mark published", err)
	}
	return nil
}

// takeOut removes alerts from a row of the outbox, if the row exists.
func takeOut(w *writer, r outboxRow) error {
	var ids idList
	if ok, err := w.row([]any{&ids}, findRow, r.key()...); !ok || err != nil {
		return err
	}
	text, args := r.write(ids)
	if text == "" {
		return nil
	}
	_, err := w.exec(text, args...)
	return err
}
