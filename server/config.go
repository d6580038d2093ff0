package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/store"
	"deadman/internal/subjects"
)

// The default addresses of an embedded node. Only these move to a free port if they are taken.
const (
	DefaultHTTPAddr = "127.0.0.1:8080"
	DefaultNATSAddr = "127.0.0.1:4222"
)

// Config configures a node. The zero value is a working embedded node.
type Config struct {
	DataDir     string             // embedded store and broker; empty: "deadman-data"
	DatabaseURL string             // Postgres; empty: SQLite in DataDir
	NATSURL     string             // a NATS cluster; empty: a server in the process
	NATSCreds   string             // a credentials file for NATSURL
	NATSNKey    string             // a file with an nkey seed for NATSURL
	NATSToken   string             // a file with a token: for NATSURL, or for clients of the embedded server
	NATSCA      string             // a file of CA certificates for NATSURL
	NATSCert    string             // a file with the client certificate for NATSURL
	NATSKey     string             // a file with the key of NATSCert
	Namespace   subjects.Namespace // separates deployments on one account of NATSURL; empty: none
	HTTPAddr    string             // empty: DefaultHTTPAddr, or a free port if that is taken
	NATSAddr    string             // of the embedded server; empty: DefaultNATSAddr, or a free port
	Rules       string             // a folder of rule files, applied at start; empty: none
	PublicURL   string             // the prefix of links in alerts
	Calendars   string             // a file of calendars for rules; empty: none
	Hooks       string             // a file of incoming webhooks; empty: none
	Sources     string             // a file of sources for lookups; empty: none
	Login       string             // a file of login methods for people; empty: tokens only
	Notify      string             // a file of notification channels and routes; empty: no notifications
	// The targets of the heartbeat that is sent while all shards are swept; empty: none.
	HeartbeatURL     string // receives POST requests; it may be a secret
	HeartbeatSubject string // of NATS
	OTLPEndpoint     string // base URL of an OpenTelemetry collector for traces (OTLP/HTTP); empty: no traces, unless Traces is set
	Traces           bool   // export traces as the variables OTEL_EXPORTER_OTLP_… say, without OTLPEndpoint
	Insecure         bool   // accept requests without a token, also beyond loopback; for NATS, if NATSToken is empty

	TrustedProxies    []netip.Prefix // proxies with a trusted X-Forwarded-For header; nil: none
	TokenRate         int            // requests per second and token; 0: 1000
	DeadLetterAlert   int            // number of dead letters that raises an alert; 0: 100
	Connections       int            // concurrent HTTP connections; 0: 8192
	ClientConnections int            // concurrent HTTP connections per address; 0: 1024

	Shards  int           // number of shards, at creation of the database; 0: 16
	Lease   time.Duration // duration of a shard's lease without renewal; 0: 15 s
	Workers int           // concurrent checks; 0: 64
	Drain   time.Duration // maximum duration of a shutdown; 0: 10 s

	MemoryLimit int64 // of the process, in bytes; compiled rules use a quarter of it; 0: up to 1 GiB

	HeartbeatEvery  time.Duration // 0: 1 minute; at least 1 s
	AlertsBytes     int64         // maximum size of the stream of alerts, at its creation; 0: 1 GiB
	EventsBytes     int64         // maximum size of the stream of events, at its creation; 0: 4 GiB
	KeepHistory     time.Duration // 0: 90 days
	KeepAlerts      time.Duration // 0: 30 days
	KeepDeadLetters time.Duration // 0: 7 days

	// Env resolves environment variables referenced by the Sources and Login files. If nil, none are set.
	Env func(name string) string

	// Clock is the clock of the database in DataDir; nil: the machine's clock. Tests set it.
	Clock func() time.Time

	letterLimits  store.LetterLimits // of dead letters; zero: store.DefaultLetterLimits; tests set it
	quotasEvery   time.Duration      // interval at which quotas are read; 0: quotasEvery; tests set it
	maintainEvery time.Duration      // interval of maintenance; 0: maintenanceInterval; tests set it
	overdueAfter  time.Duration      // age at which due jobs and standstills are reported; 0: overdueAfter; tests set it

	// Schemas are served beside those of the function Schemas, by name: the JSON Schemas of the program's own files. nil: none.
	Schemas map[string]func() ([]byte, error)

	// Handlers are the program's own handlers for rules; nil: none. They must be registered before Run.
	Handlers *checks.Handlers

	Log     *slog.Logger    // nil: slog.Default()
	Version string          // displayed version of the program; empty: "dev"
	Ready   func(Endpoints) // called when the node is ready to serve; may be nil
	Reload  <-chan struct{} // each receive reloads the files Hooks, Notify, Login and Sources; may be nil
	// FirstToken is called before Ready if the node created its first token itself, with the token and the login
	// address. The token is not shown again. If nil, the token is logged.
	FirstToken func(secret, login string)
}

// Endpoints lists the addresses of a node.
type Endpoints struct {
	HTTP string `json:"http"`
	NATS string `json:"nats"` // without credentials
	// NATSUsers is the folder with the user secrets of an embedded NATS server; empty: none are needed.
	NATSUsers string `json:"nats_users,omitempty"`
	Open      bool   `json:"open,omitempty"` // the node accepts requests without a token
}

// WithDefaults replaces zero settings by their defaults.
func (c Config) WithDefaults() Config {
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
	fill(&c.DeadLetterAlert, 100)
	fill(&c.Connections, 8192)
	fill(&c.ClientConnections, 1024)
	fill(&c.Version, "dev")
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.letterLimits == (store.LetterLimits{}) {
		c.letterLimits = store.DefaultLetterLimits
	}
	fill(&c.quotasEvery, quotasEvery)
	fill(&c.maintainEvery, maintenanceInterval)
	fill(&c.overdueAfter, overdueAfter)
	if c.Env == nil {
		c.Env = func(string) string { return "" }
	}
	if c.Ready == nil {
		c.Ready = func(Endpoints) {}
	}
	return c
}

// fill sets a zero setting to a default.
func fill[T comparable](setting *T, value T) {
	var zero T
	if *setting == zero {
		*setting = value
	}
}

// ErrHalfConfigured means that the nodes would share the database but not the broker.
var ErrHalfConfigured = errors.New("half configured")

// Validate rejects settings that conflict. Nodes with a shared database and separate brokers would lose the events of
// all brokers but one.
func (c Config) Validate() error {
	if set := c.Identity(); c.NATSURL == "" && set != (bus.Identity{Token: set.Token}) {
		return fmt.Errorf("%w: DEADMAN_NATS_CREDS, _NKEY, _CA, _CERT and _KEY are for servers elsewhere, and DEADMAN_NATS_URL is not set; set it, or leave them out", ErrHalfConfigured)
	}
	if c.Namespace != "" && c.NATSURL == "" {
		return fmt.Errorf("%w: DEADMAN_NAMESPACE is set and DEADMAN_NATS_URL is not; leave it out, since the embedded server has one deployment", ErrHalfConfigured)
	}
	if c.DatabaseURL != "" && c.NATSURL == "" {
		return fmt.Errorf("%w: DEADMAN_DATABASE_URL is set and DEADMAN_NATS_URL is not; set both, or neither for an embedded node", ErrHalfConfigured)
	}
	if c.Login != "" && c.Insecure {
		return errors.New("DEADMAN_INSECURE admits every client without a login, and DEADMAN_LOGIN is set; leave one of them out")
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

// Identity returns the node's credentials for the broker.
func (c Config) Identity() bus.Identity {
	return bus.Identity{Creds: c.NATSCreds, NKey: c.NATSNKey, Token: c.NATSToken, CA: c.NATSCA, Cert: c.NATSCert, Key: c.NATSKey}
}

// embedded reports whether the node keeps any state in its data folder.
func (c Config) embedded() bool { return c.DatabaseURL == "" || c.NATSURL == "" }

// natsDir returns the folder of the embedded broker's streams.
func (c Config) natsDir() string { return filepath.Join(c.DataDir, bus.StreamsDir) }

// natsUsersDir returns the folder of the secrets of its users.
func (c Config) natsUsersDir() string { return filepath.Join(c.DataDir, bus.UsersDir) }

// retention returns the periods of the settings.
func (c Config) retention() store.Retention {
	return store.Retention{History: c.KeepHistory, Alerts: c.KeepAlerts, DeadLetters: c.KeepDeadLetters, Audit: c.KeepHistory, Pings: c.KeepHistory}
}
