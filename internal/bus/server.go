package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// bufferedMessages is the number of core publishes that a stream buffers while it writes. A burst of producers that
// do not wait exceeds the server's default, and the excess is lost silently.
const bufferedMessages = 500_000

// startTimeout bounds the recovery of an embedded server's streams at its start.
const startTimeout = time.Minute

// StreamsDir is the folder of the embedded server's streams in the data folder of a node.
const StreamsDir = "nats"

// ServerOptions configure an embedded server.
type ServerOptions struct {
	Dir       string       // folder of the streams
	Addr      string       // host:port; port 0 picks a free one
	Move      bool         // use a free port if this one is taken, instead of an error
	Users     string       // folder of the users' secrets; missing ones are created. Empty: no users
	TokenFile string       // file with a token for clients with all permissions; empty: none
	Insecure  bool         // accept all clients without a token, even beyond loopback
	Log       *slog.Logger // nil: slog.Default()
}

// Server is an embedded NATS server with JetStream. It syncs every write to disk before acknowledging it.
type Server struct {
	nats         *natsserver.Server
	users        *users // nil: no authentication
	refusals     *refusals
	portWasTaken bool
}

// StartServer starts an embedded server and returns once it accepts connections. It returns ErrListen if it can't or
// must not listen on the address, and ErrIdentity for an invalid token or secret. Clients log in as a user or with
// the token. A server with neither users nor a token accepts all clients.
func StartServer(o ServerOptions) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	host, port, err := listenOn(o.Addr)
	if err != nil {
		return nil, err
	}
	refused := &refusals{log: o.Log, dir: o.Users}
	logins, err := o.logins(host, refused)
	if err != nil {
		return nil, err
	}
	moved := false
	if err := free(host, port); errors.Is(err, syscall.EADDRINUSE) && o.Move {
		o.Log.Warn("the NATS port is taken; taking a free one", "addr", o.Addr)
		port, moved = natsserver.RANDOM_PORT, true
	} else if err != nil {
		return nil, fmt.Errorf("%w: NATS address %s: %w; stop what listens there, or set another address (port 0 picks a free one)", ErrListen, o.Addr, err)
	}
	options := &natsserver.Options{
		ServerName: "deadman", Host: host, Port: port, NoSigs: true,
		JetStream: true, StoreDir: o.Dir, SyncAlways: true,
		StreamMaxBufferedMsgs: bufferedMessages, DisableJetStreamBanner: true,
	}
	if logins != nil {
		options.CustomClientAuthentication = logins
	}
	srv, err := start(options, o.Log, refused)
	if err != nil {
		return nil, err
	}
	return &Server{nats: srv, users: logins, refusals: refused, portWasTaken: moved}, nil
}

// logins returns the users, or nil for no authentication.
func (o ServerOptions) logins(host string, refused *refusals) (*users, error) {
	token, err := o.token(host)
	if err != nil {
		return nil, err
	}
	known, err := newUsers(o.Users, token, refused)
	if err != nil || token == "" && (o.Insecure || o.Users == "") {
		return nil, err
	}
	return known, nil
}

// leastToken is the shortest secure token, in bytes of text.
const leastToken = 16

// token reads the token for clients with all permissions. Without one, the server must be on loopback.
func (o ServerOptions) token(host string) (string, error) {
	if o.TokenFile == "" {
		if !o.Insecure && !loopback(host) {
			return "", fmt.Errorf("%w: NATS address %s is reached from other machines, and every client could publish and read; name a file with a token (DEADMAN_NATS_TOKEN_FILE), listen on loopback, or start with --insecure", ErrListen, o.Addr)
		}
		return "", nil
	}
	token, err := Identity{Token: o.TokenFile}.token()
	if err == nil && len(token) < leastToken {
		err = fmt.Errorf("%w: DEADMAN_NATS_TOKEN_FILE: the token in %s has %d characters, and the least is %d; openssl rand -hex 32 makes one", ErrIdentity, o.TokenFile, len(token), leastToken)
	}
	if exposed(o.TokenFile) {
		o.Log.Warn("every user of this machine can read a secret for NATS; run chmod 600, so that only the node's user can read it", "file", o.TokenFile)
	}
	return token, err
}

// loopback reports whether a host is reachable only from this machine.
func loopback(host string) bool {
	addr, err := net.ResolveIPAddr("ip", host)
	return err == nil && addr.IP.IsLoopback()
}

func start(opts *natsserver.Options, log *slog.Logger, refused *refusals) (*natsserver.Server, error) {
	srv, err := natsserver.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	bridge := &serverLog{log: log, refused: refused, fatal: make(chan string, 1)}
	srv.SetLogger(bridge, false, false)
	ready := make(chan bool, 1)
	go func() {
		srv.Start()
		ready <- srv.ReadyForConnections(startTimeout)
	}()
	select {
	case ok := <-ready:
		if ok {
			return srv, nil
		}
		err = fmt.Errorf("start NATS: not ready within %s; see its log", startTimeout)
	case message := <-bridge.fatal:
		err = fmt.Errorf("start NATS: %s", message)
	}
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil, err
}

// listenOn parses an address. Port 0 becomes the server's constant for a free port.
func listenOn(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%w: NATS address %q is not host:port, such as 127.0.0.1:4222", ErrListen, addr)
	}
	if port == 0 {
		port = natsserver.RANDOM_PORT
	}
	return host, port, nil
}

// free returns an error if the port can't be listened on.
func free(host string, port int) error {
	if port == natsserver.RANDOM_PORT {
		return nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

// ClientURL returns the server's address for clients on this machine.
func (s *Server) ClientURL() string { return s.nats.ClientURL() }

// Loopback reports whether the server is reachable only from this machine.
func (s *Server) Loopback() bool {
	addr, ok := s.nats.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// Guarded reports whether clients must log in.
func (s *Server) Guarded() bool { return s.users != nil }

// Refused returns the number of failed logins and of denied requests.
func (s *Server) Refused() (logins, permissions uint64) { return s.refusals.counts() }

// PortWasTaken reports whether the requested port was taken.
func (s *Server) PortWasTaken() bool { return s.portWasTaken }

// InProcessConn returns a connection without a network, for a client in the same process.
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats.InProcessConn() }

// self authenticates a client in the same process as the node.
func (s *Server) self() nats.Option {
	if s.users == nil {
		return func(*nats.Options) error { return nil }
	}
	return nats.UserInfo(userNode, s.users.node)
}

// Close stops the server and returns once all data is on disk.
func (s *Server) Close() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}
