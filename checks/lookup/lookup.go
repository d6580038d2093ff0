// Package lookup queries external sources for rules: in batches, with bounds on the effects of a source that hangs or
// fails. The clients are in package sources.
package lookup

import (
	"context"
	"crypto/x509"
	"errors"

	"deadman/checks"
)

// BatchMost is the largest number of keys in one round trip.
const BatchMost = 2000

// Question is a rule's query to a source, the same for all keys. One of SQL, HTTP, NATS and KV is set.
type Question struct {
	SQL  string // a query for one key, with parameters $1, $2, …
	HTTP *HTTP
	NATS bool   // a request on KeyQuery.Subject
	KV   string // a bucket

	Subject string // of NATS: the pattern of the request subjects; empty: unknown
}

// HTTP describes the interpretation of a response to a GET.
type HTTP struct {
	Absent []int // statuses that mean that the entity does not exist
}

// KeyQuery holds the parameters of a question for one key. The field for the kind of the question is set.
type KeyQuery struct {
	Params  []any  // of SQL: nil, bool, int, float64, string, json.Number or time.Time
	Path    string // of HTTP, escaped
	Subject string // of NATS
	Key     string // of KV
}

// Column is one field in the result of a question.
type Column struct {
	Name string
	Type Type
}

// Type is the JSON type of a column's values.
type Type string

// The types.
const (
	Text    Type = "text"
	Number  Type = "number"
	Boolean Type = "boolean"
	Any     Type = "any"
)

// Limits of the result for one key; a larger result is an error of that key.
const (
	MaxValue = 64 << 10 // bytes of JSON
	MaxDepth = 64       // levels of nesting
)

// ErrQuestion means that a source permanently rejects a question. The wrapping error describes the problem.
var ErrQuestion = errors.New("the source rejects the query")

// ErrUndefined means that a source is not defined on this node.
var ErrUndefined = errors.New("the source is not defined")

// Client queries one source. It does not bound its concurrency; Source does. Its errors contain no secrets.
// Implementations are in package sources, and are safe for concurrent use.
type Client interface {
	// Query queries many keys, at most BatchMost, in as few round trips as possible; finding i belongs to queries[i]. An
	// error of one key is in its finding and affects no other key. A returned error affects the source as a whole: no
	// key can be looked up at the moment or, if it wraps ErrQuestion, ever with this question.
	Query(ctx context.Context, q Question, queries []KeyQuery) ([]checks.Finding, error)
	// Verify validates a question without executing it. It returns an ErrQuestion for an invalid one; params is the
	// number of its parameters. columns describes the result, if known. Any other error means that the source can't
	// be queried at the moment.
	Verify(ctx context.Context, q Question, params int) (columns []Column, err error)
	// Reach returns an error if the source can't be reached, without a query for any entity.
	Reach(ctx context.Context) error
	// Close closes connections.
	Close()
}

// Certified is a Client of a service with TLS.
type Certified interface {
	// Certificate returns the certificate of the service as of the last Reach; nil: the service has none, or was not reached.
	Certificate() *x509.Certificate
}

// Cautious is a Client that knows its excess permissions.
type Cautious interface {
	// Caution describes permissions beyond those needed, with a remedy; empty: none, or not connected yet.
	Caution() string
}
