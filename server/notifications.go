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

// errNoChannels means that alerts are kept for people and this node, whose turn it is to tell
// them, has no channels.
var errNoChannels = errors.New("alerts wait for people, and this node has no file of channels")

// openNotifier reads the file of channels. From then on alerts become news, on every node of
// the database, until a node reads a file that names no channel; a node that is alone needs no
// file to say so.
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

// reloadChannels reads the file of channels, and has people told by it from now on.
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

// wakeNotifier says that there is news.
func (n *node) wakeNotifier() {
	if n.people != nil {
		n.people.Wake()
	}
}

// channels is how people are reached, for the API; nil: they are not.
func (n *node) channels() web.Channels {
	if n.people == nil {
		return nil
	}
	return n.people
}

// notifyConditions says whether people are told.
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

// channelGauges is how the channels do, for /metrics.
func (n *node) channelGauges(ctx context.Context) []alerts.ChannelState {
	if n.people == nil {
		return nil
	}
	states, err := n.people.Channels(ctx)
	if err != nil {
		return nil // what else cannot be read then says so
	}
	return states
}
