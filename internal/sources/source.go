// Package sources implements the clients of lookup sources: databases, HTTP services, and NATS. Spec is the
// operator's configuration of a source; its secrets never appear in errors.
package sources

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"deadman/checks/lookup"
)

// Spec is the configuration of one source. Exactly one of its kinds is set.
type Spec struct {
	Name     string
	Limits   lookup.Limits
	Postgres *Postgres
	SQLite   *SQLite
	HTTP     *HTTP
	NATS     *NATS // for services and buckets
}

// Most returns the maximum number of keys in one query, within the time of one question; 0: a whole batch. An HTTP
// service needs one request per key, over a few connections.
func (s Spec) Most() int {
	if s.HTTP != nil {
		return mostTogether
	}
	return 0
}

// Kind returns the kind of the source; empty: not specified.
func (s Spec) Kind() Kind {
	switch {
	case s.Postgres != nil:
		return KindPostgres
	case s.SQLite != nil:
		return KindSQLite
	case s.HTTP != nil:
		return KindHTTP
	case s.NATS != nil:
		return KindNATS
	}
	return ""
}

// Open returns the client of a source. It connects on first use; an error is one of the spec. conn returns the node's
// NATS connection; nil: no node is running.
func Open(s Spec, conn func() *nats.Conn) (lookup.Client, error) {
	switch {
	case s.Postgres != nil:
		return openPostgres(s.Name, *s.Postgres, s.Limits.WithDefaults().Concurrency)
	case s.SQLite != nil:
		return openSQLite(s.Name, *s.SQLite, s.Limits.WithDefaults().Concurrency)
	case s.HTTP != nil:
		return openHTTP(s.Name, *s.HTTP)
	case s.NATS != nil:
		return openNATS(s.Name, *s.NATS, conn)
	}
	return nil, fmt.Errorf("source %s: the kind of the source is missing", s.Name)
}
