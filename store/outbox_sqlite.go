package store

import (
	"context"
	"time"

	"deadman/alerts"
)

const sentOne = `DELETE FROM alert_outbox WHERE shard = $1 AND id = $2`

// MarkPublished implements alerts.Outbox.
func (e *sqlite) MarkPublished(ctx context.Context, sent []alerts.Alert) error {
	if err := e.write(ctx, func(w *writer, _ time.Time) error {
		for _, a := range sent {
			if _, err := w.exec(sentOne, a.Shard, a.ID[:]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return failed("mark published", err)
	}
	return nil
}
