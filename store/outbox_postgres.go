package store

import (
	"context"

	"deadman/alerts"
)

// MarkPublished implements alerts.Outbox.
func (p *postgres) MarkPublished(ctx context.Context, sent []alerts.Alert) error {
	ctx, cancel := patiently(ctx)
	defer cancel()
	shards, ids := make([]int16, len(sent)), make([][16]byte, len(sent))
	for i, a := range sent {
		shards[i], ids[i] = a.Shard, a.ID
	}
	err := again(ctx, p.passing, func() error {
		_, err := p.pool.Exec(ctx, `DELETE FROM alert_outbox o USING unnest($1::smallint[], $2::uuid[]) AS sent (shard, id)
WHERE o.shard = sent.shard AND o.id = sent.id`, shards, ids)
		return err
	})
	if err != nil {
		return failed("mark published", err)
	}
	return nil
}
