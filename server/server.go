// Package server assembles a node: all steps from an event to an alert in one process. Programs that embed it call
// Run.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"deadman/web"
)

// Run runs a node until ctx ends. The node then stops accepting work, settles running checks, releases its shards and
// returns, within Config.Drain. An error of a component ends the node in the same way and is returned.
func Run(ctx context.Context, c Config) error {
	n, err := newNode(ctx, c)
	if err != nil {
		return err
	}
	return errors.Join(n.run(ctx), n.close())
}

// run runs the components. They stop in two phases, so that leases are held while running checks are settled. Any
// other order would break no promise either.
func (n *node) run(ctx context.Context) error {
	listener, err := n.listen()
	if err != nil {
		return err
	}
	if err := n.setupAccess(ctx, listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	drain, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()

	group, working := errgroup.WithContext(ctx)
	context.AfterFunc(working, func() {
		n.draining.Store(true)
		time.AfterFunc(n.Drain, cut)
	})
	group.Go(func() error { return n.sweeper.Run(working, drain) })
	group.Go(func() error { return n.hearing.Run(working) })
	group.Go(func() error { return n.clock.Run(working) })
	group.Go(func() error { return n.watch.Run(working) })
	group.Go(func() error { return n.shifter.Run(working) })
	group.Go(func() error { return n.intake.Run(working) })
	group.Go(func() error { return n.ticker.Run(working) })
	group.Go(func() error { return n.relay.Run(working) })
	group.Go(func() error { return n.serveAcks(working) })
	group.Go(func() error { return n.bus.MaintainAlertsStream(working) })
	group.Go(func() error { return n.lookout.Run(working) })
	group.Go(func() error { return n.caution.Run(working) })
	group.Go(func() error { return n.reload(working) })
	if n.people != nil {
		group.Go(func() error { return n.people.Run(working) })
	}
	group.Go(func() error { return n.upkeep.Run(working) })
	group.Go(func() error { return n.blind.Run(working) })
	group.Go(func() error { return n.compare.Run(working) })
	group.Go(func() error { return n.schema.Run(working) })
	group.Go(func() error { return n.alarms.Run(working) })
	group.Go(func() error { return n.quotas.Run(working) })
	group.Go(func() error { return n.slots.Run(working) })
	for _, h := range n.beats {
		group.Go(func() error { return h.Run(working) })
	}
	group.Go(func() error { return n.binding.Run(working) })
	group.Go(func() error { return n.pings.Run(working) })
	group.Go(func() error { return n.pings.writer.Run(working) })
	group.Go(func() error { return web.Serve(working, n.bounded(listener), n.handler(listener.Addr()), n.Drain) })

	holding, letGo := context.WithCancel(context.WithoutCancel(ctx))
	held := make(chan error, 1)
	go func() { held <- n.owner.Run(holding) }()

	group.Go(func() error { return n.publishEndpoints(listener.Addr()) })
	err = group.Wait()
	n.slots.flushLast(drain)
	letGo()
	err = errors.Join(err, <-held, n.removeEndpoints())
	n.log.Info("stopped")
	return err
}

// bounded bounds the incoming connections.
func (n *node) bounded(listener net.Listener) net.Listener {
	return web.Connections{Max: n.Connections, MaxPerAddr: n.ClientConnections, Proxies: n.TrustedProxies, Log: n.log}.Bound(listener)
}

// listen opens the HTTP address. A taken default moves to a free port.
func (n *node) listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", cmp.Or(n.HTTPAddr, DefaultHTTPAddr))
	if err == nil {
		return listener, nil
	}
	if n.HTTPAddr != "" {
		return nil, fmt.Errorf("listen for HTTP: %w (choose another address with --http-addr; port 0 picks a free one)", err)
	}
	moved, movedErr := net.Listen("tcp", "127.0.0.1:0")
	if movedErr != nil {
		return nil, fmt.Errorf("listen for HTTP: %w", errors.Join(err, movedErr))
	}
	n.log.Warn("the default HTTP address is taken; serving on another", "taken", DefaultHTTPAddr, "serving", moved.Addr().String())
	return moved, nil
}
