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
}

// Channel is a channel as the API returns it, without its address.
type Channel struct {
	Name         string    `json:"name" example:"on-call"`
	Kind         string    `json:"kind,omitempty" doc:"Absent: it is in no file any more, and messages wait for it." example:"slack"`
	State        string    `json:"state" enum:"new,working,failing" doc:"new: nothing was sent yet."`
	Waiting      int64     `json:"waiting" doc:"Messages that it has not taken yet."`
	Sent         int64     `json:"sent" doc:"Messages that it has taken, ever."`
	SentAt       time.Time `json:"sent_at,omitzero" doc:"When it took the last one."`
	FailingSince time.Time `json:"failing_since,omitzero"`
	FailedTries  int       `json:"failed_tries,omitempty" doc:"Since it last worked."`
	Error        string    `json:"error,omitempty" doc:"Why it did not take the last message; without secrets."`
}

func newChannel(c alerts.ChannelState) Channel {
	out := Channel{
		Name: c.Name, Kind: c.Kind, State: "working", Waiting: c.Waiting, Sent: c.Sent, SentAt: c.SentAt,
		FailingSince: c.FailingSince, FailedTries: c.Tries, Error: c.Error,
	}
	switch {
	case !c.FailingSince.IsZero():
		out.State = "failing"
	case c.Sent == 0:
		out.State = "new"
	}
	return out
}

// Tested is the result of a test.
type Tested struct {
	Channel string `json:"channel"`
	Taken   bool   `json:"taken"`
	Reason  string `json:"reason,omitempty" doc:"Why it did not take the message; without secrets."`
}

// Delivery is the delivery of an alert on a channel, as the API returns it.
type Delivery struct {
	Channel string    `json:"channel" example:"on-call"`
	State   string    `json:"state" enum:"waiting,sent,failed,muted" doc:"waiting: for others to join it, or for another try. failed: given up."`
	At      time.Time `json:"at,omitzero" doc:"Sent or given up then, or tried next."`
	Tries   int       `json:"tries"`
	Error   string    `json:"error,omitempty" doc:"Of the last try that failed."`
	Mute    int64     `json:"mute,omitempty" doc:"The id of the mute that kept it from being told."`
}

// channelAPI has the operations on channels.
type channelAPI struct {
	channels Channels       // nil: the node has none
	keeper   *access.Tokens // nil: the node keeps no audit log
}

func (a *channelAPI) register(all *operations) {
	register(all, operation{
		ID: "list-channels", Tag: tagPeople, Method: "GET", Path: "/channels", Does: "lists the channels by which people are told, and how they do",
		Scope: access.Read, Reach: reachAll,
	}, withBody(a.list))
	register(all, operation{
		ID: "test-channel", Tag: tagPeople, Method: "POST", Path: "/channels/{name}/test", Does: "sends a channel a message that says that it is a test",
		Says:  "It goes out at once, whatever the routes and mutes say, and is not tried again. The test is audited.",
		Scope: access.Admin, Reach: reachAll, Status: http.StatusOK, Errors: []int{http.StatusNotFound},
	}, withBody(a.test))
}

// noChannels is the error of a node without channels.
func noChannels() error {
	return problem(http.StatusNotFound, "this node has no channels; start it with --notify and a file of channels")
}

// channelListIn selects a page of the channels.
type channelListIn struct {
	Limit  int        `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"How many items the page has at most."`
	Cursor identifier `query:"cursor" doc:"Where the page before ended: its next. Leave it out for the first page."`
}

func (a *channelAPI) list(ctx context.Context, in *channelListIn) (Page[Channel], error) {
	page := Page[Channel]{Items: []Channel{}}
	if a.channels == nil {
		return page, nil
	}
	states, err := a.channels.Channels(ctx)
	for _, c := range states {
		switch {
		case c.Name <= string(in.Cursor):
		case len(page.Items) == in.Limit:
			page.Next = page.Items[in.Limit-1].Name
			return page, err
		default:
			page.Items = append(page.Items, newChannel(c))
		}
	}
	return page, err
}

func (a *channelAPI) test(ctx context.Context, in *struct {
	Name identifier `path:"name" doc:"The channel's name." example:"on-call"`
},
) (Tested, error) {
	if a.channels == nil {
		return Tested{}, noChannels()
	}
	reason, err := a.channels.Test(ctx, string(in.Name))
	if err != nil {
		return Tested{}, err
	}
	err = noteTest(ctx, a.keeper, access.ChannelTest, "channel/"+string(in.Name), cmp.Or(reason, "taken"))
	return Tested{Channel: string(in.Name), Taken: reason == "", Reason: reason}, err
}
