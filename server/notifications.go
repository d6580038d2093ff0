package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/acklinks"
	"deadman/internal/notify"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/web"
)

// errNoChannels means that alerts await notification, and this node is responsible for notifications but has no
// channels.
var errNoChannels = errors.New("alerts wait for people, and this node has no file of channels")

// notifications holds the notifier of a node, which may have none.
type notifications struct {
	path   string // channels file; empty: none
	hooks  *hookFile
	source string // of events, as CloudEvents have it
	store  *store.Store
	rules  interface {
		Newest(name string) (*rules.Rule, error)
	}
	now   func() time.Time // the database's time
	holds func() bool      // this node is responsible for notifications

	notifier *notify.Notifier // nil: no channels file is configured
}

// open reads the channels file. From then on every node of the database queues alerts for notification, until a node
// reads a file without channels. A single-process node without a file turns notifications off.
func (p *notifications) open(ctx context.Context, o notify.Options) (err error) {
	if p.path == "" {
		if p.store.SingleProcess() {
			return p.store.Notify(ctx, false)
		}
		return nil
	}
	o.Store, o.Holds, o.Now, o.Outlook, o.Describe = p.store, p.holds, p.now, p.outlook, p.describe
	if p.notifier, err = notify.New(o); err != nil {
		return fmt.Errorf("channels: %w", err)
	}
	return p.reload(ctx)
}

// describe returns the description of a rule; empty for a deleted rule, and for the rule of the node itself.
func (p *notifications) describe(name string) string {
	rule, err := p.rules.Newest(name)
	if err != nil {
		return ""
	}
	return rule.Document().Description
}

// outlook returns the description of an alert's rule and, while its job is pending, the acknowledgement and the next
// step.
func (p *notifications) outlook(ctx context.Context, a alerts.Alert) (o notify.Outlook, err error) {
	rule, err := p.rules.Newest(a.Rule)
	if err != nil {
		return o, nil //nolint:nilerr // the rule is deleted, or a rule of the node itself
	}
	o.Description = rule.Document().Description
	if a.Status != alerts.Firing {
		return o, nil
	}
	job, err := p.store.Job(ctx, a.Rule, a.Key)
	if errors.Is(err, futurejobs.ErrNotFound) || err == nil && !slices.Contains(job.Alerts, a.ID) {
		return o, nil // the job has ended
	}
	if err != nil {
		return o, err
	}
	now := p.now()
	o.Pending = true
	if job.Ack != nil && job.Ack.Holds(now) {
		o.Acknowledged = job.Ack
	}
	if rule.Engine().Version == job.Version {
		if name, severity, at, ok := rule.NextStep(job.Job, now); ok {
			o.Next = &notify.NextStep{Name: name, Severity: severity, At: at}
		}
	}
	return o, nil
}

// Run delivers notifications until ctx ends.
func (p *notifications) Run(ctx context.Context) error {
	if p.notifier == nil {
		return nil
	}
	return p.notifier.Run(ctx)
}

// reload reads the channels file and applies it.
func (p *notifications) reload(ctx context.Context) error {
	config, err := readChannels(p.path, p.hooks)
	if err != nil {
		return err
	}
	if err := p.store.Notify(ctx, len(config.Channels) > 0); err != nil {
		return err
	}
	if err := p.notifier.SetConfig(config); err != nil {
		return fmt.Errorf("channels: %w", err)
	}
	return nil
}

// checkChannels checks a channels file before the start applies anything. A named pipe is left alone: it can be read once.
func checkChannels(path string, hooks *hookFile) error {
	if info, err := os.Stat(path); path == "" || err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil
	}
	_, err := readChannels(path, hooks)
	return err
}

// readChannels reads a channels file.
func readChannels(path string, hooks *hookFile) (config notify.Config, err error) {
	if config, err = notify.Load(path); err != nil {
		return config, fmt.Errorf("channels: %w (--notify names a file)", err)
	}
	if err := config.CheckButtons(func(name string) bool { return hooks.hook(name) != nil }); err != nil {
		return config, fmt.Errorf("channels: %s: %w", path, err)
	}
	return config, nil
}

// PostTicks implements scheduler.StoredPoster.
func (p *notifications) PostTicks(ctx context.Context, channel string, all []futurejobs.Emission) []error {
	if p.notifier == nil {
		return slices.Repeat([]error{errNoWebhooks}, len(all))
	}
	return p.notifier.PostTicks(ctx, channel, p.source, all)
}

// errNoWebhooks means that events are for a webhook, and this node has no channels.
var errNoWebhooks = errors.New("this node has no file of channels, so it posts no events; start it with --notify FILE")

// webhooks returns the names of the channels that post events.
func (p *notifications) webhooks() []string {
	if p.notifier == nil {
		return nil
	}
	return p.notifier.TickWebhooks()
}

// wake signals new alerts to the notifier.
func (p *notifications) wake() {
	if p.notifier != nil {
		p.notifier.Wake()
	}
}

// channels returns the channels for the API; nil without notifications.
func (p *notifications) channels() web.Channels {
	if p.notifier == nil {
		return nil
	}
	return p.notifier
}

// hasAckLinks reports whether the links in messages of a channel acknowledge alerts or, with the name of a webhook, the
// buttons whose presses arrive there.
func (p *notifications) hasAckLinks(channel, hook string) bool {
	return p.notifier != nil && p.notifier.HasAckLinks(channel, hook)
}

// zone returns the zone of the times in messages.
func (p *notifications) zone() *time.Location {
	if p.notifier == nil {
		return time.UTC
	}
	return p.notifier.Zone()
}

// buttons returns the buttons of chats; nil without notifications.
func (p *notifications) buttons(links *acklinks.Links) web.Buttons {
	if p.notifier == nil {
		return nil
	}
	return p.notifier.Buttons(links)
}

// conditions returns the condition of notifications, if any.
func (p *notifications) conditions(ctx context.Context) []web.Condition {
	const broken = "notifications cannot be sent; they wait in the database"
	if p.notifier == nil || p.notifier.HasNoChannels() {
		on, err := p.store.Notifying(ctx)
		if err != nil || !on || !p.holds() {
			return nil // the database has a condition of its own
		}
		return []web.Condition{condition("notifications", errNoChannels, "", broken)}
	}
	c := condition("notifications", p.notifier.Err(), "no notifications are waiting", broken)
	if states, err := p.notifier.Channels(ctx); err == nil && c.OK {
		var failing []string
		for _, c := range states {
			if !c.FailingSince.IsZero() {
				failing = append(failing, c.Name)
			}
		}
		if len(failing) > 0 {
			c.OK, c.Detail = false, "failing channels: "+strings.Join(failing, ", ")+"; notifications are retried"
		}
	}
	return []web.Condition{c}
}

// gauges returns the states of the channels for /metrics.
func (p *notifications) gauges(ctx context.Context) []alerts.ChannelState {
	if p.notifier == nil {
		return nil
	}
	states, err := p.notifier.Channels(ctx)
	if err != nil {
		return nil // other metrics report the database error
	}
	return states
}
