package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
)

// The addresses that an embedded node listens on where nobody set others. Only these move
// to a free port when they are taken.
const (
	DefaultHTTPAddr = "127.0.0.1:8080"
	DefaultNATSAddr = "127.0.0.1:4222"
)

// Config is what a node runs with. The zero value is a working embedded node.
type Config struct {
	DataDir     string // embedded store and broker; empty: "deadman-data"
	DatabaseURL string // Postgres; empty: SQLite in DataDir
	NATSURL     string // a NATS cluster; empty: a server in the process
	NATSCreds   string // a credentials file for NATSURL
	NATSNKey    string // a file with an nkey seed for NATSURL
	NATSToken   string // a file with a token: for NATSURL, or for clients of the embedded server
	NATSCA      string // a file of certificates: who vouches for NATSURL
	NATSCert    string // a file with the client certificate for NATSURL
	NATSKey     string // a file with the key of NATSCert
	HTTPAddr    string // empty: DefaultHTTPAddr, or a free port where that is taken
	NATSAddr    string // of the embedded server; empty: DefaultNATSAddr, or a free port
	Rules       string // a folder of rule files, applied at start; empty: none
	PublicURL   string // what links in alerts begin with
	Calendars   string // a file of calendars that rules may name; empty: none
	Hooks       string // a file of webhooks of others that are taken in; empty: none
	Sources     string // a file of what rules may look up in; empty: nothing
	Login       string // a file of how people log in without a token; empty: they do not
	Notify      string // a file of channels and routes for people; empty: nobody is told
	// Where a heartbeat goes while all shards are swept; empty: nowhere.
	HeartbeatURL     string // is asked with POST; it may be a secret
	HeartbeatSubject string // of NATS
	Insecure         bool   // answer everybody, also beyond loopback; over NATS where there is no NATSToken

	TrustedProxies    []netip.Prefix // proxies whose X-Forwarded-For names the client; nil: none
	TokenRate         int            // requests a second of one token; 0: 1000
	Connections       int            // HTTP connections at once; 0: 8192
	ClientConnections int            // HTTP connections of one address at once; 0: 1024

	Shards  int           // how many, at creation of the database; 0: 16
	Lease   time.Duration // how long a shard is held without renewal; 0: 15 s
	Workers int           // checks run at once; 0: 64
	Drain   time.Duration // how long a stopping node may take; 0: 10 s

	MemoryLimit int64 // of the process, in bytes: compiled rules take a quarter of it; 0: up to 1 GiB

	HeartbeatEvery  time.Duration // 0: 1 minute; at least 1 s
	AlertsBytes     int64         // the most that the stream of alerts may hold, when it is created; 0: 1 GiB
	EventsBytes     int64         // the most that the stream of events may hold, when it is created; 0: 4 GiB
	KeepHistory     time.Duration // 0: 90 days
	KeepAlerts      time.Duration // 0: 30 days
	KeepDeadLetters time.Duration // 0: 7 days

	// Env is what a variable of the environment holds that the files Sources and Login name; nil: nothing.
	Env func(name string) string

	// Clock is the clock of the database in DataDir; nil: the machine's. Tests set it.
	Clock func() time.Time

	// Handlers are those of the program that rules may name; nil: none. They are registered before.
	Handlers *checks.Handlers

	Log     *slog.Logger    // nil: slog.Default()
	Version string          // of the program, for people; empty: "dev"
	Ready   func(Endpoints) // called once the node serves; may be nil
	Reload  <-chan struct{} // each time, the files Hooks, Notify and Login are read again; may be nil
	// FirstToken is called where the node made its first token itself, with the token and
	// the address to log in at, before Ready. It is the only time that anybody sees it.
	// nil: it is logged.
	FirstToken func(secret, login string)
}

// Endpoints is where a node can be reached.
type Endpoints struct {
	HTTP string `json:"http"`
	NATS string `json:"nats"` // without who logs in there
	// NATSUsers is a folder, with the secrets of the users of a NATS server in the process; empty: none are needed.
	NATSUsers string `json:"nats_users,omitempty"`
	Open      bool   `json:"open,omitempty"` // whoever reaches it may do everything
}

func (c Config) withDefaults() Config {
	fill(&c.DataDir, "deadman-data")
	fill(&c.Shards, 16)
	fill(&c.Lease, 15*time.Second)
	fill(&c.Workers, 64)
	fill(&c.Drain, 10*time.Second)
	fill(&c.HeartbeatEvery, time.Minute)
	fill(&c.KeepHistory, 90*futurejobs.Day)
	fill(&c.KeepAlerts, 30*futurejobs.Day)
	fill(&c.KeepDeadLetters, 7*futurejobs.Day)
	fill(&c.TokenRate, 1000)
	fill(&c.Connections, 8192)
	fill(&c.ClientConnections, 1024)
	fill(&c.Version, "dev")
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Env == nil {
		c.Env = func(string) string { return "" }
	}
	if c.Ready == nil {
		c.Ready = func(Endpoints) {}
	}
	return c
}

// fill sets a setting that was left at its zero value.
func fill[T comparable](setting *T, value T) {
	var zero T
	if *setting == zero {
		*setting = value
	}
}

// ErrHalfConfigured means that nodes could share the database but not the broker.
var ErrHalfConfigured = errors.New("half configured")

// check refuses settings that do not go together. Nodes that share a database but have a
// broker each would lose the events of all brokers but one.
func (c Config) check() error {
	if set := c.identity(); c.NATSURL == "" && set != (bus.Identity{Token: set.Token}) {
		return fmt.Errorf("%w: DEADMAN_NATS_CREDS, _NKEY, _CA, _CERT and _KEY are for servers elsewhere, and DEADMAN_NATS_URL is not set; set it, or leave them out", ErrHalfConfigured)
	}
	if c.DatabaseURL != "" && c.NATSURL == "" {
		return fmt.Errorf("%w: DEADMAN_DATABASE_URL is set and DEADMAN_NATS_URL is not; set both, or neither for an embedded node", ErrHalfConfigured)
	}
	if c.Login != "" && c.Insecure {
		return errors.New("DEADMAN_INSECURE answers everybody without a login, and DEADMAN_LOGIN is set; leave one of them out")
	}
	if c.HeartbeatEvery < minHeartbeatInterval {
		return fmt.Errorf("DEADMAN_HEARTBEAT_EVERY is %s; write %s or more", c.HeartbeatEvery, minHeartbeatInterval)
	}
	if c.HeartbeatSubject != "" {
		if err := bus.CheckLiteral(c.HeartbeatSubject); err != nil {
			return fmt.Errorf("DEADMAN_HEARTBEAT_SUBJECT: %w", err)
		}
	}
	return nil
}

// identity is how the node proves who it is to the broker.
func (c Config) identity() bus.Identity {
	return bus.Identity{Creds: c.NATSCreds, NKey: c.NATSNKey, Token: c.NATSToken, CA: c.NATSCA, Cert: c.NATSCert, Key: c.NATSKey}
}

// embedded reports whether anything of the node lives in its data folder.
func (c Config) embedded() bool { return c.DatabaseURL == "" || c.NATSURL == "" }
