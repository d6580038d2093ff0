package alerts

import "context"

// Outbox holds the alerts that were decided and are not in the stream yet. Implementations
// are safe for concurrent use.
type Outbox interface {
	// Unpublished returns up to limit alerts of the shards, oldest first within a shard.
	Unpublished(ctx context.Context, shards []int16, limit int) ([]Alert, error)
	// MarkPublished records that the alerts are in the stream. It may be called again.
	MarkPublished(ctx context.Context, sent []Alert) error
}

// Publisher puts alerts into the stream.
type Publisher interface {
	// Publish returns the alerts that the stream acknowledged, or was found to hold
	// already, and the first error of the others. Order is kept.
	Publish(ctx context.Context, batch []Alert) (sent []Alert, err error)
}
