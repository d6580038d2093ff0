package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"deadman/internal/bus"
)

// endpointsFile is the file in the data folder with the addresses of the running node. Clients need it because a
// taken default port moves.
const endpointsFile = "endpoints.json"

// endpointPublisher publishes the addresses of the running node.
type endpointPublisher struct {
	Config
	server *bus.Server // nil: external broker
	open   func() bool // requests without a token have full access
	log    *slog.Logger
}

// publish writes the node's addresses to the data folder and passes them to Config.Ready.
func (e *endpointPublisher) publish(addr net.Addr) error {
	at := Endpoints{HTTP: "http://" + clientAddress(addr), NATS: redactUserinfo(e.NATSURL), Open: e.open()}
	if e.server != nil {
		at.NATS = e.server.ClientURL()
		if e.server.Guarded() {
			at.NATSUsers = e.natsUsersDir()
		}
	}
	if e.embedded() {
		text, err := json.MarshalIndent(at, "", "  ")
		if err != nil {
			return fmt.Errorf("endpoints: %w", err)
		}
		file := filepath.Join(e.DataDir, endpointsFile)
		if err := os.WriteFile(file+".new", append(text, '\n'), 0o600); err != nil {
			return fmt.Errorf("endpoints: %w", err)
		}
		if err := os.Rename(file+".new", file); err != nil { // clients read the whole file or none
			return fmt.Errorf("endpoints: %w", err)
		}
	}
	e.log.Info("serving", "http", at.HTTP, "nats", at.NATS)
	e.Ready(at)
	return nil
}

// redactUserinfo removes passwords and tokens from addresses.
func redactUserinfo(addresses string) string {
	each := strings.Split(addresses, ",")
	for i, one := range each {
		scheme, rest, has := strings.Cut(one, "://")
		if !has {
			scheme, rest = "nats", one
		}
		if at := strings.LastIndex(rest, "@"); at >= 0 {
			each[i] = scheme + "://" + rest[at+1:]
		}
	}
	return strings.Join(each, ",")
}

// clientAddress returns an address that clients on this machine can use: localhost for a listener on all interfaces.
func clientAddress(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
}

// remove removes the file.
func (e *endpointPublisher) remove() error {
	if !e.embedded() {
		return nil
	}
	err := os.Remove(filepath.Join(e.DataDir, endpointsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
