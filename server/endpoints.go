package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

func (n *node) natsDir() string { return filepath.Join(n.DataDir, "nats") }

func (n *node) natsUsersDir() string { return filepath.Join(n.DataDir, bus.UsersDir) }

// publishEndpoints writes the node's addresses to the data folder and passes them to Config.Ready.
func (n *node) publishEndpoints(addr net.Addr) error {
	at := Endpoints{HTTP: "http://" + clientAddress(addr), NATS: redactUserinfo(n.NATSURL), Open: n.open.Load()}
	if n.server != nil {
		at.NATS = n.server.ClientURL()
		if n.server.Guarded() {
			at.NATSUsers = n.natsUsersDir()
		}
	}
	if n.embedded() {
		text, err := json.MarshalIndent(at, "", "  ")
		if err != nil {
			return fmt.Errorf("endpoints: %w", err)
		}
		file := filepath.Join(n.DataDir, endpointsFile)
		if err := os.WriteFile(file+".new", append(text, '\n'), 0o600); err != nil {
			return fmt.Errorf("endpoints: %w", err)
		}
		if err := os.Rename(file+".new", file); err != nil { // clients read the whole file or none
			return fmt.Errorf("endpoints: %w", err)
		}
	}
	n.log.Info("serving", "http", at.HTTP, "nats", at.NATS)
	n.Ready(at)
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

// removeEndpoints removes the file.
func (n *node) removeEndpoints() error {
	if !n.embedded() {
		return nil
	}
	err := os.Remove(filepath.Join(n.DataDir, endpointsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
