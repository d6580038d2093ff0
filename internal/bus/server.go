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

// bufferedMessages is how many core publishes a stream holds while it writes. The server's
// own default is passed by a burst of producers that do not wait, and what is over it is
// lost without a word.
const bufferedMessages = 500_000

// startTimeout bounds how long an embedded server may take to recover its streams.
const startTimeout = time.Minute

// ServerOptions say where an embedded server keeps its streams and listens.
type ServerOptions struct {
	Dir       string       // streams are stored here
	Addr      string       // host:port; port 0 picks a free one
	Move      bool         // a port that is taken moves to a free one, instead of being an error
	Users     string       // a folder with the secrets of the users, which are made where they are missing; empty: there are none
	TokenFile string       // holds a token of clients that may do everything; empty: there is none
	Insecure  bool         // without a token, answer everybody, also beyond loopback
	Log       *slog.Logger // nil: slog.Default()
}

// Server is a NATS server with JetStream inside this process. Every write is on disk before
// it is acknowledged.
type Server struct {
	nats     *natsserver.Server
	users    *users // nil: it answers everybody
	refusals *refusals
	moved    bool
}

// StartServer returns once the server takes connections. It returns ErrListen where it cannot or
// must not listen, and ErrIdentity when a file holds no good token or secret. Clients log in as a
// user or with the token. A server with neither users nor a token answers everybody.
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
	return &Server{nats: srv, users: logins, refusals: refused, moved: moved}, nil
}

// logins are the users; nil: everybody gets in.
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

// leastToken is how long a token is that nobody guesses, in bytes of text.
const leastToken = 16

// token is that of clients that may do everything. Without one, only this machine may reach the server.
func (o ServerOptions) token(host string) (string, error) {
	if o.TokenFile == "" {
		if !o.Insecure && !loopback(host) {
			return "", fmt.Errorf("%w: NATS address %s is reached from other machines, and whoever reaches it could publish and read; name a file with a token (DEADMAN_NATS_TOKEN_FILE), listen on loopback, or start with --insecure", ErrListen, o.Addr)
		}
		return "", nil
	}
	token, err := Identity{Token: o.TokenFile}.token()
	if err == nil && len(token) < leastToken {
		err = fmt.Errorf("%w: DEADMAN_NATS_TOKEN_FILE: the token in %s has %d characters, and the least is %d; openssl rand -hex 32 makes one", ErrIdentity, o.TokenFile, len(token), leastToken)
	}
	if exposed(o.TokenFile) {
		o.Log.Warn("a secret for NATS can be read by everybody on this machine; chmod 600 keeps it to the node's user", "file", o.TokenFile)
	}
	return token, err
}

// loopback reports whether only this machine reaches a host.
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
	case said := <-bridge.fatal:
		err = fmt.Errorf("start NATS: %s", said)
	}
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil, err
}

// listenOn takes an address apart. Port 0 becomes the server's word for a free port.
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

// free reports, as an error, why nothing can listen on the port.
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

// ClientURL is where clients on this machine reach the server.
func (s *Server) ClientURL() string { return s.nats.ClientURL() }

// Loopback reports whether only this machine reaches the server.
func (s *Server) Loopback() bool {
	addr, ok := s.nats.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// Guarded reports whether clients have to log in.
func (s *Server) Guarded() bool { return s.users != nil }

// Refused returns how many clients could not log in, and how often one that did was not permitted
// what it wanted.
func (s *Server) Refused() (logins, permissions uint64) { return s.refusals.counts() }

// Moved reports whether the port that was asked for was taken.
func (s *Server) Moved() bool { return s.moved }

// InProcessConn is a connection that does not touch the network. It makes a Server fit for
// a client in the same process.
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats.InProcessConn() }

// self logs a client in the same process in as the node.
func (s *Server) self() nats.Option {
	if s.users == nil {
		return func(*nats.Options) error { return nil }
	}
	return nats.UserInfo(userNode, s.users.node)
}

// Close stops the server and returns once everything is on disk.
func (s *Server) Close() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}
