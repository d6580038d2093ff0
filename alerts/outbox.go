package alerts

import (
	"context"
	"fmt"
	"time"
)

// Outbox holds alerts that were decided and are not yet in the stream. Implementations are safe for concurrent use.
type Outbox interface {
	// Unpublished returns up to limit alerts of the shards, without those of the excluded rules, oldest first within
	// a shard: the alerts of a job keep the order of their decisions. more reports whether others may be left: alerts of
	// many bytes end a read before limit.
	Unpublished(ctx context.Context, shards []int16, limit int, without []string) (found []Alert, more bool, err error)
	// MarkPublished records that alerts returned by Unpublished are in the stream. Repeated calls are safe.
	MarkPublished(ctx context.Context, sent []Alert) error
}

// OutboxKey identifies the outbox row of an alert. Only that outbox can interpret it.
type OutboxKey struct {
	At    time.Time
	First ID
}

// Republication tells whether an admin requested another publication of the alert. No quota withholds such an alert.
type Republication uint8

// The values of Republication, by the previous state of the alert.
const (
	NotRepublished Republication = iota // the alert was never published
	WasPublished                        // the alert already counts toward its quotas
	WasWithheld                         // by a quota
)

// Quotas bound the number of published alerts of rules. Implementations are safe for concurrent use.
type Quotas interface {
	// Admit returns the alerts of a batch that may be published, in their order. It removes alerts that exceed a
	// quota from the outbox. Alerts that are published again are always admitted.
	Admit(ctx context.Context, batch []Alert) ([]Alert, error)
	// Return releases the quota of alerts that were admitted and not published.
	Return(unsent []Alert)
}

// Publisher publishes alerts to the stream.
type Publisher interface {
	// Publish returns the alerts that the stream acknowledged or already held. The error is a *RejectedError if only
	// some alerts failed, and another error if nothing can be published at the moment. Order is kept within a line.
	Publish(ctx context.Context, batch []Alert) (sent []Alert, err error)
}

// RejectedError means that alerts were rejected, each for its own reason. Alerts behind them in their lines were not
// sent; all others were.
type RejectedError struct {
	Alerts []Alert
	Err    error // of the first of them
}

// Error implements error.
func (r *RejectedError) Error() string {
	if len(r.Alerts) == 1 {
		return r.Err.Error()
	}
	return fmt.Sprintf("%v (and %d more alerts are refused)", r.Err, len(r.Alerts)-1)
}

// Unwrap returns the error of the first rejected alert.
func (r *RejectedError) Unwrap() error { return r.Err }
