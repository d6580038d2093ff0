package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"deadman/alerts"
	"deadman/internal/notify"
	"deadman/web"
)

// errNoChannels means that alerts await notification, and this node is responsible for notifications but has no
// channels.
var errNoChannels = errors.New("alerts wait for people, and this node has no file of channels")

// openNotifier reads the channels file. From then on every node of the database queues alerts for notification, until
// a node reads a file without channels. A single-process node without a file turns notifications off.
func (n *node) openNotifier(ctx context.Context) (err error) {
	if n.Notify == "" {
		if n.store.SingleProcess() {
			return n.store.Notify(ctx, false)
		}
		return nil
	}
	n.people, err = notify.New(notify.Options{
		Store: n.store, Holds: func() bool { return n.owner.Holds(notify.HolderShard) },
		Now: n.clock.Now, PublicURL: n.PublicURL, Log: n.log, Announce: n.announce,
	})
	if err != nil {
		return fmt.Errorf("channels: %w", err)
	}
	return n.reloadChannels(ctx)
}

// reloadChannels reads the channels file and applies it.
func (n *node) reloadChannels(ctx context.Context) error {
	config, err := notify.Load(n.Notify)
	if err != nil {
		return fmt.Errorf("channels: %w (--notify names a file)", err)
	}
	if err := n.store.Notify(ctx, len(config.Channels) > 0); err != nil {
		return err
	}
	if err := n.people.SetConfig(config); err != nil {
		return fmt.Errorf("channels: %w", err)
	}
	return nil
}

// wakeNotifier signals new alerts to the notifier.
func (n *node) wakeNotifier() {
	if n.people != nil {
		n.people.Wake()
	}
}

// channels returns the channels for the API; nil without notifications.
func (n *node) channels() web.Channels {
	if n.people == nil {
		return nil
	}
	return n.people
}

// notifyConditions returns the condition of notifications, if any.
func (n *node) notifyConditions(ctx context.Context) []web.Condition {
	const broken = "alerts are decided and people are not told; messages wait in the database"
	if n.people == nil || n.people.HasNoChannels() {
		on, err := n.store.Notifying(ctx)
		if err != nil || !on || !n.owner.Holds(notify.HolderShard) {
			return nil // the database has a condition of its own
		}
		return []web.Condition{condition("notify", errNoChannels, "", broken)}
	}
	c := condition("notify", n.people.Err(), "nothing held up", broken)
	if states, err := n.people.Channels(ctx); err == nil && c.OK {
		var failing []string
		for _, c := range states {
			if !c.FailingSince.IsZero() {
				failing = append(failing, c.Name)
			}
		}
		if len(failing) > 0 {
			c.OK, c.Detail = false, "these channels take no messages: "+strings.Join(failing, ", ")+"; trying again"
		}
	}
	return []web.Condition{c}
}

// channelGauges returns the states of the channels for /metrics.
func (n *node) channelGauges(ctx context.Context) []alerts.ChannelState {
	if n.people == nil {
		return nil
	}
	states, err := n.people.Channels(ctx)
	if err != nil {
		return nil // other metrics report the database error
	}
	return states
}
