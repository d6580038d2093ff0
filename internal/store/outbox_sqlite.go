package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"deadman/alerts"
)

// MarkPublished implements alerts.Outbox.
func (e *sqlite) MarkPublished(ctx context.Context, sent []alerts.Alert) error {
	if err := e.write(ctx, func(w *writer, _ time.Time) error {
		for _, r := range rowsOf(sent) {
			if err := w.takeOut(r); err != nil {
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
func (w *writer) takeOut(r outboxRow) error {
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

// post writes the alerts of the transaction to the outbox.
func (w *writer) post() error {
	for _, shard := range slices.Sorted(maps.Keys(w.said)) {
		ids := w.said[shard]
		slices.SortFunc(ids, alertOrder)
		for part := range slices.Chunk(ids, rowMost) {
			if _, err := w.exec(postOne, shard, part[0][:], packed(part)); err != nil {
				return err
			}
		}
	}
	return nil
}
