package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"deadman/alerts"
	"deadman/internal/acklinks"
	"deadman/internal/failpoints"
)

// The counted outcomes of attempts.
const (
	outcomeSent   = "sent"
	outcomeFailed = "failed"
)

// sender sends messages to the channels of a file. It is safe for concurrent use.
type sender struct {
	store     Store
	file      atomic.Pointer[channelSet]
	holds     func() bool
	now       func() time.Time
	publicURL string
	log       *slog.Logger
	announce  func(context.Context, alerts.SystemAlert) error
	outlook   func(context.Context, alerts.Alert) (Outlook, error)
	count     func(channel, outcome string, n int)
	states    *stateSender
	wake      chan struct{}
	tracing   BeginTrace // nil: messages are not traced
	sending   sync.WaitGroup

	mu      sync.Mutex
	busy    map[string]bool      // channels with a message or a round in progress
	rests   map[string]time.Time // failed channels, with the end of their pause
	roundAt map[string]time.Time // Alertmanagers, with the start of their last round
}

// channelSet holds the channels and routes in use. It is immutable.
type channelSet struct {
	routes   []Route
	zone     *time.Location
	specs    map[string]Spec
	channels map[string]Channel
}

// receivesAcks reports whether a channel is told of acknowledgements. Alertmanager's formats have none, and an incident of
// PagerDuty is about a topic, whose other alerts an acknowledgement would silence.
func (s *channelSet) receivesAcks(channel string) bool {
	spec, ok := s.specs[channel]
	return ok && spec.Kind != Alertmanager && spec.Kind != AlertmanagerWebhook && spec.Kind != PagerDuty
}

// groups reports whether a channel groups and limits alerts itself, in place of the routes.
func (s *channelSet) groups(channel string) bool { return s.specs[channel].Kind == Alertmanager }

// hasAckLinks reports whether the messages of a channel have links that acknowledge alerts or, with the name of a webhook,
// buttons whose presses arrive there. Those of a channel that is no longer configured are invalid.
func (s *channelSet) hasAckLinks(channel, hook string) bool {
	spec, ok := s.specs[channel]
	if hook != "" {
		return ok && spec.AckButton == hook
	}
	return ok && !spec.NoAckLinks
}

// Wake signals new alerts. It is only a hint, as the notifier also polls.
func (n *sender) Wake() {
	select {
	case n.wake <- struct{}{}:
	default: // it is going to wake
	}
}

// start sends a message in the background, unless its channel is busy or failed recently.
func (n *sender) start(ctx context.Context, notice alerts.Notification) {
	name, file := notice.Channel, n.file.Load()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy[name] || n.isResting(name) {
		return
	}
	n.occupy(ctx, name, func() error { return n.send(ctx, file, notice) })
}

// occupy runs do in the background, as the only work for a channel. The caller holds the lock.
func (n *sender) occupy(ctx context.Context, name string, do func() error) {
	n.busy[name] = true
	n.sending.Go(func() {
		err := do()
		n.mu.Lock()
		delete(n.busy, name)
		n.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			n.log.Error("a message could not be handed over or noted; it is tried again", "channel", name, "err", err)
			return
		}
		n.Wake() // the channel may have another message
	})
}

// startRounds starts a round of each Alertmanager an interval after its last one, unless it is busy or failed recently. The
// first round of a node follows at once: it may have taken over.
func (n *sender) startRounds(ctx context.Context) {
	file, now := n.file.Load(), n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, channel := range file.channels {
		c, ok := channel.(*alertmanager)
		since := now.Sub(n.roundAt[name])
		if !ok || n.busy[name] || n.isResting(name) || since >= 0 && since < c.interval {
			continue
		}
		n.roundAt[name] = now
		n.occupy(ctx, name, func() error { return n.round(ctx, file, name, c) })
	}
}

// round sends the open alerts of an Alertmanager again, and records its result. A round that failed is repeated after a
// pause.
func (n *sender) round(ctx context.Context, file *channelSet, name string, c *alertmanager) error {
	refused, err := n.states.round(ctx, c, name)
	if err != nil || ctx.Err() != nil {
		return err
	}
	noting, noted := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer noted()
	if refused != nil {
		n.mu.Lock()
		delete(n.roundAt, name)
		n.mu.Unlock()
		return n.deliveryFailed(noting, alerts.Notification{Channel: name, Tries: roundTries}, file.specs[name].reason(refused), "")
	}
	if err := n.channelRecovered(noting, name); err != nil {
		return err
	}
	return n.store.ChannelWorks(noting, name)
}

// isResting reports whether a failed channel is paused. A pause longer than restMost stems from before the clock was
// set back and is ignored. The caller holds the lock.
func (n *sender) isResting(channel string) bool {
	left := n.rests[channel].Sub(n.now())
	return left > 0 && left <= restMost
}

// send sends a message to its channel.
//
//  1. It claims the message. From then on no other node sends it, and no alert joins.
//  2. It builds the message from the store, and sends it even during a shutdown.
//  3. It records the result. A crash before that repeats the message, with the same key.
func (n *sender) send(ctx context.Context, file *channelSet, notice alerts.Notification) error {
	if !n.holds() {
		return nil
	}
	notice, ok, err := n.store.ClaimNotification(ctx, notice, n.now().Add(claimTime))
	if err != nil || !ok {
		return err
	}
	failpoints.Point("notify.claimed")
	refused, err := n.deliver(ctx, file.channels[notice.Channel], notice)
	failpoints.Point("notify.sent")
	if err != nil || errors.Is(refused, errInterrupted) {
		return err
	}

	noting, noted := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer noted()
	warning := ""
	if partly := (refusedRecipients{}); errors.As(refused, &partly) {
		warning = file.specs[notice.Channel].reason(refused)
		alerts.TracedLog(n.log, traceOf(refused)).Error("a mail server refused recipients of a message; the others received it; correct or remove the addresses",
			"channel", notice.Channel, "err", warning)
	} else if refused != nil {
		n.count(notice.Channel, outcomeFailed, 1)
		return n.deliveryFailed(noting, notice, file.specs[notice.Channel].reason(refused), traceOf(refused))
	}
	n.count(notice.Channel, outcomeSent, 1)
	if err := n.channelRecovered(noting, notice.Channel); err != nil {
		return err
	}
	return n.store.Sent(noting, notice, n.now(), warning)
}

// errInterrupted means that a shutdown interrupted a message. It is retried after the claim expires.
var errInterrupted = errors.New("interrupted")

// errNotConfigured means that a message waits for a channel that was removed or renamed.
var errNotConfigured = fmt.Errorf("the file of channels has no channel of this name; its messages wait for one, and are given up after %s", patience)

// deliver sends a claimed message. refused is the error of the channel.
func (n *sender) deliver(ctx context.Context, channel Channel, notice alerts.Notification) (refused, err error) {
	if channel == nil {
		return errNotConfigured, nil
	}
	var limit time.Duration
	var send func(ctx context.Context)
	if c, ok := channel.(*alertmanager); ok {
		limit, send = stateTime, func(ctx context.Context) { refused, err = n.states.message(ctx, c, notice) }
	} else {
		m, unread := n.message(ctx, notice)
		if unread != nil {
			return nil, unread
		}
		limit, send = sendTime, func(ctx context.Context) { refused = n.tracing.send(ctx, channel, m) }
	}
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(finishTime, cancel) })()
	send(sending)
	if refused != nil && sending.Err() != nil && ctx.Err() != nil {
		refused = errInterrupted
	}
	return refused, err
}

// message builds the message of a notification.
func (n *sender) message(ctx context.Context, notice alerts.Notification) (Message, error) {
	m := Message{Notification: notice, PublicURL: n.publicURL, At: n.now(), Closed: make(map[alerts.ID]alerts.Alert)}
	var err error
	if m.Alerts, err = n.store.Content(ctx, notice, contentSize); err != nil {
		return m, err
	}
	if err := n.summarize(ctx, &m); err != nil {
		return m, err
	}
	if m.isResolved() {
		if m.TopicOpen, err = n.store.IsTopicOpen(ctx, notice); err != nil {
			return m, err
		}
	}
	closed, err := n.store.Closed(ctx, m.Alerts)
	if err != nil {
		return m, err
	}
	for _, a := range closed {
		m.Closed[a.ID] = a
	}
	for i, a := range m.Alerts {
		m.Alerts[i].URL = n.alertURL(a.ID)
	}
	return m, nil
}

// alertURL returns the address of an alert's page; empty without a public URL.
func (n *sender) alertURL(id alerts.ID) string {
	if n.publicURL == "" {
		return ""
	}
	return n.publicURL + "/alerts/" + id.String()
}

// summarize adds the states of the keys to a message.
func (n *sender) summarize(ctx context.Context, m *Message) error {
	file := n.file.Load()
	m.Zone = file.zone
	summary, err := n.store.Summary(ctx, m.Notification, shownKeys)
	if err != nil {
		return err
	}
	m.Counts = summary.Counts
	if m.Acks, err = n.store.NoticeAcks(ctx, m.Notification, shownKeys); err != nil {
		return err
	}
	for i, k := range m.Acks.First {
		m.Acks.First[i].Alert.URL = n.alertURL(k.Alert.ID)
	}
	for _, k := range summary.Keys {
		state := KeyState{KeyState: k}
		if state.Outlook, err = n.outlook(ctx, k.Alert); err != nil {
			return fmt.Errorf("outlook of alert %s: %w", k.ID, err)
		}
		if next := state.Next; next != nil {
			raised := k.Alert
			raised.Severity, raised.Step = next.Severity, next.Name
			next.To = channelsOf(file.routes, raised)
		}
		state.URL = n.alertURL(k.ID)
		m.Keys = append(m.Keys, state)
	}
	return n.addAckLinks(ctx, file, m)
}

// addAckLinks adds a button that acknowledges the alerts of a message, or links. A link is for one key that is pending and
// not acknowledged; the button and a further link are for all keys of one rule.
func (n *sender) addAckLinks(ctx context.Context, file *channelSet, m *Message) error {
	hook := file.specs[m.Channel].AckButton // empty: links
	if n.publicURL == "" || !file.hasAckLinks(m.Channel, hook) || m.isResolved() {
		return nil
	}
	key, err := n.store.AckKey(ctx)
	if err != nil {
		return err
	}
	sign := func(t acklinks.Target) string {
		t.Channel, t.Button, t.ExpiresAt = m.Channel, hook != "", m.At.Add(acklinks.Lifetime)
		return acklinks.Sign(key, t)
	}
	var open []int
	for i, k := range m.Keys {
		if k.Pending && k.Acknowledged == nil {
			open = append(open, i)
		}
	}
	_, single := m.only()
	all := acklinks.Target{Message: m.ID}
	switch {
	case len(open) == 0:
		return nil
	case single:
		all = acklinks.Target{Alert: m.Keys[0].ID}
	}
	if hook != "" {
		if m.ruleCount() == 1 {
			m.AckButton = sign(all)
		}
		return nil
	}
	for _, i := range open {
		m.Keys[i].AckURL = n.publicURL + acklinks.Prefix + sign(acklinks.Target{Alert: m.Keys[i].ID})
	}
	if !single && m.ruleCount() == 1 {
		m.AckURL = n.publicURL + acklinks.Prefix + sign(all)
	}
	return nil
}

// channelsOf returns the channels to which the routes assign an alert.
func channelsOf(routes []Route, a alerts.Alert) []string {
	var to []string
	for _, r := range routes {
		if !r.takes(a) {
			continue
		}
		for _, channel := range r.To {
			if !slices.Contains(to, channel) {
				to = append(to, channel)
			}
		}
		if !r.Continue {
			break
		}
	}
	return to
}

// deliveryFailed records that a channel did not accept a message. Repeated failures of a channel raise one alert.
func (n *sender) deliveryFailed(ctx context.Context, notice alerts.Notification, reason, trace string) error {
	now := n.now()
	wait := backoff(notice.Tries - 1)
	n.mu.Lock()
	n.rests[notice.Channel] = now.Add(min(wait, restMost))
	n.mu.Unlock()
	state, err := n.store.MarkFailed(ctx, notice, reason, now, now.Add(wait))
	if err != nil {
		return err
	}
	alerts.TracedLog(n.log, trace).Warn("a channel did not take a message; it is tried again",
		"channel", notice.Channel, "again_in", wait, "failed_tries", state.Tries, "failing_since", state.FailingSince, "err", reason)
	if state.Tries < alerts.FailingAfter {
		return nil
	}
	r := alerts.ChannelAlert(notice.Channel, alerts.Firing, state.FailingSince)
	r.Text = fmt.Sprintf("messages to the channel %s have failed since %s: %s",
		notice.Channel, state.FailingSince.UTC().Format(time.RFC3339), reason)
	return n.announce(ctx, r)
}

// channelRecovered resolves the alert about a channel that accepts messages again.
func (n *sender) channelRecovered(ctx context.Context, name string) error {
	return n.resolveChannel(ctx, name, "the channel "+name+" takes messages again")
}

// resolveChannel resolves the alert about a channel, if one is open.
func (n *sender) resolveChannel(ctx context.Context, name, text string) error {
	n.mu.Lock()
	delete(n.rests, name)
	n.mu.Unlock()
	states, err := n.store.Channels(ctx)
	if err != nil {
		return err
	}
	for _, state := range states {
		if state.Name != name || state.Tries < alerts.FailingAfter {
			continue
		}
		r := alerts.ChannelAlert(name, alerts.Resolved, state.FailingSince)
		r.Text = text
		return n.announce(ctx, r)
	}
	return nil
}

// backoff returns the delay of a message after the given number of earlier failures.
func backoff(before int) time.Duration {
	return min(retryFirst<<min(before, 16), retryMost)
}
