package web

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"deadman/alerts"
	"deadman/internal/access"
)

// Channels lists and tests notification channels. Implementations are safe for concurrent use.
type Channels interface {
	// Channels returns the states of the channels, sorted by name.
	Channels(ctx context.Context) ([]alerts.ChannelState, error)
	// Test sends a test message to a channel. The reason is the channel's refusal, or "". An unknown channel is
	// futurejobs.ErrNotFound.
	Test(ctx context.Context, name string) (reason string, err error)
	// Reached returns the channels that the routes send an alert to.
	Reached(a alerts.Alert) []string
}

// Channel is a channel as the API returns it, without its address.
type Channel struct {
	Name           string    `json:"name" doc:"Name of the channel." example:"on-call"`
	Kind           string    `json:"kind,omitempty" doc:"Type of the channel. Absent if the channel is no longer configured but has pending notifications." example:"slack"`
	State          string    `json:"state" enum:"new,working,failing" doc:"new: no notification was sent yet. working: the last notification was accepted. failing: the last attempt failed."`
	Pending        int64     `json:"pending" doc:"Number of notifications that the channel has not accepted yet."`
	Sent           int64     `json:"sent" doc:"Number of notifications that the channel has accepted in total."`
	SentAt         time.Time `json:"sent_at,omitzero" doc:"Time of the last accepted notification."`
	FailingSince   time.Time `json:"failing_since,omitzero" doc:"Time of the first failed attempt since the last success."`
	FailedAttempts int       `json:"failed_attempts,omitempty" doc:"Number of failed attempts since the last success."`
	Error          string    `json:"error,omitempty" doc:"Error of the last failed attempt, or the recipients that a mail server refused of the last accepted notification, without secrets."`
	EventRules     []string  `json:"event_rules,omitempty" doc:"Names of the rules that post the events of their stored schedules to the channel. Events are not notifications: state, sent and error do not include them. The ticks of each rule have their results." example:"report-due" nullable:"false"`
}

func newChannel(c alerts.ChannelState) Channel {
	out := Channel{
		Name: c.Name, Kind: c.Kind, State: "working", Pending: c.Waiting, Sent: c.Sent, SentAt: c.SentAt,
		FailingSince: c.FailingSince, FailedAttempts: c.Tries, Error: c.Error,
	}
	switch {
	case !c.FailingSince.IsZero():
		out.State = "failing"
	case c.Sent == 0:
		out.State = "new"
	}
	return out
}

// ChannelTestResult is the result of a test.
type ChannelTestResult struct {
	Channel   string `json:"channel" doc:"Name of the channel."`
	Delivered bool   `json:"delivered" doc:"Whether the channel accepted the test message."`
	Reason    string `json:"reason,omitempty" doc:"Reason of the failure, without secrets."`
}

// Delivery is the delivery of an alert on a channel, as the API returns it.
type Delivery struct {
	Channel  string    `json:"channel" doc:"Name of the channel." example:"on-call"`
	State    string    `json:"state" enum:"pending,sent,failed,muted" doc:"pending: to be sent, grouped with other alerts or after a failed attempt. sent: accepted by the channel. failed: given up. muted: suppressed by a mute."`
	At       time.Time `json:"at,omitzero" doc:"Time of the delivery or of the last attempt. While pending, time of the next attempt."`
	Attempts int       `json:"attempts" doc:"Number of attempts."`
	Error    string    `json:"error,omitempty" doc:"Error of the last failed attempt, or the recipients that a mail server refused of a sent notification."`
	Mute     int64     `json:"mute,omitempty" doc:"ID of the mute that suppressed the notification."`
}

// channelAPI has the operations on channels.
type channelAPI struct {
	channels Channels       // nil: the node has none
	keeper   *access.Tokens // nil: the node keeps no audit log
	links    AckLinks       // nil: the node has none
	rules    Rules
}

func (a *channelAPI) register(all *operations) {
	register(all, operation{
		ID: "list-channels", Tag: tagPeople, Method: "GET", Path: "/channels", Summary: "list notification channels and their state",
		Scope: access.Read, Reach: reachAll,
	}, withBody(a.list))
	register(all, operation{
		ID: "test-channel", Tag: tagPeople, Method: "POST", Path: "/channels/{name}/test", Summary: "send a test message to a channel",
		Description: "The message is sent immediately, regardless of routes and mutes, and is not retried. The test is recorded in the audit log.",
		Scope:       access.Admin, Reach: reachAll, Status: http.StatusOK, Errors: []int{http.StatusNotFound},
	}, withBody(a.test))
	register(all, operation{
		ID: "revoke-ack-links", Tag: tagPeople, Method: "DELETE", Path: "/channels/links", Summary: "revoke all links and buttons that acknowledge alerts",
		Description: "Replaces the key of the links. All links and buttons in messages that were sent before are invalid at once, on all nodes. Later " +
			"messages have new ones.",
		Scope: access.Admin, Reach: reachAll,
	}, noContent(a.revokeLinks))
}

// noChannels is the error of a node without channels.
func noChannels() error {
	return problem(http.StatusNotFound, "this node has no channels; start it with --notify and a channels file")
}

func (a *channelAPI) list(ctx context.Context, in *wholeListIn) (Page[Channel], error) {
	if a.channels == nil {
		return Page[Channel]{Items: []Channel{}}, nil
	}
	posting, err := a.eventRules(ctx)
	if err != nil {
		return Page[Channel]{}, err
	}
	states, err := a.channels.Channels(ctx)
	if err != nil {
		return Page[Channel]{}, err
	}
	all := make([]Channel, len(states))
	for i, c := range states {
		all[i] = newChannel(c)
		all[i].EventRules = posting[c.Name]
	}
	return pageOfNamed(in, all, func(c Channel) string { return c.Name }), nil
}

// eventRules returns the names of the rules that post events of stored schedules, by channel.
func (a *channelAPI) eventRules(ctx context.Context) (map[string][]string, error) {
	all, err := a.rules.List(ctx)
	if err != nil {
		return nil, err
	}
	posting := make(map[string][]string)
	for _, l := range all {
		if emit := l.Document.Trigger.Emit; l.Err == nil && emit != nil && emit.Webhook != "" {
			posting[emit.Webhook] = append(posting[emit.Webhook], l.Name)
		}
	}
	return posting, nil
}

func (a *channelAPI) test(ctx context.Context, in *struct {
	Name identifier `path:"name" doc:"Name of the channel." example:"on-call"`
},
) (ChannelTestResult, error) {
	if a.channels == nil {
		return ChannelTestResult{}, noChannels()
	}
	reason, err := a.channels.Test(ctx, string(in.Name))
	if err != nil {
		return ChannelTestResult{}, err
	}
	err = noteTest(ctx, a.keeper, access.ChannelTest, "channel/"+string(in.Name), cmp.Or(reason, "taken"))
	return ChannelTestResult{Channel: string(in.Name), Delivered: reason == "", Reason: reason}, err
}

func (a *channelAPI) revokeLinks(ctx context.Context, _ *nothing) error {
	if a.links == nil {
		return noChannels()
	}
	return a.links.Revoke(ctx)
}
