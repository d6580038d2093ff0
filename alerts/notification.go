package alerts

import (
	"fmt"
	"time"
)

// Notification is one message to one channel about one or more alerts. Further alerts can join it until its first
// attempt.
type Notification struct {
	ID        int64
	Channel   string
	Route     string
	Topic     string // the common property of its alerts
	Alerts    int
	PlannedAt time.Time
	NextAt    time.Time
	Tries     int
}

// KeyState is the newest alert of a notification about one key of a rule.
type KeyState struct {
	Alert
	Closed bool // the alert is firing, and a later alert has closed it
}

// IsResolved reports whether the key is resolved.
func (k KeyState) IsResolved() bool { return k.Closed || k.Status == Resolved }

// KeyCount counts the keys of a notification by their newest alerts.
type KeyCount struct {
	Rule     string
	Resolved bool
	Severity Severity
	Count    int
}

// Summary is the state of the keys of a notification.
type Summary struct {
	Counts []KeyCount
	Keys   []KeyState // the first ones: of each rule the most severe, then the next of each, resolved ones last
}

// DeliveryState is the state of an alert's delivery to a channel.
type DeliveryState string

// The states of a delivery.
const (
	Waiting DeliveryState = "waiting" // for further alerts to join it, or for another attempt
	Sent    DeliveryState = "sent"    // accepted by the channel
	Failed  DeliveryState = "failed"  // given up
	Muted   DeliveryState = "muted"
)

// Delivery describes the delivery of one alert to one channel.
type Delivery struct {
	Channel string
	State   DeliveryState
	At      time.Time // time of sending or failure, or of the next attempt
	Tries   int
	Error   string // of the last attempt, if it failed
	Mute    int64  // 0: not muted
}

// DeliveredAlert is an alert that a channel receives, with its state. A large event or state of its job is left out.
type DeliveredAlert struct {
	Alert
	Open   bool // the alert's job is pending, or its condition holds
	Closed bool // a later alert has closed it
}

// Assignment assigns an alert of a plan to a notification, or to the mute that suppresses it.
type Assignment struct {
	Alert        Alert
	Channel      string
	Notification int // index in the plan's Notifications; -1: muted
	Mute         int64
	Unclosed     bool // it fires, and no alert of the plan closes it
}

// JobAck is the acknowledgement of a job.
type JobAck struct {
	Shard int16
	JobID int64
	Alert ID   // the acknowledged alert
	All   []ID // all alerts of the job, oldest first; empty: the job has ended
	By    string
	At    time.Time
	Until time.Time // checks.Forever: until the job is resolved
	Note  string
}

// ShownAck is an acknowledgement in a notification.
type ShownAck struct {
	Alert Alert // the acknowledged alert
	By    string
	Until time.Time
	Note  string
}

// AckCount counts the jobs of a notification that one acknowledgement covers.
type AckCount struct {
	By    string
	Until time.Time
	Note  string
	Count int
}

// AckSummary is the acknowledgements of a notification.
type AckSummary struct {
	Counts []AckCount // the first ones, highest number first
	First  []ShownAck
}

// AckAssignment assigns an acknowledgement to a notification.
type AckAssignment struct {
	Ack          JobAck
	Notification int // index in the plan's Notifications
}

// Plan assigns new alerts and acknowledgements to notifications. It is applied atomically.
type Plan struct {
	Alerts        []Alert        // alerts routed by the plan; they close the alerts in their Closes
	Notifications []Notification // new ones, and open ones (with an ID) with the number of alerts added to them
	Assignments   []Assignment

	Acks           []JobAck // acknowledgements that the plan tells, or that no channel has to know
	AckAssignments []AckAssignment
}

// PriorDelivery records an earlier delivery of an alert.
type PriorDelivery struct {
	Alert   ID
	Channel string
	Route   string
	Topic   string
}

// RouteChannel identifies the messages of a route to a channel.
type RouteChannel struct {
	Channel string
	Route   string
}

// ChannelState describes the health of a channel.
type ChannelState struct {
	Name         string
	Kind         string // empty: no longer configured
	Sent         int64  // messages
	SentAt       time.Time
	Waiting      int64 // messages
	Tries        int   // failed attempts since the last success
	FailingSince time.Time
	Error        string
}

// FailingAfter is the number of consecutive failed attempts after which a channel raises an alert.
const FailingAfter = 3

// ChannelAlert returns the alert about a channel that has been failing since the given time.
func ChannelAlert(channel string, status Status, since time.Time) SystemAlert {
	return SystemAlert{
		Topic: "channel/" + channel, Status: status, Severity: Error, Since: since, Labels: map[string]string{"channel": channel},
	}
}

// MaxLiveMutes is the maximum number of mutes that have not ended: each alert is matched against all of them.
const MaxLiveMutes = 1000

// ErrTooManyMutes means that MaxLiveMutes mutes are in effect or begin later.
var ErrTooManyMutes = fmt.Errorf("%d mutes are in effect or begin later, the limit; end some, or use one with a wider pattern", MaxLiveMutes)

// Mute suppresses notifications for a while. The alerts are still in the stream.
type Mute struct {
	ID        int64
	Match     Match
	Reason    string
	CreatedAt time.Time
	CreatedBy string
	StartsAt  time.Time // zero: at its creation
	EndsAt    time.Time
	EndedBy   string // actor that ended it early; empty if not ended early
}

// MuteState is the state of a mute at a time.
type MuteState string

// The states of a mute.
const (
	MutePending MuteState = "pending" // it begins later
	MuteActive  MuteState = "active"
	MuteEnded   MuteState = "ended"
)

// State returns the state of the mute at the given time.
func (m Mute) State(now time.Time) MuteState {
	switch {
	case !now.Before(m.EndsAt):
		return MuteEnded
	case now.Before(m.StartsAt):
		return MutePending
	}
	return MuteActive
}

// Span describes the times of the mute.
func (m Mute) Span() string {
	until := "until " + m.EndsAt.UTC().Format(time.RFC3339)
	if m.StartsAt.IsZero() {
		return until
	}
	return "from " + m.StartsAt.UTC().Format(time.RFC3339) + " " + until
}
