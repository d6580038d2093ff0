package sources

import (
	"net/netip"
	"net/url"
	"time"
)

// Postgres is a database that is only read.
type Postgres struct {
	URL              string        // secret
	StatementTimeout time.Duration // of one query; 0: 2 s
}

// SQLite is a database file that is only read.
type SQLite struct {
	Path string
}

// HTTP is a service that answers GETs with JSON.
type HTTP struct {
	Base    *url.URL          // scheme, host and the beginning of the path
	Headers map[string]string // secret
	// Allow are addresses beyond public ones that the host may resolve to, such as 10.0.0.0/8.
	// Loopback, private, link-local and metadata addresses are refused without it.
	Allow []netip.Prefix
	CA    []byte // PEM; nil: the system's
}

// NATS is the node's own connection, or another one.
type NATS struct {
	URL   string // secret; empty: the node's own
	Creds string // a file
}
