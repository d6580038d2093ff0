package alerts

import (
	"time"
)

// Notification is one message to one channel, about one alert or many. It is open to further
// alerts until it is tried for the first time.
type Notification struct {
	ID        int64
	Channel   string
	Route     string
	Topic     string // what its alerts have in common
	Alerts    int
	PlannedAt time.Time
	NextAt    time.Time
	Tries     int
}

// DeliveryState is what became of an alert on a channel.
type DeliveryState string

// The states of a delivery.
const (
	Waiting DeliveryState = "waiting" // for others to join it, or for another try
	Sent    DeliveryState = "sent"    // the channel took it
	Failed  DeliveryState = "failed"  // given up
	Muted   DeliveryState = "muted"
)

// Delivery is what became of one alert on one channel.
type Delivery struct {
	Channel string
	State   DeliveryState
	At      time.Time // sent or failed then, or tried next
	Tries   int
	Error   string // of the last try, when it failed
	Mute    int64  // 0: not muted
}

// Assignment is an alert's place in a plan: the message that it is told in, or the mute that
// keeps it from being told.
type Assignment struct {
	Alert    Alert
	Channel  string
	Notice   int // among the plan's notices; -1: muted
	Mute     int64
	Unclosed bool // it fires, and nothing in the plan closes it
}

// Plan is who is told what of news. It is carried out whole, or not at all.
type Plan struct {
	News    []Alert        // what is news no longer, and closes what it names
	Notices []Notification // new ones, and open ones (with an ID) with how many alerts they gain
	Placed  []Assignment
}

// PriorDelivery is where an alert was told before.
type PriorDelivery struct {
	Alert   ID
	Channel string
	Route   string
	Topic   string
}

// RouteChannel is the messages of a route to a channel.
type RouteChannel struct {
	Channel string
	Route   string
}

// ChannelState is how a channel does.
type ChannelState struct {
	Name         string
	Kind         string // empty: it is in no file any more
	Sent         int64  // messages
	SentAt       time.Time
	Waiting      int64 // messages
	Tries        int   // that failed, since it last worked
	FailingSince time.Time
	Error        string
}

// Mute keeps alerts from people for a while. The stream has them all the same.
type Mute struct {
	ID        int64
	Match     Match
	Reason    string
	CreatedAt time.Time
	CreatedBy string
	EndsAt    time.Time
	EndedBy   string // who ended it before its time; empty: nobody
}

// Live reports whether it mutes at an instant.
func (m Mute) Live(now time.Time) bool { return now.Before(m.EndsAt) }
