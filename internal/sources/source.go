// Package sources holds the clients of what rules look up: databases, HTTP services, and NATS.
// What an operator's file says about a source is in Spec; no secret of it is in an error.
package sources

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"deadman/checks/lookup"
)

// Spec is what the operator says about one source. One of its kinds is set.
type Spec struct {
	Name     string
	Limits   lookup.Limits
	Postgres *Postgres
	SQLite   *SQLite
	HTTP     *HTTP
	NATS     *NATS // also of buckets
}

// Most is how many keys are asked about at once, in the time of one question; 0: a whole batch. A
// web service is asked about one after the other, over a few connections.
func (s Spec) Most() int {
	if s.HTTP != nil {
		return mostTogether
	}
	return 0
}

// Open returns the client of a source. It connects when it is first asked; an error is one of
// the spec. conn is the node's own connection to NATS; nil: there is no node.
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
	return nil, fmt.Errorf("source %s: it says nothing about what it is", s.Name)
}
