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
	"sync"
	"sync/atomic"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// The rhythm of a notifier.
const (
	newsBatch = 1000
	mostMoves = 10 // plans in a row that somebody was faster than, before that is an error
	poll      = time.Second
	claimTime = time.Minute // a message whose sender died is tried again after it

	retryFirst = 5 * time.Second // after the first failure; doubled with each
	retryMost  = 10 * time.Minute
	restMost   = 30 * time.Second // a channel that fails is left alone between two messages
	patience   = 72 * time.Hour   // a message that no channel took for so long is given up

	contentSize = 500 // alerts that a message shows at most
	finishTime  = 5 * time.Second
)

// HolderShard says whose turn it is: of the nodes of a database, the one that holds this
// shard makes and sends the messages.
const HolderShard = 0

// Options are what a notifier works with.
type Options struct {
	Config    Config
	Store     Store
	Client    *http.Client // nil: NewClient()
	Holds     func() bool  // whether it is this node's turn
	Now       func() time.Time
	PublicURL string // what links begin with; empty: there are none
	Log       *slog.Logger
	// Announce says what the node has to say about itself.
	Announce func(context.Context, alerts.SystemAlert) error
}

// Notifier routes news and hands messages to channels. What is to be said is in the store
// before it is said, so that a crash repeats a message at worst, and loses none.
type Notifier struct {
	store     Store
	file      atomic.Pointer[channelSet]
	client    *http.Client
	holds     func() bool
	now       func() time.Time
	publicURL string
	log       *slog.Logger
	announce  func(context.Context, alerts.SystemAlert) error
	wake      chan struct{}
	sending   sync.WaitGroup
	gaveUpAt  time.Time // Step's

	mu     sync.Mutex
	failed error
	busy   map[string]bool      // channels that a message is being handed to
	rests  map[string]time.Time // channels that failed: until when they are left alone
}

// New returns a notifier, or what is wrong with a channel.
func New(o Options) (*Notifier, error) {
	if o.Client == nil {
		o.Client = NewClient()
	}
	n := &Notifier{
		store: o.Store, client: o.Client, holds: o.Holds, now: o.Now, publicURL: strings.TrimSuffix(o.PublicURL, "/"), log: o.Log, announce: o.Announce,
		wake: make(chan struct{}, 1), busy: make(map[string]bool), rests: make(map[string]time.Time),
	}
	if err := n.SetConfig(o.Config); err != nil {
		return nil, err
	}
	return n, nil
}

// channelSet is a file of channels as it is in use. It never changes.
type channelSet struct {
	routes   []Route
	specs    map[string]Spec
	channels map[string]Channel
}

// SetConfig has the notifier work by another file from now on. What it returns is wrong with a channel,
// and nothing has changed. Messages that wait for a channel that is in the file no more stay.
func (n *Notifier) SetConfig(c Config) error {
	file := &channelSet{routes: c.Routes, specs: make(map[string]Spec), channels: make(map[string]Channel)}
	for _, s := range c.Channels {
		channel, err := Open(s, n.client)
		if err != nil {
			return fmt.Errorf("channel %s: %w", s.Name, err)
		}
		file.specs[s.Name], file.channels[s.Name] = s, channel
	}
	n.file.Store(file)
	n.Wake()
	return nil
}

// HasNoChannels reports whether the file in use names no channel: nobody can be told.
func (n *Notifier) HasNoChannels() bool { return len(n.file.Load().channels) == 0 }

// Wake says that there is news. It is a hint; the notifier looks by itself too.
func (n *Notifier) Wake() {
	select {
	case n.wake <- struct{}{}:
	default: // it is going to wake
	}
}

// Err returns why messages cannot be made at the moment, or nil. Channels that fail are not
// among it: Channels has them.
func (n *Notifier) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

// Run makes and sends messages until ctx ends, and then finishes those that it has begun to
// send.
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
		n.say(ctx, n.Step(ctx))
		timer.Reset(poll)
	}
}

// Step routes all news and begins to send what is ready, unless it is another node's turn.
// What it begins goes on after it returns. Without channels news is left to wait.
func (n *Notifier) Step(ctx context.Context) error {
	if n.HasNoChannels() {
		return nil
	}
	for more, moved := true, 0; more; {
		if !n.holds() {
			return nil
		}
		var err error
		more, err = n.route(ctx)
		if errors.Is(err, futurejobs.ErrCursorMoved) && moved < mostMoves {
			more, err, moved = true, nil, moved+1
		}
		if err != nil {
			return fmt.Errorf("route alerts: %w", err)
		}
	}
	if err := n.giveUp(ctx); err != nil {
		return err
	}
	ready, err := n.store.Ready(ctx, n.now())
	if err != nil {
		return fmt.Errorf("look for messages: %w", err)
	}
	for _, notice := range ready {
		n.begin(ctx, notice)
	}
	return nil
}

// giveUp gives up, every now and then, messages that nobody takes.
func (n *Notifier) giveUp(ctx context.Context) error {
	now := n.now()
	if now.Sub(n.gaveUpAt) < claimTime {
		return nil
	}
	given, err := n.store.GiveUp(ctx, now.Add(-patience), now)
	if err != nil {
		return err
	}
	if n.gaveUpAt = now; given > 0 {
		n.log.Error("messages were given up, because their channels did not take them", "messages", given, "after", patience)
	}
	return nil
}

// route makes messages of a batch of news. more says that there may be another batch. It
// returns futurejobs.ErrCursorMoved where somebody was faster, and the plan has to be made again.
func (n *Notifier) route(ctx context.Context) (more bool, err error) {
	news, err := n.store.UnroutedAlerts(ctx, newsBatch)
	if err != nil || len(news) == 0 {
		return false, err
	}
	p, err := n.newPlan(ctx, news)
	if err != nil {
		return false, err
	}
	plan, err := p.plan(news)
	if err != nil {
		return false, err
	}
	return len(news) == newsBatch, n.store.ApplyPlan(ctx, plan)
}

// say logs when routing begins to fail and when it works again.
func (n *Notifier) say(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	before := n.failed
	n.failed = err
	n.mu.Unlock()
	switch {
	case err != nil && before == nil:
		n.log.Error("messages for people wait; making them is tried again", "err", err)
	case err == nil && before != nil:
		n.log.Info("messages for people are made again")
	}
}

// Channels returns how the channels do, by name: those of the file, and those that were tried
// and are in no file any more but have messages waiting.
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

// Test hands a message to a channel that says that it is a test. It returns
// futurejobs.ErrNotFound for a channel that is not in the file, and else why the channel did not
// take the message; reason is what may be shown of that.
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

// trial is a message that says that it is a test.
func (n *Notifier) trial(name string) Message {
	now := n.now().UTC()
	r := channelAlert(name, alerts.Firing, now)
	r.Severity, r.Step, r.Text = alerts.Info, "test", "this is a test of the channel "+name+"; nothing happened"
	return Message{
		Notification: alerts.Notification{Channel: name, Route: "test", Topic: "test", Alerts: 1, PlannedAt: now},
		Alerts:       []alerts.Alert{r.Alert(now)}, Unclosed: 1, PublicURL: n.publicURL, At: now,
	}
}
