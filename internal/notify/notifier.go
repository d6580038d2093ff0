package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/acklinks"
	"deadman/internal/periodic"
)

// The limits and timing of a notifier.
const (
	unroutedBatch = 1000
	ackBatch      = 200
	mostMoves     = 10 // consecutive plans overtaken by concurrent ones, before that is an error
	poll          = time.Second
	claimTime     = time.Minute // a message whose sender died is retried after it

	retryFirst = 5 * time.Second // after the first failure; doubled with each
	retryMost  = 10 * time.Minute
	restMost   = 30 * time.Second // pause of a failing channel between two messages
	patience   = 72 * time.Hour   // a message that is not accepted for this long is given up

	contentSize = 500 // maximum alerts in a message
	finishTime  = 5 * time.Second
)

// HolderShard selects the notifying node: the holder of this shard builds and sends the messages.
const HolderShard = 0

// Options configure a notifier.
type Options struct {
	Config    Config
	Store     Store
	Client    *http.Client // nil: NewClient()
	Holds     func() bool  // whether this node is the notifying node
	Now       func() time.Time
	PublicURL string // prefix of links; empty: no links
	Log       *slog.Logger
	// Announce raises an alert about the node itself.
	Announce func(context.Context, alerts.SystemAlert) error
	// Alerted processes an alert that the store wrote with given-up messages. nil: none is processed.
	Alerted func(alerts.Alert)
	// Count counts n attempts to send a message to a channel, by outcome. 0 names a configured channel. nil: none are counted.
	Count func(channel, outcome string, n int)
	// CountGivenUp counts n messages that a channel did not accept in time. 0 names a configured channel. nil: none are counted.
	CountGivenUp func(channel string, n int)
	// Sending traces messages. nil: they are not traced.
	Sending BeginTrace
	// Describe returns the description of a rule; empty: none. nil: no rule has one.
	Describe func(rule string) string
	// Outlook returns the state of the job that raised an alert; nil: no state is known.
	Outlook func(context.Context, alerts.Alert) (Outlook, error)
}

// Notifier routes alerts and sends messages to channels. Messages are stored before they are sent, so a crash can
// repeat a message but loses none.
type Notifier struct {
	sender
	client   *http.Client
	status   *periodic.Status // of routing alerts
	gaveUpAt time.Time        // used by Step

	countGivenUp func(channel string, n int)
	alerted      func(alerts.Alert)
}

// New returns a notifier, or an error for an invalid channel.
func New(o Options) (*Notifier, error) {
	if o.Client == nil {
		o.Client = NewClient()
	}
	if o.Outlook == nil {
		o.Outlook = func(context.Context, alerts.Alert) (Outlook, error) { return Outlook{}, nil }
	}
	if o.Count == nil {
		o.Count = func(string, string, int) {}
	}
	if o.CountGivenUp == nil {
		o.CountGivenUp = func(string, int) {}
	}
	if o.Alerted == nil {
		o.Alerted = func(alerts.Alert) {}
	}
	if o.Describe == nil {
		o.Describe = func(string) string { return "" }
	}
	n := &Notifier{
		sender: sender{
			store: o.Store, holds: o.Holds, now: o.Now, publicURL: strings.TrimSuffix(o.PublicURL, "/"), log: o.Log, announce: o.Announce,
			outlook: o.Outlook, count: o.Count, tracing: o.Sending,
			wake: make(chan struct{}, 1), busy: make(map[string]bool), rests: make(map[string]time.Time), roundAt: make(map[string]time.Time),
		},
		client: o.Client, status: periodic.NewStatus(o.Log, slog.LevelError, "notifications"), countGivenUp: o.CountGivenUp, alerted: o.Alerted,
	}
	n.states = &stateSender{store: o.Store, holds: o.Holds, now: o.Now, alertURL: n.alertURL, describe: o.Describe}
	if err := n.SetConfig(o.Config); err != nil {
		return nil, err
	}
	return n, nil
}

// SetConfig applies another configuration. It returns an error for an invalid channel, and then changes nothing.
// Messages for channels that are no longer configured are kept.
func (n *Notifier) SetConfig(c Config) error {
	file := &channelSet{routes: c.Routes, zone: c.Zone, specs: make(map[string]Spec), channels: make(map[string]Channel)}
	for _, s := range c.Channels {
		channel, err := Open(s, n.client)
		if err != nil {
			return fmt.Errorf("channel %s: %w", s.Name, err)
		}
		if c, ok := channel.(*alertmanager); ok {
			c.log = n.log.With("channel", s.Name)
		}
		file.specs[s.Name], file.channels[s.Name] = s, channel
		n.count(s.Name, outcomeSent, 0)
		n.count(s.Name, outcomeFailed, 0)
		n.countGivenUp(s.Name, 0)
	}
	for _, entry := range c.Idle() {
		n.log.Warn("an entry of the channels file has no effect", "entry", entry)
	}
	n.file.Store(file)
	n.Wake()
	return nil
}

// HasNoChannels reports whether no channel is configured.
func (n *Notifier) HasNoChannels() bool { return len(n.file.Load().channels) == 0 }

// HasAckLinks reports whether the links in messages of a channel acknowledge alerts or, with the name of a webhook, the
// buttons whose presses arrive there.
func (n *Notifier) HasAckLinks(channel, hook string) bool {
	return n.publicURL != "" && n.file.Load().hasAckLinks(channel, hook)
}

// Zone returns the zone of the times in messages.
func (n *Notifier) Zone() *time.Location { return cmp.Or(n.file.Load().zone, time.UTC) }

// Buttons returns the buttons in messages of the channels.
func (n *Notifier) Buttons(links *acklinks.Links) *Buttons {
	return &Buttons{
		Links: links, Client: n.client, PublicURL: n.publicURL, Now: n.now, Log: n.log,
	}
}

// Err returns the error of routing alerts, or nil. It does not include failing channels; Channels reports those.
func (n *Notifier) Err() error { return n.status.Err() }

// Run routes alerts and sends messages until ctx ends, and then finishes the messages in progress.
func (n *Notifier) Run(ctx context.Context) error {
	defer n.client.CloseIdleConnections()
	defer n.sending.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-n.wake:
		}
		n.status.Set(ctx, n.Step(ctx))
		timer.Reset(poll)
	}
}

// Step routes all new alerts and starts sending messages that are ready, if this node is the notifying node. Sending
// continues after it returns, and also if routing fails. Without channels, alerts stay unrouted.
func (n *Notifier) Step(ctx context.Context) error {
	if n.HasNoChannels() {
		return nil
	}
	err := n.routeNew(ctx)
	if !n.holds() {
		return err
	}
	return errors.Join(err, n.giveUp(ctx), n.startReady(ctx))
}

// routeNew routes all new alerts, and then their acknowledgements: these go to the channels that have the alerts.
func (n *Notifier) routeNew(ctx context.Context) error {
	if err := n.routeAll(ctx, unroutedBatch, n.route); err != nil {
		return fmt.Errorf("route alerts: %w", err)
	}
	if err := n.routeAll(ctx, ackBatch, n.routeAcks); err != nil {
		return fmt.Errorf("route acknowledgements: %w", err)
	}
	return nil
}

// startReady starts sending the messages that are ready.
func (n *Notifier) startReady(ctx context.Context) error {
	n.startRounds(ctx) // before messages: a channel that always has one would never have a round
	ready, err := n.store.Ready(ctx, n.now())
	if err != nil {
		return fmt.Errorf("find messages: %w", err)
	}
	for _, notice := range ready {
		n.start(ctx, notice)
	}
	return nil
}

// routeAll routes batches of up to limit until none is left, or until another node is the notifying node. A plan that was
// overtaken is made again. A batch that takes too long is halved.
func (n *Notifier) routeAll(ctx context.Context, limit int, route func(_ context.Context, limit int) (taken int, more bool, err error)) error {
	for moved := 0; n.holds(); {
		taken, more, err := route(ctx, limit)
		switch {
		case errors.Is(err, futurejobs.ErrCursorMoved) && moved < mostMoves:
			moved++
		case errors.Is(err, futurejobs.ErrTooSlow) && taken > 1:
			limit = taken / 2
		case err != nil || !more:
			return err
		}
	}
	return nil
}

// giveUp gives up, at intervals, messages that were not accepted in time, with an alert for each of their channels.
func (n *Notifier) giveUp(ctx context.Context) error {
	now := n.now()
	if now.Sub(n.gaveUpAt) < claimTime {
		return nil
	}
	given, raised, err := n.store.GiveUp(ctx, now.Add(-patience), now, func(channel string, messages int) alerts.SystemAlert {
		return alerts.SystemAlert{
			Topic: "channel/" + channel, Step: "given-up", Status: alerts.Expired, Severity: alerts.Error, Since: now, Count: messages, Labels: map[string]string{"channel": channel},
			Text: fmt.Sprintf("the channel %s did not take %s within %s; they were given up, and the alerts are marked with failed", channel, countOf(messages, "message"), patience),
		}
	})
	if err != nil {
		return err
	}
	for channel, messages := range given {
		n.countGivenUp(channel, messages)
		n.log.Error("messages were given up, because their channel did not take them", "channel", channel, "messages", messages, "after", patience)
	}
	for _, a := range raised {
		n.alerted(a)
	}
	if err := n.forgetRemoved(ctx); err != nil {
		return err
	}
	n.gaveUpAt = now
	return nil
}

// forgetRemoved resolves the alerts about channels that are not configured any more and have no message that waits.
func (n *Notifier) forgetRemoved(ctx context.Context) error {
	states, err := n.store.Channels(ctx)
	if err != nil {
		return err
	}
	for _, state := range states {
		if _, is := n.file.Load().channels[state.Name]; is || state.Waiting > 0 || state.Tries == 0 {
			continue
		}
		if err := n.resolveChannel(ctx, state.Name, "no message waits for the channel "+state.Name+", which is not configured any more"); err != nil {
			return err
		}
		if err := n.store.ChannelWorks(ctx, state.Name); err != nil {
			return err
		}
	}
	return nil
}

// route routes a batch of up to limit new alerts. It returns their number, and whether others may be left. It returns
// futurejobs.ErrCursorMoved if another plan was applied first and the plan must be made again, and ErrTooSlow if fewer should
// be routed at a time.
func (n *Notifier) route(ctx context.Context, limit int) (taken int, more bool, err error) {
	unrouted, more, err := n.store.UnroutedAlerts(ctx, limit)
	if err != nil || len(unrouted) == 0 {
		return 0, false, err
	}
	p, err := n.newPlan(ctx, unrouted)
	if err != nil {
		return len(unrouted), more, err
	}
	plan, err := p.plan(unrouted)
	if err != nil {
		return len(unrouted), more, err
	}
	return len(unrouted), more, n.store.ApplyPlan(ctx, plan)
}

// routeAcks routes a batch of acknowledgements, as route does.
func (n *Notifier) routeAcks(ctx context.Context, limit int) (taken int, more bool, err error) {
	acks, err := n.store.UnroutedAcks(ctx, limit)
	if err != nil || len(acks) == 0 {
		return 0, false, err
	}
	prior, err := n.store.AckDeliveries(ctx, acks)
	if err != nil {
		return len(acks), len(acks) == limit, err
	}
	p, err := n.newPlan(ctx, nil)
	if err != nil {
		return len(acks), len(acks) == limit, err
	}
	plan, err := p.planAcks(acks, prior, n.file.Load().receivesAcks)
	if err != nil {
		return len(acks), len(acks) == limit, err
	}
	return len(acks), len(acks) == limit, n.store.ApplyPlan(ctx, plan)
}

// Channels returns the states of the channels, sorted by name: the configured ones, and former ones with pending
// messages.
func (n *Notifier) Channels(ctx context.Context) ([]alerts.ChannelState, error) {
	tried, err := n.store.Channels(ctx)
	if err != nil {
		return nil, err
	}
	var all []alerts.ChannelState
	specs := n.file.Load().specs
	for _, s := range specs {
		state := alerts.ChannelState{Name: s.Name}
		if i := slices.IndexFunc(tried, func(c alerts.ChannelState) bool { return c.Name == s.Name }); i >= 0 {
			state = tried[i]
		}
		state.Kind = string(s.Kind)
		all = append(all, state)
	}
	for _, c := range tried {
		if _, ok := specs[c.Name]; !ok && c.Waiting > 0 {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b alerts.ChannelState) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Test sends a test message to a channel. It returns futurejobs.ErrNotFound for a channel that is not configured.
// reason is the channel's error, free of secrets; empty: the message was accepted.
func (n *Notifier) Test(ctx context.Context, name string) (reason string, err error) {
	file := n.file.Load()
	c, ok := file.channels[name]
	if !ok {
		return "", fmt.Errorf("channel %q: %w; `deadman channel list` shows those there are", name, futurejobs.ErrNotFound)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if err := c.Send(ctx, n.trial(name)); err != nil {
		return file.specs[name].reason(err), nil
	}
	return "", nil
}

// trial returns a test message.
func (n *Notifier) trial(name string) Message {
	now := n.now().UTC()
	r := alerts.ChannelAlert(name, alerts.Firing, now)
	r.Severity, r.Step, r.Text = alerts.Info, "test", "this is a test of the channel "+name+"; nothing happened"
	return Message{
		Notification: alerts.Notification{Channel: name, Route: "test", Topic: "test", Alerts: 1, PlannedAt: now},
		Alerts:       []alerts.Alert{r.Alert(now)}, PublicURL: n.publicURL, Zone: n.Zone(), At: now,
	}
}

// newPlan loads the data for a plan of new alerts.
func (n *Notifier) newPlan(ctx context.Context, unrouted []alerts.Alert) (*planner, error) {
	now := n.now()
	p := &planner{
		routes: n.file.Load().routes, groups: n.file.Load().groups, now: now, queues: make(map[alerts.RouteChannel]*queue),
		prior: make(map[alerts.ID][]alerts.PriorDelivery), firedAt: make(map[alerts.ID][]int),
		lane: func(l alerts.RouteChannel, limit int) ([]alerts.Notification, error) {
			return n.store.Lane(ctx, l, limit)
		},
	}
	var err error
	if p.mutes, err = n.store.LiveMutes(ctx, now); err != nil {
		return nil, err
	}
	prior, err := n.store.PriorDeliveries(ctx, unrouted)
	if err != nil {
		return nil, err
	}
	for _, h := range prior {
		p.prior[h.Alert] = append(p.prior[h.Alert], h)
	}
	return p, nil
}
