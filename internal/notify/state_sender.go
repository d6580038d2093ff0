package notify

import (
	"context"
	"errors"
	"time"

	"deadman/alerts"
)

// The limits of sending states to Alertmanagers.
const (
	statesOfPage = 500              // alerts in a request
	messagePages = 20               // of one message; the open alerts beyond follow in the next round
	stateTime    = 45 * time.Second // of a message; less than claimTime
	roundTries   = 3                // the pause after a failed round is that of a message after as many attempts
)

// errRoundOver ends a round of a node that no longer is the notifying node.
var errRoundOver = errors.New("another node sends the open alerts")

// stateSender sends the states of alerts to Alertmanagers: those of a message, and in rounds those of all open alerts. A
// channel has one sender at a time, and each page is read right before it is sent, so that no open alert is sent after its
// end.
type stateSender struct {
	store    StateStore
	holds    func() bool
	now      func() time.Time
	alertURL func(alerts.ID) string
	describe func(rule string) string
}

// message sends the alerts of a message. refused is the error of the channel.
func (s *stateSender) message(ctx context.Context, c *alertmanager, m alerts.Notification) (refused, err error) {
	after := alerts.ID{}
	for range messagePages {
		page, err := s.store.MessagePage(ctx, m.ID, after, statesOfPage)
		if err != nil || len(page) == 0 {
			return nil, err
		}
		after = page[len(page)-1].ID
		posted, err := s.posted(ctx, c, m.Channel, page)
		if err != nil {
			return nil, err
		}
		if refused := c.push(ctx, posted, false); refused != nil {
			return refused, nil
		}
	}
	return nil, nil
}

// round sends all open alerts of a channel again. refused is the error of the channel.
func (s *stateSender) round(ctx context.Context, c *alertmanager, channel string) (refused, err error) {
	refused = c.beginRound(ctx, s.now())
	if refused != nil {
		return refused, nil
	}
	err = s.store.EachOpen(ctx, channel, statesOfPage, func(page []alerts.Alert) error {
		if !s.holds() {
			return errRoundOver
		}
		now := s.now()
		posted := make([]postedAlert, len(page))
		for i, a := range page {
			posted[i] = c.firing(s.linked(a), now, s.describe(a.Rule))
		}
		refused = c.push(ctx, posted, true)
		return refused
	})
	if refused != nil || errors.Is(err, errRoundOver) {
		return refused, nil
	}
	return nil, err
}

// posted converts alerts of a message to a channel.
//
//  1. A resolved alert is sent as the alerts that it closes, with its end.
//  2. An open alert fires until it is not sent again.
//  3. A closed alert is not sent: the message that resolves it may have been sent before.
//  4. An alert of an ended job fires for a while. Nothing ends it later, and nothing sends it again.
func (s *stateSender) posted(ctx context.Context, c *alertmanager, channel string, page []alerts.DeliveredAlert) ([]postedAlert, error) {
	closed, err := s.closedBy(ctx, channel, page)
	if err != nil {
		return nil, err
	}
	now := s.now()
	var posted []postedAlert
	for _, a := range page {
		description := s.describe(a.Rule)
		switch {
		case a.Status == alerts.Resolved:
			for _, fired := range closed[a.ID] {
				fired.Text = a.Text
				p := newPostedAlert(s.linked(fired), a.DecidedAt, description)
				p.resolvedAt = a.DecidedAt
				posted = append(posted, p)
			}
		case a.Open:
			posted = append(posted, c.firing(s.linked(a.Alert), now, description))
		case a.Closed:
		case a.DecidedAt.Add(endedTime).After(now):
			posted = append(posted, newPostedAlert(s.linked(a.Alert), a.DecidedAt.Add(endedTime), description))
		}
	}
	return posted, nil
}

// closedBy returns the alerts of a channel that resolved alerts of a page close, by the resolved alert.
func (s *stateSender) closedBy(ctx context.Context, channel string, page []alerts.DeliveredAlert) (map[alerts.ID][]alerts.Alert, error) {
	var closing []alerts.Alert
	for _, a := range page {
		if a.Status == alerts.Resolved {
			closing = append(closing, a.Alert)
		}
	}
	if len(closing) == 0 {
		return nil, nil
	}
	fired, err := s.store.DeliveredClosed(ctx, channel, closing)
	if err != nil {
		return nil, err
	}
	byID := make(map[alerts.ID]alerts.Alert, len(fired))
	for _, f := range fired {
		byID[f.ID] = f
	}
	closed := make(map[alerts.ID][]alerts.Alert)
	for _, a := range closing {
		for _, id := range a.Closes {
			if f, ok := byID[id]; ok {
				closed[a.ID] = append(closed[a.ID], f)
			}
		}
	}
	return closed, nil
}

// linked returns an alert with the link to its page.
func (s *stateSender) linked(a alerts.Alert) alerts.Alert {
	a.URL = s.alertURL(a.ID)
	return a
}
