package notify

import (
	"context"
	"time"

	"deadman/alerts"
)

// Store stores unrouted alerts, messages and deliveries. Implementations are safe for concurrent use.
type Store interface {
	Planning
	ContentStore
	StateStore
	DeliveryStore
}

// Planning loads the data for a plan and applies it.
type Planning interface {
	// UnroutedAlerts returns up to limit alerts that are not routed yet, oldest first within a shard. more reports whether
	// others may be left: alerts of many bytes end a read before limit.
	UnroutedAlerts(ctx context.Context, limit int) (found []alerts.Alert, more bool, err error)
	// PriorDeliveries returns the deliveries of the alerts that the given ones close.
	PriorDeliveries(ctx context.Context, closing []alerts.Alert) ([]alerts.PriorDelivery, error)
	// UnroutedAcks returns up to limit acknowledgements that the channels of their alerts are not told yet.
	UnroutedAcks(ctx context.Context, limit int) ([]alerts.JobAck, error)
	// AckDeliveries returns the newest delivery to each channel of an alert of acknowledged jobs, by job.
	AckDeliveries(ctx context.Context, acks []alerts.JobAck) (map[int64][]alerts.PriorDelivery, error)
	// LiveMutes returns the mutes that are in effect, oldest first.
	LiveMutes(ctx context.Context, now time.Time) ([]alerts.Mute, error)
	// Lane returns the newest messages of a lane, latest planned first.
	Lane(ctx context.Context, l alerts.RouteChannel, limit int) ([]alerts.Notification, error)
	// ApplyPlan applies a plan in one transaction. It returns futurejobs.ErrCursorMoved and changes nothing if
	// another plan was applied first, and futurejobs.ErrTooSlow for a plan that should be made in parts.
	ApplyPlan(ctx context.Context, p alerts.Plan) error
}

// ContentStore reads the content of messages.
type ContentStore interface {
	// Content returns the first alerts of a message.
	Content(ctx context.Context, n alerts.Notification, limit int) ([]alerts.Alert, error)
	// IsTopicOpen reports whether an alert of the topic of a message is open on its channel.
	IsTopicOpen(ctx context.Context, n alerts.Notification) (bool, error)
	// Summary returns the state of the keys of a message, with the alerts of up to limit of them.
	Summary(ctx context.Context, n alerts.Notification, limit int) (alerts.Summary, error)
	// NoticeAcks returns the acknowledgements of a message: counts, and up to limit of them.
	NoticeAcks(ctx context.Context, n alerts.Notification, limit int) (alerts.AckSummary, error)
	// Closed returns the alerts that the given ones close, if still stored.
	Closed(ctx context.Context, closing []alerts.Alert) ([]alerts.Alert, error)
	// AckKey returns the key that signs the links that acknowledge alerts.
	AckKey(ctx context.Context) ([]byte, error)
}

// StateStore reads the states of the alerts that a channel receives.
type StateStore interface {
	// MessagePage returns up to limit alerts of a message, in the order of ids from after on; none: the message has no
	// more.
	MessagePage(ctx context.Context, message int64, after alerts.ID, limit int) ([]alerts.DeliveredAlert, error)
	// DeliveredClosed returns the alerts that the given ones close and that a channel received.
	DeliveredClosed(ctx context.Context, channel string, closing []alerts.Alert) ([]alerts.Alert, error)
	// EachOpen passes all open alerts that a channel received to do, up to limit at a time.
	EachOpen(ctx context.Context, channel string, limit int, do func([]alerts.Alert) error) error
}

// DeliveryStore stores the state of sending messages to channels.
type DeliveryStore interface {
	// Ready returns the next due message of each channel.
	Ready(ctx context.Context, now time.Time) ([]alerts.Notification, error)
	// ClaimNotification claims a message for an attempt, and returns its final form, as no alert can join it any
	// more. ok is false if it is already claimed.
	ClaimNotification(ctx context.Context, n alerts.Notification, next time.Time) (claimed alerts.Notification, ok bool, err error)
	// Sent records that a channel accepted a message. A warning names recipients that it was not accepted for.
	Sent(ctx context.Context, n alerts.Notification, now time.Time, warning string) error
	// MarkFailed records that a channel did not accept a message, and returns the channel's state. The message with the
	// id 0 is none: the channel failed without one.
	MarkFailed(ctx context.Context, n alerts.Notification, reason string, now, next time.Time) (alerts.ChannelState, error)
	// ChannelWorks records that a failing channel works, without a message.
	ChannelWorks(ctx context.Context, name string) error
	// GiveUp gives up messages planned before the given time, and writes the alert of lost for each of their channels with
	// them. It returns their numbers by channel, and the alerts.
	GiveUp(ctx context.Context, before, now time.Time, lost func(channel string, messages int) alerts.SystemAlert) (given map[string]int, raised []alerts.Alert, err error)
	// Channels returns the states of all channels with at least one attempt.
	Channels(ctx context.Context) ([]alerts.ChannelState, error)
}
