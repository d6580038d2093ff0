package alerts

import (
	"context"
	"fmt"
	"time"
)

// Outbox holds the alerts that were decided and are not in the stream yet. Implementations
// are safe for concurrent use.
type Outbox interface {
	// Unpublished returns up to limit alerts of the shards, without those of some rules, oldest
	// first within a shard: what was decided about a job comes in the order in which it was.
	Unpublished(ctx context.Context, shards []int16, limit int, without []string) ([]Alert, error)
	// MarkPublished records that alerts which Unpublished returned are in the stream. It may be
	// called again.
	MarkPublished(ctx context.Context, sent []Alert) error
}

// OutboxKey is the row of an outbox that an alert waits in. It means something to that outbox alone.
type OutboxKey struct {
	At    time.Time
	First ID
}

// Again says whether an alert of the outbox is published again, as an admin wants it: no quota withholds it.
type Again uint8

// What an alert that is published again was before.
const (
	NotAgain     Again = iota // the alert was never published
	WasPublished              // the alert counts toward its quotas already
	WasWithheld               // by a quota
)

// Quotas bound how many alerts rules publish. Implementations are safe for concurrent use.
type Quotas interface {
	// Admit returns the alerts of a batch that are to be published, in their order. Those that a quota has no room for are taken out
	// of the outbox. Alerts that are published again have room.
	Admit(ctx context.Context, batch []Alert) ([]Alert, error)
	// Return takes back alerts that were admitted and not published.
	Return(unsent []Alert)
}

// Publisher puts alerts into the stream.
type Publisher interface {
	// Publish returns the alerts that the stream acknowledged, or was found to hold
	// already, and why others did not get out: a *Refusal where that is about some alerts alone,
	// and another error where nothing gets out at the moment. Order is kept within a line.
	Publish(ctx context.Context, batch []Alert) (sent []Alert, err error)
}

// RejectedError means that alerts were refused, each for a reason of its own. What is behind them in
// their lines was not sent; everything else was.
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

// Unwrap returns why the first alert was refused.
func (r *RejectedError) Unwrap() error { return r.Err }
