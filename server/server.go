// Package server assembles a node: all steps from an event to an alert in one process. Programs that embed it call
// Run.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/google/uuid"

	futurejobs "deadman/future_jobs"
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

// newSelf returns this process as a node of the database.
func newSelf(version string) futurejobs.Node {
	return futurejobs.Node{
		ID: uuid.Must(uuid.NewV7()).String(), Name: NodeName(), Version: version, StartedAt: time.Now().UTC(),
	}
}

// NodeName returns the name of a node in this process, such as web-1/4711: the host and the process id.
func NodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// bounded bounds the incoming connections.
func bounded(listener net.Listener, c Config, log *slog.Logger) net.Listener {
	return web.Connections{Max: c.Connections, MaxPerAddr: c.ClientConnections, Proxies: c.TrustedProxies, Log: log}.Bound(listener)
}

// listen opens the HTTP address. A taken default moves to a free port.
func listen(addr string, log *slog.Logger) (net.Listener, error) {
	listener, err := net.Listen("tcp", cmp.Or(addr, DefaultHTTPAddr))
	if err == nil {
		return listener, nil
	}
	if addr != "" {
		return nil, fmt.Errorf("listen for HTTP: %w (choose another address with --http-addr; port 0 picks a free one)", err)
	}
	moved, movedErr := net.Listen("tcp", "127.0.0.1:0")
	if movedErr != nil {
		return nil, fmt.Errorf("listen for HTTP: %w", errors.Join(err, movedErr))
	}
	log.Warn("the default HTTP address is taken; serving on another", "taken", DefaultHTTPAddr, "serving", moved.Addr().String())
	return moved, nil
}
