package notify

import (
	"context"
	"time"

	"deadman/alerts"
)

// Store keeps what is news, the messages that are made of it, and what became of them.
// Implementations are safe for concurrent use.
type Store interface {
	Planning
	DeliveryStore
}

// Planning is what a plan is made from, and carried out by.
type Planning interface {
	// UnroutedAlerts returns up to limit alerts that nobody has routed yet, oldest first within a shard.
	UnroutedAlerts(ctx context.Context, limit int) ([]alerts.Alert, error)
	// PriorDeliveries returns where what the alerts close was told.
	PriorDeliveries(ctx context.Context, closing []alerts.Alert) ([]alerts.PriorDelivery, error)
	// LiveMutes returns the mutes that have not ended, oldest first.
	LiveMutes(ctx context.Context, now time.Time) ([]alerts.Mute, error)
	// Lane returns the newest messages of a lane, the one planned last first.
	Lane(ctx context.Context, l alerts.RouteChannel, most int) ([]alerts.Notification, error)
	// ApplyPlan carries a plan out in one transaction, or returns futurejobs.ErrCursorMoved and has done
	// nothing: somebody was faster.
	ApplyPlan(ctx context.Context, p alerts.Plan) error
}

// DeliveryStore is what is asked and said while messages are handed to channels.
type DeliveryStore interface {
	// Ready returns the next message of each channel whose time has come.
	Ready(ctx context.Context, now time.Time) ([]alerts.Notification, error)
	// ClaimNotification says that a message is being tried, and returns it as no alert can join it any
	// more; ok is false where somebody tries it already.
	ClaimNotification(ctx context.Context, n alerts.Notification, next time.Time) (claimed alerts.Notification, ok bool, err error)
	// Content returns the first alerts of a message, and how many of its topic still fire.
	Content(ctx context.Context, n alerts.Notification, most int) (said []alerts.Alert, unclosed int, err error)
	// Closed returns what the alerts close, as far as it is kept.
	Closed(ctx context.Context, closing []alerts.Alert) ([]alerts.Alert, error)
	// Sent notes that a channel took a message.
	Sent(ctx context.Context, n alerts.Notification, now time.Time) error
	// MarkFailed notes that it did not, and returns how the channel does.
	MarkFailed(ctx context.Context, n alerts.Notification, reason string, now, next time.Time) (alerts.ChannelState, error)
	// GiveUp gives up messages that were planned before, and returns how many.
	GiveUp(ctx context.Context, before, now time.Time) (int64, error)
	// Channels returns how the channels do that were ever tried.
	Channels(ctx context.Context) ([]alerts.ChannelState, error)
}
